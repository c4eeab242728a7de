//! Server-sent events are parsed according to the standard, independent of chunk boundaries.

use super::fuzz_corpus::sse as checks;
use proptest::prelude::*;

/// Stream fragments, from whole lines to single bytes.
fn any_piece() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = vec![
        b"\n",
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b"\r\n\r\n",
        b":",
        b": ",
        b" ",
        b"\0",
        b"\xEF\xBB\xBF",
        b"\xEF",
        b"\xBB",
        b"\xF0\x9F\x98\x80",
        b"\xE2\x82",
        b"\xFF",
        b"data",
        b"data:",
        b"data: x\n",
        b"event",
        b"event: a\n",
        b"id",
        b"id: 1\n",
        b"id:\n",
        b"retry: ",
        b"retry: 10\n",
        b"7",
        b"unknown: x\n",
        b": comment\n",
    ];
    prop_oneof![
        8 => prop::sample::select(known).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

proptest! {
    #[test]
    fn chunk_boundaries_do_not_change_events(
        limit in 0..40_u8,
        seed in any::<u8>(),
        pieces in prop::collection::vec(any_piece(), 0..40),
    ) {
        checks::check(&[vec![limit, seed], pieces.concat()].concat());
    }
}

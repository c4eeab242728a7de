//! Bodies that are compressed once and sent often.

use std::io::Write;

use axum::body::Bytes;
use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// A body, its compressed form, and a digest for ETags.
#[derive(Debug, Clone)]
pub(crate) struct EncodedBody {
    pub(crate) plain: Bytes,
    pub(crate) gzip: Option<Bytes>,
    pub(crate) digest: String,
}

impl EncodedBody {
    pub(crate) fn new(text: String) -> Self {
        Self {
            gzip: gzip(text.as_bytes()).ok().map(Bytes::from),
            digest: HEXLOWER.encode(&Sha256::digest(&text)[..16]),
            plain: Bytes::from(text),
        }
    }
}

pub(crate) fn gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

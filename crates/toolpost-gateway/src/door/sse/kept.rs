//! The last events of a stream, as many as there is room for.

use std::collections::VecDeque;

use axum::body::Bytes;

/// Events by their numbers, which begin with one. When there is no room, the oldest are dropped.
#[derive(Debug)]
pub(super) struct Kept {
    events: VecDeque<Bytes>,
    /// The number of the next event.
    next: u64,
    bytes: usize,
    most_events: usize,
    most_bytes: usize,
}

impl Kept {
    pub(super) fn new(most_events: usize, most_bytes: usize) -> Self {
        Self { events: VecDeque::new(), next: 1, bytes: 0, most_events, most_bytes }
    }

    /// Keeps an event under the next number, and says whether all those before it are still there.
    pub(super) fn push(&mut self, event: Bytes) -> bool {
        let before = self.first();
        self.bytes += event.len();
        self.events.push_back(event);
        self.next += 1;
        while self.events.len() > self.most_events || self.bytes > self.most_bytes {
            let dropped = self.events.pop_front().map_or(0, |event| event.len());
            self.bytes -= dropped;
        }
        self.first() == before
    }

    pub(super) fn get(&self, number: u64) -> Option<Bytes> {
        let at = number.checked_sub(self.first())?;
        self.events.get(usize::try_from(at).ok()?).cloned()
    }

    /// The number of the oldest event that is there, or of the next if none is.
    pub(super) fn first(&self) -> u64 {
        self.next - self.events.len() as u64
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the sizes of events, then the first number that is left and the next.
    #[test]
    fn the_oldest_make_room() {
        for (sizes, first, next) in [
            (&[][..], 1, 1),
            (&[4, 4], 1, 3),
            (&[1, 1, 1, 1], 2, 5),
            (&[4, 4, 4], 2, 4),
            (&[1, 11], 3, 3),
            (&[11, 1], 2, 3),
        ] {
            let mut kept = Kept::new(3, 10);
            for size in sizes {
                let before = kept.first();
                assert_eq!(kept.push(vec![0; *size].into()), kept.first() == before);
            }
            assert_eq!((kept.first(), kept.next()), (first, next), "{sizes:?}");
            for number in 0..next + 1 {
                let expected = (first..next).contains(&number);
                assert_eq!(kept.get(number).is_some(), expected, "{sizes:?} {number}");
            }
        }
    }
}

//! Bounded buffer of the most recent events of a stream.

use std::collections::VecDeque;

use axum::body::Bytes;

/// Events by number, starting with one. The oldest are dropped when the buffer is full.
#[derive(Debug)]
pub(super) struct ReplayBuffer {
    events: VecDeque<Bytes>,
    /// Number of the next event.
    next: u64,
    bytes: usize,
    max_events: usize,
    max_bytes: usize,
}

impl ReplayBuffer {
    pub(super) fn new(max_events: usize, max_bytes: usize) -> Self {
        Self { events: VecDeque::new(), next: 1, bytes: 0, max_events, max_bytes }
    }

    /// Adds an event under the next number. Returns false if events were dropped.
    pub(super) fn push(&mut self, event: Bytes) -> bool {
        let before = self.first_number();
        self.bytes += event.len();
        self.events.push_back(event);
        self.next += 1;
        while self.events.len() > self.max_events || self.bytes > self.max_bytes {
            let dropped = self.events.pop_front().map_or(0, |event| event.len());
            self.bytes -= dropped;
        }
        self.first_number() == before
    }

    pub(super) fn get(&self, number: u64) -> Option<Bytes> {
        let at = number.checked_sub(self.first_number())?;
        self.events.get(usize::try_from(at).ok()?).cloned()
    }

    /// Returns the number of the oldest buffered event, or the next number if the buffer is empty.
    pub(super) fn first_number(&self) -> u64 {
        self.next - self.events.len() as u64
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the event sizes, and the expected first and next number.
    #[test]
    fn replay_buffer_drops_oldest_events() {
        for (sizes, first, next) in [
            (&[][..], 1, 1),
            (&[4, 4], 1, 3),
            (&[1, 1, 1, 1], 2, 5),
            (&[4, 4, 4], 2, 4),
            (&[1, 11], 3, 3),
            (&[11, 1], 2, 3),
        ] {
            let mut buffer = ReplayBuffer::new(3, 10);
            for size in sizes {
                let before = buffer.first_number();
                assert_eq!(buffer.push(vec![0; *size].into()), buffer.first_number() == before);
            }
            assert_eq!((buffer.first_number(), buffer.next_number()), (first, next), "{sizes:?}");
            for number in 0..next + 1 {
                let expected = (first..next).contains(&number);
                assert_eq!(buffer.get(number).is_some(), expected, "{sizes:?} {number}");
            }
        }
    }
}

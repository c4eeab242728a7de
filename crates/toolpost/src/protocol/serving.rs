//! The requests of a peer that are being worked on here.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::CallError;

/// What one peer has asked for and was not answered yet. `R` is whatever runs.
#[derive(Debug)]
pub struct Serving<R> {
    running: HashMap<Arc<str>, R, foldhash::fast::RandomState>,
    most: usize,
}

impl<R> Serving<R> {
    /// An empty table with room for `most` requests.
    pub fn new(most: usize) -> Self {
        Self { running: HashMap::default(), most }
    }

    /// How many are being worked on.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether a request of that id may begin.
    ///
    /// # Errors
    ///
    /// `VALIDATION_ERROR` for an id that is in use: its answers could not be told apart.
    /// `OVERLOADED` when there is no room; nothing was started.
    pub fn admit(&self, id: &str) -> Result<(), CallError> {
        if self.running.contains_key(id) {
            let message = format!("the request id `{id}` is already in use on this connection");
            return Err(CallError::validation(message, &[]));
        }
        if self.running.len() >= self.most {
            return Err(CallError::overloaded(format!(
                "{} requests of this connection are in flight, which is the limit",
                self.most
            )));
        }
        Ok(())
    }

    /// Notes what runs for a request that was admitted.
    pub fn begin(&mut self, id: Arc<str>, running: R) {
        self.running.insert(id, running);
    }

    /// What runs for a request.
    pub fn get(&self, id: &str) -> Option<&R> {
        self.running.get(id)
    }

    /// The request has ended.
    pub fn end(&mut self, id: &str) -> Option<R> {
        self.running.remove(id)
    }

    /// Everything that runs; the table is empty after it.
    pub fn take(&mut self) -> Vec<R> {
        self.running.drain().map(|(_, running)| running).collect()
    }
}

/// Topics that a peer says it wants, counted. Answers go to whoever asked whether it says so or not;
/// a peer that does gets nothing more, so that nobody can listen to another's requests.
#[derive(Debug, Default)]
pub struct Topics {
    wanted: HashMap<String, u32>,
}

/// How many topics a peer may name.
const MOST_TOPICS: usize = 4_096;

impl Topics {
    /// Wants a topic once more.
    ///
    /// # Errors
    ///
    /// `OVERLOADED`: too many topics.
    pub fn add(&mut self, topic: String) -> Result<(), CallError> {
        if self.wanted.len() >= MOST_TOPICS && !self.wanted.contains_key(&topic) {
            let message = format!("{MOST_TOPICS} topics are subscribed to, which is the limit");
            return Err(CallError::overloaded(message));
        }
        let count = self.wanted.entry(topic).or_default();
        *count = count.saturating_add(1);
        Ok(())
    }

    /// Takes one wish back.
    ///
    /// # Errors
    ///
    /// `VALIDATION_ERROR`: nobody wanted it.
    pub fn remove(&mut self, topic: &str) -> Result<(), CallError> {
        let Some(count) = self.wanted.get_mut(topic) else {
            let message = format!("the topic `{topic}` is not subscribed to");
            return Err(CallError::validation(message, &[]));
        };
        *count -= 1;
        if *count == 0 {
            self.wanted.remove(topic);
        }
        Ok(())
    }

    /// How many different topics are wanted.
    pub fn len(&self) -> usize {
        self.wanted.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_serves_one_request_at_a_time_and_room_is_bounded() {
        let mut serving = Serving::new(2);
        let begin = |serving: &mut Serving<u8>, id: &str| {
            let admitted = serving.admit(id);
            if admitted.is_ok() {
                serving.begin(id.into(), 0);
            }
            admitted.map_err(|error| error.code().as_str().to_owned())
        };
        for (id, expected) in [
            ("a", Ok(())),
            ("a", Err("VALIDATION_ERROR".to_owned())),
            ("b", Ok(())),
            ("b", Err("VALIDATION_ERROR".to_owned())),
            ("c", Err("OVERLOADED".to_owned())),
        ] {
            assert_eq!(begin(&mut serving, id), expected, "{id}");
        }
        assert!(serving.end("a").is_some());
        assert!(serving.end("a").is_none());
        assert_eq!(begin(&mut serving, "c"), Ok(()));
        assert_eq!(serving.take().len(), 2);
        assert!(serving.is_empty());
    }

    #[test]
    fn topics_are_counted() {
        let mut topics = Topics::default();
        topics.add("call.responded:1".to_owned()).unwrap();
        topics.add("call.responded:1".to_owned()).unwrap();
        assert_eq!(topics.len(), 1);
        topics.remove("call.responded:1").unwrap();
        assert_eq!(topics.len(), 1);
        topics.remove("call.responded:1").unwrap();
        assert!(topics.is_empty());
        let error = topics.remove("call.responded:1").unwrap_err();
        assert_eq!(error.code().as_str(), "VALIDATION_ERROR");
        for number in 0..MOST_TOPICS {
            topics.add(format!("call.responded:{number}")).unwrap();
        }
        topics.add("call.responded:0".to_owned()).unwrap();
        let error = topics.add("call.responded:more".to_owned()).unwrap_err();
        assert_eq!(error.code().as_str(), "OVERLOADED");
    }
}

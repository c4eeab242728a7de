//! Requests from a peer that this side is processing.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::CallError;

/// Requests from one peer that are in flight. `R` is the state of a running request.
#[derive(Debug)]
pub struct InflightRequests<R> {
    requests: HashMap<Arc<str>, R, foldhash::fast::RandomState>,
    max: usize,
}

impl<R> InflightRequests<R> {
    /// Creates an empty table with capacity for `max` requests.
    pub fn new(max: usize) -> Self {
        Self { requests: HashMap::default(), max }
    }

    /// Returns the number of requests in flight.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether no request is in flight.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Checks whether a request with this id can start.
    ///
    /// # Errors
    ///
    /// Returns `VALIDATION_ERROR` if the id is in use, because the responses would be ambiguous,
    /// and `OVERLOADED` if the limit is reached.
    pub fn admit(&self, id: &str) -> Result<(), CallError> {
        if self.requests.contains_key(id) {
            let message = format!("the request id `{id}` is already in use on this connection");
            return Err(CallError::validation(message, &[]));
        }
        if self.requests.len() >= self.max {
            return Err(CallError::overloaded(format!(
                "request limit reached: {} in flight on this connection",
                self.max
            )));
        }
        Ok(())
    }

    /// Adds the running state of an admitted request.
    pub fn insert(&mut self, id: Arc<str>, running: R) {
        self.requests.insert(id, running);
    }

    /// Returns the running state of a request.
    pub fn get(&self, id: &str) -> Option<&R> {
        self.requests.get(id)
    }

    /// Removes a request that has ended and returns its running state.
    pub fn remove(&mut self, id: &str) -> Option<R> {
        self.requests.remove(id)
    }

    /// Removes all requests and returns their running states.
    pub fn drain(&mut self) -> Vec<R> {
        self.requests.drain().map(|(_, running)| running).collect()
    }
}

/// Topics that a peer has subscribed to, with a count for each. Subscriptions do not affect
/// routing: responses always go to the peer that sent the request, so a peer cannot observe the
/// requests of another peer.
#[derive(Debug, Default)]
pub struct Topics {
    subscriptions: HashMap<String, u32>,
}

/// Maximum number of topics a peer can subscribe to.
const MAX_TOPICS: usize = 4_096;

impl Topics {
    /// Adds a subscription to a topic.
    ///
    /// # Errors
    ///
    /// Returns `OVERLOADED` if there are too many topics.
    pub fn add(&mut self, topic: String) -> Result<(), CallError> {
        if self.subscriptions.len() >= MAX_TOPICS && !self.subscriptions.contains_key(&topic) {
            let message = format!("topic limit reached: {MAX_TOPICS} subscribed");
            return Err(CallError::overloaded(message));
        }
        let count = self.subscriptions.entry(topic).or_default();
        *count = count.saturating_add(1);
        Ok(())
    }

    /// Removes one subscription to a topic.
    ///
    /// # Errors
    ///
    /// Returns `VALIDATION_ERROR` if the peer is not subscribed to the topic.
    pub fn remove(&mut self, topic: &str) -> Result<(), CallError> {
        let Some(count) = self.subscriptions.get_mut(topic) else {
            let message = format!("the topic `{topic}` is not subscribed to");
            return Err(CallError::validation(message, &[]));
        };
        *count -= 1;
        if *count == 0 {
            self.subscriptions.remove(topic);
        }
        Ok(())
    }

    /// Returns the number of distinct topics.
    pub fn len(&self) -> usize {
        self.subscriptions.len()
    }

    /// Whether the peer has no topic subscriptions.
    pub fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inflight_requests_reject_duplicate_ids_and_overload() {
        let mut inflight = InflightRequests::new(2);
        let begin = |inflight: &mut InflightRequests<u8>, id: &str| {
            let admitted = inflight.admit(id);
            if admitted.is_ok() {
                inflight.insert(id.into(), 0);
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
            assert_eq!(begin(&mut inflight, id), expected, "{id}");
        }
        assert!(inflight.remove("a").is_some());
        assert!(inflight.remove("a").is_none());
        assert_eq!(begin(&mut inflight, "c"), Ok(()));
        assert_eq!(inflight.drain().len(), 2);
        assert!(inflight.is_empty());
    }

    #[test]
    fn topics_count_repeated_subscriptions() {
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
        for number in 0..MAX_TOPICS {
            topics.add(format!("call.responded:{number}")).unwrap();
        }
        topics.add("call.responded:0".to_owned()).unwrap();
        let error = topics.add("call.responded:more".to_owned()).unwrap_err();
        assert_eq!(error.code().as_str(), "OVERLOADED");
    }
}

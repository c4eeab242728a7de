//! In-process calls, without protocol events.

use futures::future::BoxFuture;
use toolpost::connection::Client;
use toolpost::{Authority, Pipeline};

use super::harness::{RequestSource, TestTransport, TransportHarness};

pub(super) struct InProcess;

impl TestTransport for InProcess {
    fn start(&self, responses: RequestSource) -> BoxFuture<'static, Box<dyn TransportHarness>> {
        let RequestSource::Pipeline(pipeline) = responses else {
            panic!("an in-process client sends no events");
        };
        Box::pin(async { Box::new(InProcessHarness(pipeline)) as Box<dyn TransportHarness> })
    }

    /// Zero: a stream that is not polled produces nothing.
    fn max_buffered_values(&self) -> usize {
        0
    }
}

struct InProcessHarness(Pipeline);

impl TransportHarness for InProcessHarness {
    fn client(&self) -> BoxFuture<'_, Client> {
        let client = Client::in_process(self.0.clone(), Authority::untrusted(None));
        Box::pin(std::future::ready(client))
    }

    fn inflight_count(&self) -> usize {
        self.0.in_flight()
    }
}

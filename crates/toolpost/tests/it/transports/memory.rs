//! In-process transport: one event queue per direction.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use toolpost::transport::{CloseHandle, CloseReason, MemoryConnector};

use super::harness::{ChannelHarness, RequestSource, TestTransport, TransportHarness};

pub(super) struct Memory;

impl TestTransport for Memory {
    fn start(&self, responses: RequestSource) -> BoxFuture<'static, Box<dyn TransportHarness>> {
        Box::pin(async {
            let (connector, mut made) = MemoryConnector::new();
            let (accepting, links) = mpsc::channel(16);
            let closings = Arc::<Mutex<Vec<CloseHandle>>>::default();
            let close_handles = Arc::clone(&closings);
            tokio::spawn(async move {
                while let Some(link) = made.recv().await {
                    close_handles.lock().unwrap().push(link.close_handle().clone());
                    if accepting.send(link).await.is_err() {
                        return;
                    }
                }
            });
            let cut = move || {
                for closing in closings.lock().unwrap().drain(..) {
                    closing.close(CloseReason::abnormal("cut"));
                }
            };
            Box::new(ChannelHarness::serve(responses, connector, links, cut))
                as Box<dyn TransportHarness>
        })
    }

    /// The window, plus one value produced while the window was full.
    fn max_buffered_values(&self) -> usize {
        257
    }
}

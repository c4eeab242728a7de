//! Events in two queues.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use toolpost::link::{CloseReason, Closing, MemoryConnector};

use super::wire::{Answers, End, Linked, Wire};

pub(super) struct Memory;

impl Wire for Memory {
    fn start(&self, answers: Answers) -> BoxFuture<'static, Box<dyn End>> {
        Box::pin(async {
            let (connector, mut made) = MemoryConnector::new();
            let (accepting, links) = mpsc::channel(16);
            let closings = Arc::<Mutex<Vec<Closing>>>::default();
            let noted = Arc::clone(&closings);
            tokio::spawn(async move {
                while let Some(link) = made.recv().await {
                    noted.lock().unwrap().push(link.closing().clone());
                    if accepting.send(link).await.is_err() {
                        return;
                    }
                }
            });
            let cut = move || {
                for closing in closings.lock().unwrap().drain(..) {
                    closing.close(CloseReason::lost("cut"));
                }
            };
            Box::new(Linked::serve(answers, connector, links, cut)) as Box<dyn End>
        })
    }

    /// The window, and one that was made when it was full.
    fn most_ahead(&self) -> usize {
        257
    }
}

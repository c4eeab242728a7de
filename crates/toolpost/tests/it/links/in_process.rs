//! Calls inside the process, where no event is made.

use futures::future::BoxFuture;
use toolpost::connection::Client;
use toolpost::{Authority, Pipeline};

use super::wire::{Answers, End, Wire};

pub(super) struct InProcess;

impl Wire for InProcess {
    fn start(&self, answers: Answers) -> BoxFuture<'static, Box<dyn End>> {
        let Answers::Pipeline(pipeline) = answers else {
            panic!("nobody answers by hand inside the process");
        };
        Box::pin(async { Box::new(Inside(pipeline)) as Box<dyn End> })
    }

    /// What is not polled does nothing.
    fn most_ahead(&self) -> usize {
        0
    }
}

struct Inside(Pipeline);

impl End for Inside {
    fn client(&self) -> BoxFuture<'_, Client> {
        let client = Client::in_process(self.0.clone(), Authority::outside(None));
        Box::pin(std::future::ready(client))
    }

    fn serving(&self) -> usize {
        self.0.in_flight()
    }
}

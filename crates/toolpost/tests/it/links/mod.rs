//! One suite for everything that carries calls. A link joins it by a [`wire::Wire`] and two lines at
//! the end of this file; the cases do not change.
//!
//! | wire | between the two ends | can be lost |
//! |---|---|---|
//! | in-process | nothing: the request is handed to the pipeline | no: the cases about connections do not apply |
//! | memory | events in two queues | yes |
//! | websocket | TCP over loopback, through a relay that can be cut | yes |

mod aborts;
mod answers;
mod by_hand;
mod in_process;
mod losses;
mod memory;
mod streams;
#[cfg(feature = "ws")]
mod websocket;
mod wire;
mod world;

use std::time::Duration;

use toolpost::CallError;
use toolpost::connection::Client;

use wire::{Answers, End, Wire};
use world::World;

/// One test for each case, on one wire.
macro_rules! cases {
    ($module:ident, $wire:path: $($room:ident::$case:ident)*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::in_time(super::$room::$case(&$wire)).await;
                }
            )*
        }
    };
}

/// What holds wherever calls are made.
macro_rules! calls {
    ($module:ident, $wire:path) => {
        cases! { $module, $wire:
            answers::two_clients_with_the_same_ids_get_their_own_answers
            answers::a_thousand_calls_are_in_flight_at_once
            answers::ten_megabytes_come_back_byte_for_byte
            answers::progress_comes_in_order_and_before_the_answer
            answers::repairs_and_warnings_survive
            answers::errors_survive
            answers::a_call_of_a_subscription_takes_its_first_value_and_stops_it
            answers::a_subscription_to_a_query_is_its_answer_and_an_end
            streams::values_come_in_order_and_none_is_lost
            streams::a_silent_subscription_is_given_up
            streams::a_consumer_who_takes_nothing_stops_the_source_and_nobody_else
            aborts::a_dropped_call_is_cancelled
            aborts::a_handle_aborts_a_call
            aborts::a_handle_aborts_a_call_that_nobody_has_polled
            aborts::a_dropped_stream_is_cancelled
            aborts::a_deadline_ends_the_call_on_both_sides
        }
    };
}

/// What holds where there is a connection.
macro_rules! connections {
    ($module:ident, $wire:path) => {
        cases! { $module, $wire:
            aborts::a_client_aborts_a_call_by_its_id
            by_hand::calls_are_answered_and_failed
            by_hand::subscriptions_are_answered_and_completed
            by_hand::what_is_no_envelope_is_not_sent
            by_hand::what_is_given_up_is_not_served
            losses::everything_pending_fails_at_once_and_only_mutations_go_on
            losses::a_session_comes_back_and_its_subscriptions_go_on
        }
    };
}

calls!(calls_in_process, crate::links::in_process::InProcess);
calls!(calls_over_memory, crate::links::memory::Memory);
connections!(connections_over_memory, crate::links::memory::Memory);
#[cfg(feature = "ws")]
calls!(calls_over_websocket, crate::links::websocket::WebSocket);
#[cfg(feature = "ws")]
connections!(connections_over_websocket, crate::links::websocket::WebSocket);

/// A case that hangs fails under its own name.
async fn in_time(case: impl Future<Output = ()>) {
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, Box::pin(case)).await.expect("the case hangs");
}

async fn serve(wire: &dyn Wire, world: &World) -> Box<dyn End> {
    wire.start(Answers::Pipeline(world.pipeline.clone())).await
}

/// Waits until nothing is pending at the caller and nothing is worked on at the far end.
async fn settled(end: &dyn End, client: &Client) {
    while client.pending_count() + end.serving() > 0 {
        tokio::task::yield_now().await;
    }
}

fn code<T: std::fmt::Debug>(ended: Result<T, CallError>) -> String {
    ended.unwrap_err().code().to_string()
}

//! One test suite for every call transport. To add a transport, implement
//! [`harness::TestTransport`] and add two macro calls below; the cases do not change.
//!
//! | harness | between the two ends | can disconnect |
//! |---|---|---|
//! | in-process | nothing: the request is passed to the pipeline | no: the connection cases do not apply |
//! | memory | events in two queues | yes |
//! | websocket | TCP over loopback, through a relay that can be cut | yes |

mod aborts;
mod disconnects;
mod fixture;
mod harness;
mod in_process;
mod manual_responses;
mod memory;
mod responses;
mod streams;
#[cfg(feature = "ws")]
mod websocket;

use std::time::Duration;

use toolpost::CallError;
use toolpost::connection::Client;

use fixture::Fixture;
use harness::{RequestSource, TestTransport, TransportHarness};

/// Defines one test per case for a transport.
macro_rules! cases {
    ($module:ident, $harness:path: $($group:ident::$case:ident)*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::with_time_limit(super::$group::$case(&$harness)).await;
                }
            )*
        }
    };
}

/// Cases for every transport.
macro_rules! calls {
    ($module:ident, $harness:path) => {
        cases! { $module, $harness:
            responses::clients_with_equal_ids_get_own_responses
            responses::thousand_calls_in_flight
            responses::ten_megabyte_payload_round_trips
            responses::progress_is_ordered_and_precedes_response
            responses::repairs_and_warnings_round_trip
            responses::errors_round_trip
            responses::call_of_subscription_takes_first_value_and_cancels
            responses::subscription_to_query_yields_result_and_ends
            streams::values_arrive_in_order_without_loss
            streams::idle_subscription_times_out
            streams::slow_consumer_pauses_only_its_source
            aborts::dropped_call_cancels_handler
            aborts::abort_handle_cancels_call
            aborts::abort_handle_cancels_unpolled_call
            aborts::dropped_stream_cancels_source
            aborts::deadline_ends_call_on_both_sides
        }
    };
}

/// Cases for transports with connections.
macro_rules! connections {
    ($module:ident, $harness:path) => {
        cases! { $module, $harness:
            aborts::client_abort_by_request_id_cancels_call
            manual_responses::manual_call_responses_and_errors_are_delivered
            manual_responses::manual_subscription_values_and_completion_are_delivered
            manual_responses::respond_rejects_non_envelope
            manual_responses::canceled_request_ignores_late_response
            disconnects::disconnect_fails_pending_and_mutations_complete
            disconnects::reconnect_resumes_subscriptions
        }
    };
}

calls!(calls_in_process, crate::transports::in_process::InProcess);
calls!(calls_over_memory, crate::transports::memory::Memory);
connections!(connections_over_memory, crate::transports::memory::Memory);
#[cfg(feature = "ws")]
calls!(calls_over_websocket, crate::transports::websocket::WebSocket);
#[cfg(feature = "ws")]
connections!(connections_over_websocket, crate::transports::websocket::WebSocket);

/// Fails a case that hangs, so that the test report names it.
async fn with_time_limit(case: impl Future<Output = ()>) {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, Box::pin(case)).await.expect("the case hangs");
}

async fn serve(transport: &dyn TestTransport, fixture: &Fixture) -> Box<dyn TransportHarness> {
    transport.start(RequestSource::Pipeline(fixture.pipeline.clone())).await
}

/// Waits until no request is pending at the caller or in flight at the server.
async fn wait_idle(harness: &dyn TransportHarness, client: &Client) {
    while client.pending_count() + harness.inflight_count() > 0 {
        tokio::task::yield_now().await;
    }
}

fn code<T: std::fmt::Debug>(ended: Result<T, CallError>) -> String {
    ended.unwrap_err().code().to_string()
}

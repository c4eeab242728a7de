//! Gzip compression of responses.

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body_util::BodyExt;

use crate::gzip::gzip;

/// Maximum size of a body that is compressed inline. A larger one would block the worker.
const MAX_INLINE_BYTES: usize = 64 * 1024;

/// Compresses a response with a known size above `min_bytes`. Streams are not compressed.
pub(super) async fn compress(response: Response, min_bytes: usize) -> Response {
    let size = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok());
    if size.is_none_or(|size| size <= min_bytes) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(body) = body.collect().await else {
        // A body of known size is in memory, so collecting it does not fail.
        return Response::from_parts(head, Body::empty());
    };
    let body = body.to_bytes();
    match gzip_body(body.clone()).await {
        Some(packed) => {
            head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            head.headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
            Response::from_parts(head, Body::from(packed))
        }
        None => Response::from_parts(head, Body::from(body)),
    }
}

async fn gzip_body(body: Bytes) -> Option<Vec<u8>> {
    if body.len() <= MAX_INLINE_BYTES {
        return gzip(&body).ok();
    }
    tokio::task::spawn_blocking(move || gzip(&body)).await.ok()?.ok()
}

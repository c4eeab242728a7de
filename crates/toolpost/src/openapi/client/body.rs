//! Size-limited reading of response bodies.

use reqwest::Response;
use url::Url;

use super::error::HttpError;

/// Maximum buffer size that is allocated before any of the body is received.
const MAX_PREALLOCATION: u64 = 1024 * 1024;

/// Reads a decompressed body.
///
/// # Errors
///
/// The body is larger than `max`, which is detected before more than that is buffered, or the
/// connection is lost.
pub(super) async fn read_all(
    mut response: Response,
    url: &Url,
    max: usize,
) -> Result<Vec<u8>, HttpError> {
    let announced = response.content_length().unwrap_or(0);
    if announced > max as u64 {
        return Err(HttpError::BodyTooLarge { limit: max });
    }
    // `Content-Length` is untrusted, so the initial allocation is capped.
    let mut body = Vec::with_capacity(announced.min(MAX_PREALLOCATION) as usize);
    while let Some(chunk) =
        response.chunk().await.map_err(|error| HttpError::from_body(&error, url))?
    {
        if body.len() + chunk.len() > max {
            return Err(HttpError::BodyTooLarge { limit: max });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Reads up to `max` bytes of a body. Returns what was received if the connection is lost.
pub(super) async fn read_prefix(mut response: Response, max: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = max - body.len();
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if body.len() >= max {
            break;
        }
    }
    body
}

//! Bodies, up to a size.

use reqwest::Response;
use url::Url;

use super::error::HttpError;

/// What is set aside for a body before any of it is there.
const MAX_PREALLOCATION: u64 = 1024 * 1024;

/// Reads a body, unpacked.
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
    // What the service says of the length is no reason to take more than a little at once.
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

/// Reads the beginning of a body, and takes whatever there is.
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

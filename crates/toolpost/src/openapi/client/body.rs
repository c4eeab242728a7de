//! Bodies, up to a size.

use reqwest::Response;
use url::Url;

use super::failure::Failure;

/// What is set aside for a body before any of it is there.
const MOST_AT_ONCE: u64 = 1024 * 1024;

/// Reads a body, unpacked.
///
/// # Errors
///
/// It is larger than `most`, which is found out before more than that is held; or it breaks off.
pub(super) async fn whole(
    mut response: Response,
    url: &Url,
    most: usize,
) -> Result<Vec<u8>, Failure> {
    let announced = response.content_length().unwrap_or(0);
    if announced > most as u64 {
        return Err(Failure::TooLarge { limit: most });
    }
    // What the service says of the length is no reason to take more than a little at once.
    let mut body = Vec::with_capacity(announced.min(MOST_AT_ONCE) as usize);
    while let Some(chunk) = response.chunk().await.map_err(|error| Failure::of_body(&error, url))? {
        if body.len() + chunk.len() > most {
            return Err(Failure::TooLarge { limit: most });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Reads the beginning of a body, and takes whatever there is.
pub(super) async fn beginning(mut response: Response, most: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = most - body.len();
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if body.len() >= most {
            break;
        }
    }
    body
}

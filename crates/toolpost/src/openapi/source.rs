//! An OpenAPI service as a source of operations: loads the document and refreshes the operations.

mod fingerprint;

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;

use self::fingerprint::DocumentFingerprint;
use super::build::{BuiltOperations, OpenApiError, build_operations, build_service};
use super::handler::ServiceContext;
use super::load::{DocumentLocation, LoadedDocument, load};
use super::request::PreparedRequest;
use super::settings::OpenApiSettings;
use crate::circuit_breaker::BreakerState;
use crate::operation::SourceKind;
use crate::source::{Source, SourceContext, SourceInfo};

/// Default interval at which the document of a gateway is checked for changes.
const GATEWAY_REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// The hosts of a service, for status checks. It can outlive its source.
#[derive(Debug, Clone)]
pub struct ServiceHosts(Arc<ServiceContext>);

impl ServiceHosts {
    /// Returns the worst circuit breaker state of all hosts.
    pub fn breaker_state(&self) -> BreakerState {
        self.0.client.breaker_state()
    }
}

/// Registers the operations of an HTTP service that has an OpenAPI document.
#[derive(Debug)]
pub struct OpenApiSource(Arc<ServiceContext>);

impl OpenApiSource {
    /// Creates a source whose operations are in the namespace `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if a configured header, the proxy or a certificate is invalid.
    pub fn new(name: &str, settings: OpenApiSettings) -> Result<Self, OpenApiError> {
        Ok(Self(Arc::new(build_service(name, settings)?)))
    }

    /// Returns the hosts of the service, for status checks.
    pub fn hosts(&self) -> ServiceHosts {
        ServiceHosts(Arc::clone(&self.0))
    }

    /// Loads the document again whenever it or the hooks change.
    async fn refresh(&self, is_gateway: bool, context: &mut SourceContext) -> String {
        let interval = refresh_interval(self.0.settings.refresh, is_gateway);
        let mut fingerprint = match interval {
            Some(_) => self.fingerprint().await,
            None => None,
        };
        loop {
            let elapsed = async {
                match interval {
                    Some(interval) => tokio::time::sleep(interval).await,
                    None => std::future::pending().await,
                }
            };
            let now = tokio::select! {
                () = elapsed => self.fingerprint().await,
                () = context.hooks_changed() => None,
            };
            // A document without a fingerprint is loaded each time.
            if now.is_some() && now == fingerprint {
                continue;
            }
            match self.load_document(context).await {
                Ok(_) => fingerprint = now,
                Err(error) => {
                    let (source, error) = (&*self.0.name, error.to_string());
                    tracing::warn!(source, error, "document reload failed");
                }
            }
        }
    }

    async fn fingerprint(&self) -> Option<DocumentFingerprint> {
        let headers = self.document_headers().await.ok()?;
        DocumentFingerprint::read(self.0.client.http(), &self.0.settings.document, headers).await
    }

    /// Returns the credential headers for loading the document.
    async fn document_headers(&self) -> Result<HeaderMap, OpenApiError> {
        let ServiceContext { settings, credential_store, .. } = &*self.0;
        let DocumentLocation::Url(url) = &settings.document else { return Ok(HeaderMap::new()) };
        if !settings.document_requires_auth {
            return Ok(HeaderMap::new());
        }
        let credentials = credential_store.for_server(&[], url, true)?;
        let mut request = PreparedRequest::get(url.clone());
        let applied = credentials.apply(&mut request).await;
        applied.map_err(|error| OpenApiError::Credentials(error.message().to_owned()))?;
        Ok(request.headers)
    }

    /// Loads the document and publishes its operations. Importing a large document blocks, so it
    /// runs on the blocking thread pool. Returns whether the service is a gateway.
    async fn load_document(&self, context: &mut SourceContext) -> Result<bool, OpenApiError> {
        let settings = &self.0.settings;
        let mut load_settings = settings.load.clone();
        load_settings.headers.extend(self.document_headers().await?);
        let client = self.0.client.http().clone();
        let LoadedDocument { documents, warnings } =
            load(settings.document.clone(), &load_settings, Some(client)).await?;
        let (service, hooks) = (Arc::clone(&self.0), context.hooks().get());
        let building = tokio::task::spawn_blocking(move || {
            build_operations(&service, &Arc::new(documents), &hooks)
        });
        let Ok(built) = building.await else {
            return Err(OpenApiError::Document("it cannot be imported".to_owned()));
        };
        let BuiltOperations { operations, info, is_gateway } = built?;
        let loading = warnings.into_iter().map(|warning| at(&warning.at, &warning.message));
        let importing = info.warnings.iter().map(|warning| at(&warning.at, &warning.message));
        let info = SourceInfo {
            warnings: loading.chain(importing).collect(),
            title: info.title,
            version: info.version,
            ..SourceInfo::default()
        };
        // The handler of an operation can change without its spec.
        context.publish(operations, info, |_, _| false).await;
        Ok(is_gateway)
    }
}

impl Source for OpenApiSource {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn kind(&self) -> SourceKind {
        SourceKind::OpenApi
    }

    fn backoff(&self) -> (Duration, Duration) {
        self.0.settings.reload_backoff
    }

    async fn run(&mut self, context: &mut SourceContext) -> String {
        match self.load_document(context).await {
            Ok(is_gateway) => self.refresh(is_gateway, context).await,
            Err(error) => error.to_string(),
        }
    }
}

fn at(position: &str, message: &str) -> String {
    match position {
        "" => message.to_owned(),
        position => format!("{position}: {message}"),
    }
}

/// Returns how often the document is checked for changes. The operations of a gateway change with
/// its sources, so its document is checked as often as the operation list of a hub.
fn refresh_interval(configured: Option<Duration>, is_gateway: bool) -> Option<Duration> {
    configured.or_else(|| is_gateway.then_some(GATEWAY_REFRESH_INTERVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_document_has_a_default_refresh_interval() {
        let hour = Some(Duration::from_secs(3_600));
        for (configured, is_gateway, expected) in [
            (None, false, None),
            (None, true, Some(GATEWAY_REFRESH_INTERVAL)),
            (hour, false, hour),
            (hour, true, hour),
        ] {
            assert_eq!(refresh_interval(configured, is_gateway), expected);
        }
    }
}

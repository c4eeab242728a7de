//! DNS resolver that rejects addresses that are not allowed.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::allowed_hosts::AllowedHosts;

/// Resolves names with the system resolver and omits addresses that are not allowed.
pub(super) struct FilteringResolver(pub(super) Arc<ArcSwap<AllowedHosts>>);

impl Resolve for FilteringResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = self.0.load_full();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let mut rejected = None;
            let mut admitted: Vec<SocketAddr> = Vec::new();
            for address in found {
                match hosts.check_address(name.as_str(), address.ip()) {
                    Ok(()) => admitted.push(address),
                    Err(error) => rejected = Some(error),
                }
            }
            match rejected {
                Some(error) if admitted.is_empty() => Err(error.into()),
                _ => Ok(Box::new(admitted.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::client::error::HttpError;

    /// Skips the URL check, like a host name that turns out to resolve to a private address.
    #[tokio::test]
    async fn resolver_rejects_names_that_resolve_to_private_addresses() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let document = "https://docs.example/openapi.json".parse().unwrap();
        let address: url::Url = "http://localhost:1/".parse().unwrap();
        for (configured, expected) in
            [(None, "is a private address"), (Some("localhost"), "refused")]
        {
            let mut hosts = AllowedHosts::new(configured, Some(&document));
            hosts.allow_documented(&address);
            let resolver = FilteringResolver(Arc::new(ArcSwap::from_pointee(hosts)));
            let client =
                reqwest::Client::builder().no_proxy().dns_resolver(resolver).build().unwrap();
            let error = client.get(address.clone()).send().await.unwrap_err();
            let failure = HttpError::from_reqwest(&error, &address);
            assert!(failure.to_string().contains(expected), "{failure}");
            assert_eq!(matches!(failure, HttpError::Host(_)), configured.is_none());
        }
    }
}

//! From names to addresses, without those that a name may not stand for.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::host::Hosts;

/// Resolves names as the system does.
pub(super) struct Resolver(pub(super) Arc<ArcSwap<Hosts>>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = self.0.load_full();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let mut refused = None;
            let mut admitted: Vec<SocketAddr> = Vec::new();
            for address in found {
                match hosts.admits(name.as_str(), address.ip()) {
                    Ok(()) => admitted.push(address),
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                Some(error) if admitted.is_empty() => Err(error.into()),
                _ => Ok(Box::new(admitted.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::client::failure::Failure;

    /// The client is asked past the first check, as a name would get past it that only turns out to
    /// stand for something inside.
    #[tokio::test]
    async fn a_name_that_stands_for_something_inside_is_refused_when_it_is_resolved() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let document = "https://docs.example/openapi.json".parse().unwrap();
        let address: url::Url = "http://localhost:1/".parse().unwrap();
        for (configured, expected) in
            [(None, "inside this network"), (Some("localhost"), "refused")]
        {
            let mut hosts = Hosts::new(configured, Some(&document));
            hosts.document(&address);
            let resolver = Resolver(Arc::new(ArcSwap::from_pointee(hosts)));
            let client =
                reqwest::Client::builder().no_proxy().dns_resolver(resolver).build().unwrap();
            let error = client.get(address.clone()).send().await.unwrap_err();
            let failure = Failure::of_request(&error, &address);
            assert!(failure.to_string().contains(expected), "{failure}");
            assert_eq!(matches!(failure, Failure::Host(_)), configured.is_none());
        }
    }
}

//! Proxy selection.

use reqwest::{ClientBuilder, NoProxy, Proxy};
use url::Url;

/// Hosts that bypass the proxies from the environment.
const LOOPBACK_HOSTS: &str = "localhost,127.0.0.0/8,::1";

/// Sets the configured proxy, or the proxies from the environment.
pub(crate) fn with_proxies(
    builder: ClientBuilder,
    configured: Option<&Url>,
) -> reqwest::Result<ClientBuilder> {
    let builder = builder.no_proxy();
    if let Some(address) = configured {
        return Ok(builder.proxy(Proxy::all(address.clone())?));
    }
    proxies_from_env(|name| std::env::var(name).ok())
        .into_iter()
        .try_fold(builder, |builder, proxy| Ok(builder.proxy(proxy?)))
}

fn proxies_from_env(variable: impl Fn(&str) -> Option<String>) -> Vec<reqwest::Result<Proxy>> {
    let either = |name: &str| {
        let found = variable(&name.to_ascii_lowercase()).or_else(|| variable(name));
        found.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let except = match either("NO_PROXY") {
        Some(names) => format!("{names},{LOOPBACK_HOSTS}"),
        None => LOOPBACK_HOSTS.to_owned(),
    };
    // In a CGI program, `HTTP_PROXY` may be the `Proxy` header of a request, so it is ignored.
    let is_trusted = variable("REQUEST_METHOD").is_none();
    let http = either("HTTP_PROXY").filter(|_| is_trusted).map(Proxy::http);
    let https = either("HTTPS_PROXY").map(Proxy::https);
    let all = either("ALL_PROXY").map(Proxy::all);
    let proxies = [http, https, all].into_iter().flatten();
    proxies.map(|proxy| Ok(proxy?.no_proxy(NoProxy::from_string(&except)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_env_variables_match_in_either_case() {
        let rows: [(&[(&str, &str)], usize); 6] = [
            (&[], 0),
            (&[("HTTP_PROXY", "http://p.example:3128")], 1),
            (&[("http_proxy", "p.example:3128"), ("HTTPS_PROXY", "http://p.example:3128")], 2),
            (&[("HTTP_PROXY", "http://p.example"), ("REQUEST_METHOD", "GET")], 0),
            (&[("ALL_PROXY", "http://p.example"), ("NO_PROXY", "a.example")], 1),
            (&[("HTTP_PROXY", " ")], 0),
        ];
        for (variables, expected) in rows {
            let found = proxies_from_env(|name| {
                let set = variables.iter().find(|(known, _)| *known == name);
                set.map(|(_, value)| (*value).to_owned())
            });
            assert_eq!(found.len(), expected, "{variables:?}");
            assert!(found.iter().all(Result::is_ok), "{variables:?}");
        }
    }
}

//! Restricts which files a document may refer to, because they are fetched from this network.

use url::Url;

use crate::openapi::client::format_host_port;

/// Why a reference is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReferenceRejection {
    #[error("is not fetched: a remote document cannot refer to local files")]
    FileFromNetwork,
    #[error(
        "is not fetched: `{host}` is not the host of the document; add it to `hosts` to allow it"
    )]
    OtherHost { host: String },
    #[error("is not fetched: unsupported URL scheme `{scheme}`; use a file path, http or https")]
    Scheme { scheme: String },
}

/// Checks whether a file at `from` may refer to `to`.
pub(super) fn check_reference(
    from: &Url,
    to: &Url,
    hosts: &[String],
) -> Result<(), ReferenceRejection> {
    match to.scheme() {
        "file" if from.scheme() == "file" => Ok(()),
        "file" => Err(ReferenceRejection::FileFromNetwork),
        "http" | "https" if is_same_site(from, to) || is_allowed_host(to, hosts) => Ok(()),
        "http" | "https" => Err(ReferenceRejection::OtherHost { host: format_host_port(to) }),
        scheme => Err(ReferenceRejection::Scheme { scheme: scheme.to_owned() }),
    }
}

/// Whether two URLs have the same origin, or the same host with an upgrade to HTTPS.
fn is_same_site(from: &Url, to: &Url) -> bool {
    let is_upgrade = from.scheme() == "http"
        && to.scheme() == "https"
        && from.port().is_none()
        && to.port().is_none()
        && from.host() == to.host();
    is_upgrade || from.origin() == to.origin() && from.origin().is_tuple()
}

fn is_allowed_host(to: &Url, hosts: &[String]) -> bool {
    let Some(host) = to.host_str() else { return false };
    let with_port = to.port_or_known_default().map(|port| format!("{host}:{port}"));
    let is_it = |listed: &String| {
        let has_port = with_port.as_ref().is_some_and(|it| listed.eq_ignore_ascii_case(it));
        // A listed host without a port matches the default port of the scheme.
        has_port || to.port().is_none() && listed.eq_ignore_ascii_case(host)
    };
    hosts.iter().any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_policy_limits_schemes_and_hosts() {
        let hosts = ["More.example".to_owned(), "port.example:8443".to_owned()];
        let other = |host: &str| {
            Err(format!(
                "is not fetched: `{host}` is not the host of the document; add it to `hosts` to \
                 allow it"
            ))
        };
        let rows = [
            ("file:///a/b.yaml", "file:///etc/c.yaml", Ok(())),
            ("file:///a/b.yaml", "https://more.example/c", Ok(())),
            ("file:///a/b.yaml", "https://other.example/c", other("other.example")),
            ("https://a.example/b", "https://a.example/c?d", Ok(())),
            ("https://a.example/b", "https://a.example:443/c", Ok(())),
            ("http://a.example/b", "https://a.example/c", Ok(())),
            ("https://a.example/b", "http://a.example/c", other("a.example")),
            ("http://a.example:8080/b", "https://a.example/c", other("a.example")),
            ("https://a.example/b", "https://a.example:8443/c", other("a.example:8443")),
            ("https://a.example/b", "http://127.0.0.1/c", other("127.0.0.1")),
            ("https://a.example/b", "http://169.254.169.254/c", other("169.254.169.254")),
            ("https://a.example/b", "https://more.example/c", Ok(())),
            ("https://a.example/b", "https://more.example:8443/c", other("more.example:8443")),
            ("https://a.example/b", "https://port.example:8443/c", Ok(())),
            ("https://a.example/b", "https://port.example/c", other("port.example")),
            (
                "https://a.example/b",
                "file:///etc/passwd",
                Err("is not fetched: a remote document cannot refer to local files".to_owned()),
            ),
            (
                "file:///a",
                "ftp://a.example/b",
                Err("is not fetched: unsupported URL scheme `ftp`; use a file path, http or https"
                    .to_owned()),
            ),
            ("data:x", "http://a.example/", other("a.example")),
        ];
        for (from, to, expected) in rows {
            let result = check_reference(&from.parse().unwrap(), &to.parse().unwrap(), &hosts);
            assert_eq!(result.map_err(|rejected| rejected.to_string()), expected, "{from} {to}");
        }
    }
}

//! Hosts that a source may connect to.
//!
//! A document is untrusted input. The hosts it declares may be public, or private if the document
//! was loaded from this network, but never link-local or cloud metadata addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Hosts that a source may connect to.
#[derive(Debug, Default)]
pub(crate) struct AllowedHosts {
    /// Hosts from the configuration.
    configured: Vec<HostPattern>,
    /// Hosts and ports from the document.
    documented: Vec<(String, u16)>,
    /// Whether the document was loaded over HTTP from outside this network.
    is_document_external: bool,
}

/// Why a host is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HostError {
    #[error(
        "`{0}` is not allowed by the document or the configuration; add it to `hosts` of the source"
    )]
    NotAllowed(String),
    #[error(
        "`{0}` is a link-local or metadata address; add it to `hosts` of the source to allow it"
    )]
    LinkLocal(String),
    #[error(
        "`{0}` is a private address, and the document that names it is external; add it to `hosts` of the source to allow it"
    )]
    PrivateAddress(String),
    #[error("`{0}` is not a supported URL scheme; use http or https")]
    Scheme(String),
}

/// An entry of `hosts`: a name, `*.example.com` or an IP address, with an optional port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostPattern {
    host: String,
    /// Whether the pattern matches the subdomains of `host` instead of `host` itself.
    is_wildcard: bool,
    port: Option<u16>,
}

impl AllowedHosts {
    /// Creates the list from the configured hosts and the host of the document.
    pub(crate) fn new<'a>(
        configured: impl IntoIterator<Item = &'a str>,
        document: Option<&Url>,
    ) -> Self {
        let mut hosts = Self {
            configured: configured.into_iter().filter_map(HostPattern::parse).collect(),
            documented: Vec::new(),
            is_document_external: document
                .is_some_and(|url| matches!(url.scheme(), "http" | "https"))
                && !document.is_some_and(is_private_or_loopback),
        };
        if let Some(url) = document {
            hosts.allow_configured(url);
        }
        hosts
    }

    /// Allows the host and port of a URL from the configuration.
    pub(crate) fn allow_configured(&mut self, url: &Url) {
        if let Some((host, port)) = host_port(url) {
            self.configured.push(HostPattern { host, is_wildcard: false, port: Some(port) });
        }
    }

    /// Allows the host and port of a URL from the document.
    pub(crate) fn allow_documented(&mut self, url: &Url) {
        if let Some(entry) = host_port(url)
            && !self.documented.contains(&entry)
        {
            self.documented.push(entry);
        }
    }

    /// Checks whether a URL may be called, before its host name is resolved.
    pub(crate) fn check(&self, url: &Url) -> Result<(), HostError> {
        let target = url.host_str().zip(url.port_or_known_default());
        let Some((host, port)) = target.filter(|_| matches!(url.scheme(), "http" | "https")) else {
            return Err(HostError::Scheme(url.scheme().to_owned()));
        };
        if self.configured.iter().any(|pattern| pattern.matches(host, port)) {
            return Ok(());
        }
        if !self.documented.iter().any(|entry| entry.0 == host && entry.1 == port) {
            return Err(HostError::NotAllowed(format_host_port(url)));
        }
        match ip_address(url) {
            Some(address) if is_link_local(address) => Err(HostError::LinkLocal(host.to_owned())),
            _ if self.is_document_external && is_private_or_loopback(url) => {
                Err(HostError::PrivateAddress(host.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Checks whether an allowed host name may resolve to an address. The port is not known here.
    pub(super) fn check_address(&self, name: &str, address: IpAddr) -> Result<(), HostError> {
        let text = address.to_string();
        if self.configured.iter().any(|pattern| pattern.matches_host(&text)) {
            return Ok(());
        }
        if is_link_local(address) {
            return Err(HostError::LinkLocal(format!("{name} ({text})")));
        }
        let is_configured = self.configured.iter().any(|pattern| pattern.matches_host(name));
        let is_documented = self.documented.iter().any(|entry| entry.0 == name);
        // A name that is neither configured nor documented is the name of a proxy.
        if is_documented && !is_configured && self.is_document_external && is_private(address) {
            return Err(HostError::PrivateAddress(format!("{name} ({text})")));
        }
        Ok(())
    }
}

impl HostPattern {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let domain = text.strip_prefix("*.");
        let rest = domain.unwrap_or(text);
        // An entry may also be a full URL.
        let address = if rest.contains("://") { rest.to_owned() } else { format!("http://{rest}") };
        let has_port = |host: &str| rest.contains(&format!("{host}:"));
        let url = Url::parse(&address).ok()?;
        let host = url.host_str()?.to_owned();
        let port = url.port().or_else(|| has_port(&host).then_some(80));
        let port = if rest.contains("://") { url.port_or_known_default() } else { port };
        Some(Self { host, is_wildcard: domain.is_some(), port })
    }

    fn matches(&self, host: &str, port: u16) -> bool {
        self.port.is_none_or(|own| own == port) && self.matches_host(host)
    }

    fn matches_host(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        if self.is_wildcard {
            let below = host.strip_suffix(self.host.as_str());
            return below.is_some_and(|name| name.len() > 1 && name.ends_with('.'));
        }
        let own = self.host.trim_start_matches('[').trim_end_matches(']');
        own == host.trim_start_matches('[').trim_end_matches(']')
    }
}

fn host_port(url: &Url) -> Option<(String, u16)> {
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

/// Formats the host and port of a URL. The rest of the URL may contain a secret.
pub(crate) fn format_host_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn ip_address(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

/// Whether the host of a URL is a loopback name or a private address. Other names are not resolved.
fn is_private_or_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        _ => ip_address(url).is_some_and(is_private),
    }
}

/// Whether an address is link-local or a cloud metadata endpoint.
fn is_link_local(address: IpAddr) -> bool {
    match unmapped(address) {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_unicast_link_local()
                || address == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)
        }
    }
}

fn is_private(address: IpAddr) -> bool {
    match unmapped(address) {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_broadcast()
                || first == 0
                // 100.64.0.0/10, 198.18.0.0/15 and 192.0.0.0/24.
                || (first == 100 && (64..128).contains(&second))
                || (first == 198 && (18..20).contains(&second))
                || (first == 192 && second == 0 && address.octets()[2] == 0)
        }
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local()
                || address.is_multicast()
        }
    }
}

/// Returns the IPv4 address that an IPv6 address embeds, or the address itself.
fn unmapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let v4 = |high: u16, low: u16| {
        let ([p, q], [r, s]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(p, q, r, s))
    };
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => v4(g, h),
        // IPv4-compatible addresses, except for the unspecified and the loopback address.
        [0, 0, 0, 0, 0, 0] if g != 0 => v4(g, h),
        [0x2002, ..] => v4(b, c),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn outcome_name(error: &Result<(), HostError>) -> &'static str {
        match error {
            Ok(()) => "ok",
            Err(HostError::NotAllowed(_)) => "not named",
            Err(HostError::LinkLocal(_)) => "link-local",
            Err(HostError::PrivateAddress(_)) => "inside",
            Err(HostError::Scheme(_)) => "scheme",
        }
    }

    /// Each row: the document URL, the server it names, the configured hosts, the called URL and
    /// the result.
    #[test]
    fn host_check_allows_named_hosts_and_rejects_private_ones() {
        let public = "https://docs.example.com/openapi.json";
        let file = "file:///srv/openapi.json";
        let rows = [
            (public, "https://api.example.com/v1", "", "https://api.example.com/v1/x", "ok"),
            (public, "https://api.example.com/v1", "", "https://API.example.com/", "ok"),
            (public, "https://api.example.com/v1", "", "https://api.example.com:444/", "not named"),
            (public, "https://api.example.com/v1", "", "https://evil.example/", "not named"),
            (public, "https://api.example.com/v1", "", "https://docs.example.com/", "ok"),
            (
                public,
                "https://api.example.com/v1",
                "*.example.com",
                "https://b.example.com:9/",
                "ok",
            ),
            (
                public,
                "https://api.example.com/",
                "*.example.com",
                "https://example.com/",
                "not named",
            ),
            (
                public,
                "https://api.example.com/",
                "*.example.com",
                "https://badexample.com/",
                "not named",
            ),
            (public, "https://api.example.com/", "b.example:81", "http://b.example:81/", "ok"),
            (
                public,
                "https://api.example.com/",
                "b.example:80",
                "http://b.example:81/",
                "not named",
            ),
            (public, "https://api.example.com/", "https://b.example", "https://b.example/", "ok"),
            (
                public,
                "https://api.example.com/",
                "https://b.example",
                "http://b.example/",
                "not named",
            ),
            (public, "http://localhost:3000/", "", "http://localhost:3000/", "inside"),
            (public, "http://a.localhost/", "", "http://a.localhost/", "inside"),
            (public, "http://127.0.0.1/", "", "http://127.0.0.1/", "inside"),
            (public, "http://127.0.0.1/", "", "http://2130706433/", "inside"),
            (public, "http://127.0.0.1/", "", "http://0x7f.1/", "inside"),
            (public, "http://[::1]/", "", "http://[::1]/", "inside"),
            (public, "http://[::ffff:127.0.0.1]/", "", "http://[::ffff:7f00:1]/", "inside"),
            (public, "http://10.1.2.3/", "", "http://10.1.2.3/", "inside"),
            (public, "http://172.31.0.1/", "", "http://172.31.0.1/", "inside"),
            (public, "http://192.168.0.1/", "", "http://192.168.0.1/", "inside"),
            (public, "http://0.0.0.0/", "", "http://0.0.0.0/", "inside"),
            (public, "http://100.100.0.1/", "", "http://100.100.0.1/", "inside"),
            (public, "http://[fc00::1]/", "", "http://[fc00::1]/", "inside"),
            (public, "http://[64:ff9b::a00:1]/", "", "http://[64:ff9b::a00:1]/", "inside"),
            (public, "http://10.1.2.3/", "10.1.2.3", "http://10.1.2.3/", "ok"),
            (public, "http://[::1]:8080/", "[::1]:8080", "http://[::1]:8080/", "ok"),
            ("http://127.0.0.1:9/d.json", "http://127.0.0.1:8/", "", "http://127.0.0.1:8/", "ok"),
            ("http://10.0.0.1/d.json", "http://10.0.0.2/", "", "http://10.0.0.2/", "ok"),
            (file, "http://127.0.0.1:8/", "", "http://127.0.0.1:8/", "ok"),
            (file, "http://169.254.169.254/", "", "http://169.254.169.254/latest", "link-local"),
            (file, "http://[fe80::1]/", "", "http://[fe80::1]/", "link-local"),
            (file, "http://[febf::1]/", "", "http://[febf::1]/", "link-local"),
            (
                file,
                "http://[::ffff:169.254.169.254]/",
                "",
                "http://[::ffff:a9fe:a9fe]/",
                "link-local",
            ),
            (file, "http://[2002:a9fe:a9fe::]/", "", "http://[2002:a9fe:a9fe::]/", "link-local"),
            (file, "http://[fd00:ec2::254]/", "", "http://[fd00:ec2::254]/", "link-local"),
            (file, "http://169.254.169.254/", "", "http://2852039166/", "link-local"),
            (file, "http://169.254.169.254/", "169.254.169.254", "http://169.254.169.254/", "ok"),
            (file, "http://a.example/", "", "ftp://a.example/", "scheme"),
            (file, "http://a.example/", "", "file:///etc/passwd", "scheme"),
        ];
        for (document, server, configured, called, expected) in rows {
            let configured = Some(configured).filter(|text| !text.is_empty());
            let mut hosts = AllowedHosts::new(configured, Some(&url(document)));
            hosts.allow_documented(&url(server));
            let row = format!("{document} {server} {configured:?} {called}");
            assert_eq!(outcome_name(&hosts.check(&url(called))), expected, "{row}");
        }
    }

    #[test]
    fn resolved_address_must_be_allowed_like_the_host_itself() {
        let public = Some(url("https://docs.example.com/openapi.json"));
        let rows = [
            (&public, "", "api.example.com", "93.184.216.34", "ok"),
            (&public, "", "api.example.com", "10.0.0.1", "inside"),
            (&public, "", "api.example.com", "127.0.0.1", "inside"),
            (&public, "", "api.example.com", "::1", "inside"),
            (&public, "", "api.example.com", "169.254.169.254", "link-local"),
            (&public, "", "api.example.com", "::ffff:169.254.169.254", "link-local"),
            (&public, "api.example.com", "api.example.com", "10.0.0.1", "ok"),
            (&public, "api.example.com", "api.example.com", "169.254.169.254", "link-local"),
            (&public, "169.254.169.254", "api.example.com", "169.254.169.254", "ok"),
            (&public, "", "docs.example.com", "10.0.0.1", "ok"),
            (&public, "", "proxy.inside", "10.0.0.1", "ok"),
            (&None, "", "api.example.com", "10.0.0.1", "ok"),
            (&None, "", "api.example.com", "fe80::1", "link-local"),
        ];
        for (document, configured, name, address, expected) in rows {
            let row = format!("{document:?} {configured} {name} {address}");
            let configured = Some(configured).filter(|text| !text.is_empty());
            let mut hosts = AllowedHosts::new(configured, document.as_ref());
            hosts.allow_documented(&url("https://api.example.com/"));
            let admitted = hosts.check_address(name, address.parse().unwrap());
            assert_eq!(outcome_name(&admitted), expected, "{row}");
        }
    }
}

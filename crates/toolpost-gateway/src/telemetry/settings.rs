//! Settings of metrics and traces.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use toolpost::ClientTls;
use url::Url;

/// Which metrics and traces are produced.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { otlp = \"http://…\" }")]
#[schemars(rename = "Telemetry")]
#[non_exhaustive]
pub struct TelemetrySettings {
    /// OTLP/HTTP endpoint for spans, such as `http://127.0.0.1:4318`; the variable
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` if absent. Without either, no spans are created and trace
    /// contexts are only propagated.
    #[serde(deserialize_with = "deserialize_address")]
    #[schemars(with = "String")]
    pub otlp: Option<Url>,
    /// Additional headers of export requests, such as an API key.
    pub headers: BTreeMap<String, String>,
    /// PEM file with CA certificates to trust for the collector, in addition to those of the system,
    /// relative to the folder of this file.
    pub ca: Option<String>,
    /// The content of `ca`.
    #[serde(skip)]
    pub ca_certificates: Option<String>,
    /// Whether the headers are sent to a collector on another machine without encryption.
    pub insecure: bool,
    /// Service name reported to the collector; the variable `OTEL_SERVICE_NAME` takes precedence.
    pub service: String,
    /// Fraction of the traces started here that are recorded, from 0 to 1. A trace started
    /// elsewhere is recorded if it is sampled there.
    #[serde(deserialize_with = "deserialize_fraction")]
    #[schemars(range(min = 0, max = 1))]
    pub sample: f64,
    /// Whether `/metrics` also counts calls per operation.
    pub per_operation: bool,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        let service = "toolpost".to_owned();
        Self {
            otlp: None,
            headers: BTreeMap::new(),
            ca: None,
            ca_certificates: None,
            insecure: false,
            service,
            sample: 1.0,
            per_operation: false,
        }
    }
}

/// Path of the traces endpoint, relative to the OTLP base URL.
const TRACES_PATH: &str = "/v1/traces";

impl TelemetrySettings {
    /// Returns how the connection to the collector is protected.
    pub(crate) fn client_tls(&self) -> ClientTls {
        let mut tls = ClientTls::default();
        tls.ca_certificates.clone_from(&self.ca_certificates);
        tls.insecure = self.insecure;
        tls
    }

    /// Applies the standard OpenTelemetry environment variables. `OTEL_SERVICE_NAME` replaces the
    /// service name; the endpoint and the headers are used only if none are configured.
    ///
    /// # Errors
    ///
    /// An endpoint is invalid. The message names the variable but not its value.
    pub fn with_environment(
        mut self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let env_value = |name| environment(name).filter(|value| !value.is_empty());
        if self.otlp.is_none() {
            let traces_endpoint = env_value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
            let address = |name, text: &str| {
                parse_address(text).map_err(|reason| format!("{name}: {reason}"))
            };
            self.otlp = match (traces_endpoint, env_value("OTEL_EXPORTER_OTLP_ENDPOINT")) {
                (Some(text), _) => Some(address("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &text)?),
                (None, Some(text)) => {
                    Some(with_traces_path(address("OTEL_EXPORTER_OTLP_ENDPOINT", &text)?))
                }
                (None, None) => None,
            };
        }
        if let Some(service) = env_value("OTEL_SERVICE_NAME") {
            self.service = service;
        }
        if self.headers.is_empty() {
            let list = env_value("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
            let pairs = list.split(',').filter_map(|pair| pair.split_once('='));
            self.headers = pairs
                .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
                .collect();
        }
        Ok(self)
    }
}

fn deserialize_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Url>, D::Error> {
    let address = parse_address(&String::deserialize(deserializer)?).map_err(D::Error::custom)?;
    Ok(Some(with_traces_path(address)))
}

fn deserialize_fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let fraction = f64::deserialize(deserializer)?;
    let is_valid = (0.0..=1.0).contains(&fraction);
    is_valid.then_some(fraction).ok_or_else(|| D::Error::custom("expected a number from 0 to 1"))
}

/// Appends the traces path to a collector URL, unless the URL already ends with it.
fn with_traces_path(mut address: Url) -> Url {
    if !address.path().ends_with(TRACES_PATH) {
        let path = format!("{}{TRACES_PATH}", address.path().trim_end_matches('/'));
        address.set_path(&path);
    }
    address
}

/// Parses the HTTP or HTTPS URL of a collector.
fn parse_address(text: &str) -> Result<Url, &'static str> {
    let wrong = "invalid collector URL; use http://HOST:PORT or https://HOST";
    let address = Url::parse(text).map_err(|_| wrong)?;
    let is_http = matches!(address.scheme(), "http" | "https") && address.has_host();
    is_http.then_some(address).ok_or(wrong)
}

/// Omits the headers, which may contain a key.
impl fmt::Debug for TelemetrySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let otlp = self.otlp.as_ref().map(|url| url.origin().ascii_serialization());
        f.debug_struct("TelemetrySettings")
            .field("otlp", &otlp)
            .field("sample", &self.sample)
            .field("per_operation", &self.per_operation)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn otel_environment_variables_are_applied() {
        for (variables, expected) in [
            (&[][..], Ok(None)),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")],
                Ok(Some("http://localhost:4318/v1/traces")),
            ),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://o.example/otlp/")],
                Ok(Some("https://o.example/otlp/v1/traces")),
            ),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"),
                    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b/spans"),
                ],
                Ok(Some("http://b/spans")),
            ),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")], Ok(None)),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4317")], Err("HTTP_")),
        ] {
            let environment = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let read = TelemetrySettings::default().with_environment(environment);
            match (read, expected) {
                (Ok(read), Ok(expected)) => {
                    assert_eq!(read.otlp.as_ref().map(Url::as_str), expected, "{variables:?}");
                }
                (Err(message), Err(_)) => assert!(message.starts_with("OTEL_"), "{message}"),
                (read, _) => panic!("{variables:?}: {read:?}"),
            }
        }
        let headers = |name: &str| {
            (name == "OTEL_EXPORTER_OTLP_HEADERS").then(|| "key=a=b, tenant = t ,odd".to_owned())
        };
        let read = TelemetrySettings::default().with_environment(headers).unwrap();
        let expected = [("key", "a=b"), ("tenant", "t")];
        assert_eq!(read.headers, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        assert!(!format!("{read:?}").contains("a=b"));
    }
}

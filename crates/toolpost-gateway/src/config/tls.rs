//! `[tls]`: the certificate of the gateway.

use schemars::JsonSchema;
use serde::Deserialize;

use super::document::TomlDocument;
use super::expand::ExpandError;
use crate::server::{ServerTls, TlsError};

/// The certificate of the gateway. With it, connections over TCP use TLS, with HTTP/2 or HTTP/1.1.
///
/// A change to the files applies to new connections. Adding or removing the table takes effect after
/// a restart.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table with `cert` and `key`")]
#[schemars(rename = "Tls")]
pub(super) struct TlsTable {
    /// PEM file with the certificate of the gateway and the intermediate certificates, relative to
    /// the folder of this file.
    cert: String,
    /// PEM file with the private key of the certificate.
    key: String,
    /// PEM file with the certificate authorities of clients. If set, a client without a certificate
    /// of one of them cannot connect; `certificate` of an identity makes it that identity.
    client_ca: Option<String>,
}

impl TlsTable {
    /// Reads the files; `None` if one is invalid, which is reported.
    pub(super) fn into_settings(self, document: &TomlDocument<'_>) -> Option<ServerTls> {
        let at = document.section(&["tls"]);
        let expander = &document.expander;
        let reported = |key, read: Result<String, ExpandError>| {
            read.map_err(|error| at.report(&[key], error.to_string())).ok()
        };
        let chain = reported("cert", expander.read_file(&self.cert));
        let key = reported("key", expander.read_secret_file(&self.key));
        let client_ca = self.client_ca.as_deref();
        let client_ca = client_ca.map(|file| reported("client_ca", expander.read_file(file)));
        let (chain, key, client_ca) =
            (chain?, key?, client_ca.map_or(Some(None), |pem| pem.map(Some))?);
        let client_ca = client_ca.as_deref().map(str::as_bytes);
        let settings = ServerTls::from_pem(chain.as_bytes(), key.as_bytes(), client_ca);
        let failed = |error: TlsError| {
            let key = match error {
                TlsError::Certificates | TlsError::Pair(_) => "cert",
                TlsError::Key => "key",
                TlsError::ClientCa => "client_ca",
            };
            at.report(&[key], error.to_string());
        };
        settings.map_err(failed).ok()
    }
}

//! TLS: the certificate of the gateway, which is replaced without closing connections, and client
//! certificates.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::auth::{ClientCertificate, Sha256Digest};

const HTTP2: &[u8] = b"h2";

/// A certificate with its key, and the certificate authorities of clients.
#[derive(Clone)]
pub(crate) struct ServerTls {
    config: Arc<ServerConfig>,
    /// Digest of the certificate and the key.
    digest: Sha256Digest,
    /// Digest of the certificate authorities that clients need a certificate of, if any.
    pub(crate) client_ca: Option<Sha256Digest>,
}

/// Why a certificate or a key cannot be used. No message contains a part of the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("not a PEM file with certificates")]
    Certificates,
    #[error("not a PEM file with a private key")]
    Key,
    #[error("the certificate and its key cannot be used: {0}")]
    Pair(#[source] rustls::Error),
    #[error("not a PEM file with CA certificates")]
    ClientCa,
}

impl ServerTls {
    /// Parses the certificate chain, its key, and the certificate authorities of clients, if clients
    /// need a certificate.
    pub(crate) fn from_pem(
        chain: &[u8],
        key: &[u8],
        client_ca: Option<&[u8]>,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificates = parse_certificates(chain).ok_or(TlsError::Certificates)?;
        let private_key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::Key)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Pair)?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for root in parse_certificates(pem).ok_or(TlsError::ClientCa)? {
                    roots.add(root).map_err(|_| TlsError::ClientCa)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(|_| TlsError::ClientCa)?)
            }
        };
        let mut config =
            builder.with_single_cert(certificates, private_key).map_err(TlsError::Pair)?;
        let digest = Sha256::new().chain_update(Sha256::digest(chain)).chain_update(key);
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            digest: digest.finalize().into(),
            client_ca: client_ca.map(|pem| Sha256::digest(pem).into()),
        })
    }

    /// Accepts a connection within the time limit; `None` if the handshake fails.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        limit: Duration,
        stopping: &CancellationToken,
    ) -> Option<(TlsStream<TcpStream>, Option<Arc<ClientCertificate>>)> {
        let accepting = TlsAcceptor::from(Arc::clone(&self.config)).accept(stream);
        let accepted = tokio::select! {
            biased;
            accepted = tokio::time::timeout(limit, accepting) => accepted,
            () = stopping.cancelled() => return None,
        };
        let accepted = accepted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match accepted {
            Ok(stream) => {
                let certificate = self.client_certificate(&stream);
                Some((stream, certificate))
            }
            Err(error) => {
                tracing::debug!(%error, "TLS handshake failed");
                None
            }
        }
    }

    fn client_certificate(&self, stream: &TlsStream<TcpStream>) -> Option<Arc<ClientCertificate>> {
        let certificate = stream.get_ref().1.peer_certificates()?.first()?;
        Some(Arc::new(ClientCertificate::new(certificate.as_ref(), self.client_ca?)))
    }
}

/// Whether client and server agreed on HTTP/2.
pub(super) fn is_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}

fn parse_certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let parsed: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(pem).collect();
    parsed.ok().filter(|certificates| !certificates.is_empty())
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        (self.digest, self.client_ca) == (other.digest, other.client_ca)
    }
}

toolpost::debug_fields!(tls: ServerTls, client_ca = tls.client_ca.is_some());

/// The TLS settings of new connections. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct TlsCell(Arc<ArcSwap<ServerTls>>);

impl TlsCell {
    pub(crate) fn new(tls: ServerTls) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(tls)))
    }

    pub(super) fn current(&self) -> Arc<ServerTls> {
        self.0.load_full()
    }

    /// Replaces the settings. Open connections keep theirs.
    pub(crate) fn replace(&self, tls: ServerTls) {
        self.0.store(Arc::new(tls));
    }
}

//! Modbus/TCP Security: TLS over the same connect as TCP, both sides with certificates.
//!
//! Source: MODBUS/TCP Security Protocol Specification, 5 and 8: TLS 1.2 or later, X.509v3 on both sides.

use super::{ConnectError, TlsEndpoint, tcp};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Connects and shakes hands, all within `patience`. Certificates are read each time: a renewed one counts at once.
pub(super) async fn connect(at: &TlsEndpoint, patience: Duration) -> Result<TlsStream<TcpStream>, ConnectError> {
    let until = Instant::now() + patience;
    let config = client_config(at)?;
    let name = ServerName::try_from(at.endpoint.host().to_owned())
        .map_err(|error| refused(format!("`{}` cannot be named by a certificate: {error}", at.endpoint.host())))?;
    let stream = tcp::connect(&at.endpoint, patience).await?;
    let left = until.saturating_duration_since(Instant::now());
    match timeout(left, TlsConnector::from(Arc::new(config)).connect(name, stream)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(refused(format!("TLS: {error}"))),
        Err(_) => Err(refused("TLS: the server did not finish the handshake in time".to_owned())),
    }
}

fn client_config(at: &TlsEndpoint) -> Result<ClientConfig, ConnectError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&at.ca)? {
        roots.add(certificate).map_err(|error| refused(format!("{}: {error}", at.ca.display())))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string()))?
        .with_root_certificates(roots);
    let Some((cert, key)) = &at.identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(cert)?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, "private key", &error))?;
    builder
        .with_client_auth_cert(chain, secret)
        .map_err(|error| refused(format!("{} does not go with {}: {error}", key.display(), cert.display())))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(file, "certificate", &error))?;
    if certificates.is_empty() {
        return Err(refused(format!("{} has no certificate in PEM form", file.display())));
    }
    Ok(certificates)
}

fn unreadable(file: &Path, what: &str, error: &rustls_pki_types::pem::Error) -> ConnectError {
    match error {
        rustls_pki_types::pem::Error::Io(io) if io.kind() == io::ErrorKind::PermissionDenied => {
            ConnectError::PermissionDenied(io::Error::other(format!("{}: {io}", file.display())))
        }
        rustls_pki_types::pem::Error::Io(io) => refused(format!("{} cannot be read: {io}", file.display())),
        error => refused(format!("{} has no {what} in PEM form: {error}", file.display())),
    }
}

fn refused(words: String) -> ConnectError {
    ConnectError::Refused(io::Error::other(words))
}

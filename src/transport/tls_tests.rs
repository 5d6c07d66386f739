//! TLS against a server of the same library, with certificates made here.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::ring};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Certificate and key, in PEM form.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }
}

/// A server that wants certificates of `clients` and sends back what it gets.
async fn serve(server: &Authority, name: &str, clients: &Authority) -> Endpoint {
    use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
    let (certificate, key) = server.sign(name);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(clients.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut buffer = [0; 300];
                while let Ok(n @ 1..) = stream.read(&mut buffer).await {
                    stream.write_all(&buffer[..n]).await.unwrap();
                    stream.flush().await.unwrap();
                }
            });
        }
    });
    format!("localhost:{port}").parse().unwrap()
}

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A client that trusts `server` and is known to `own`.
    fn client(&self, endpoint: &Endpoint, server: &Authority, own: Option<&Authority>) -> LinkAddress {
        let identity = own.map(|own| {
            let (certificate, key) = own.sign("gateway");
            (self.put("cert.pem", &certificate), self.put("key.pem", &key))
        });
        LinkAddress::Tls(TlsEndpoint { endpoint: endpoint.clone(), ca: self.put("ca.pem", &server.pem()), identity })
    }
}

async fn connect(address: &LinkAddress) -> Result<Link, ConnectError> {
    Link::connect(address, Duration::from_secs(5)).await
}

/// Sends bytes and waits for them to come back.
async fn echo(link: &mut Link, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut sent = link.try_send(bytes)?;
    let (mut buffer, mut got) = ([0; 300], Vec::new());
    while got.len() < bytes.len() {
        match link.exchange(&bytes[sent..], &mut buffer).await? {
            Exchanged::Received(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Exchanged::Received(n) => got.extend_from_slice(&buffer[..n]),
            Exchanged::Sent(n) => sent += n,
        }
    }
    Ok(got)
}

#[tokio::test]
async fn both_sides_know_each_other() {
    let (authority, files) = (Authority::new(), Files::new());
    let endpoint = serve(&authority, "localhost", &authority).await;
    let mut link = connect(&files.client(&endpoint, &authority, Some(&authority))).await.unwrap();
    let request = [0, 1, 0, 0, 0, 6, 1, 3, 0, 0, 0, 1];
    for _ in 0..3 {
        assert_eq!(echo(&mut link, &request).await.unwrap(), request);
    }
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused() {
    let (authority, other, files) = (Authority::new(), Authority::new(), Files::new());
    let endpoint = serve(&other, "localhost", &authority).await;
    let refused = connect(&files.client(&endpoint, &authority, Some(&authority))).await;
    assert!(
        matches!(&refused, Err(ConnectError::Refused(e)) if e.to_string().contains("invalid peer certificate")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_server_of_another_name_is_refused() {
    let (authority, files) = (Authority::new(), Files::new());
    let endpoint = serve(&authority, "plc.example", &authority).await;
    let refused = connect(&files.client(&endpoint, &authority, Some(&authority))).await;
    assert!(
        matches!(&refused, Err(ConnectError::Refused(e)) if e.to_string().contains("not valid for name")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn without_a_certificate_of_our_own_the_server_closes() {
    let (authority, other, files) = (Authority::new(), Authority::new(), Files::new());
    let endpoint = serve(&authority, "localhost", &authority).await;
    for own in [None, Some(&other)] {
        // TLS 1.3 says so only after the client's part of the handshake is over.
        let refused = match connect(&files.client(&endpoint, &authority, own)).await {
            Ok(mut link) => echo(&mut link, &[1]).await.unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(
            refused.contains("Certificate") || refused.contains("UnknownCA") || refused.contains("Decrypt"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let (authority, files) = (Authority::new(), Files::new());
    let endpoint: Endpoint = "localhost:1".parse().unwrap();
    let LinkAddress::Tls(good) = files.client(&endpoint, &authority, Some(&authority)) else { unreachable!() };
    let (certificate, key) = good.identity.clone().unwrap();
    let odd = files.put("odd.pem", "no certificate\n");
    let missing = files.0.path().join("missing.pem");
    let other_key = files.put("other.pem", &authority.sign("x").1);
    for (named, broken) in [
        ("odd.pem", TlsEndpoint { ca: odd.clone(), ..good.clone() }),
        ("missing.pem", TlsEndpoint { ca: missing.clone(), ..good.clone() }),
        ("odd.pem", TlsEndpoint { identity: Some((odd.clone(), key)), ..good.clone() }),
        ("odd.pem", TlsEndpoint { identity: Some((certificate.clone(), odd)), ..good.clone() }),
        ("other.pem", TlsEndpoint { identity: Some((certificate, other_key)), ..good.clone() }),
    ] {
        let refused = connect(&LinkAddress::Tls(broken)).await;
        assert!(matches!(&refused, Err(ConnectError::Refused(e)) if e.to_string().contains(named)), "{refused:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_mute_does_not_hold_the_handshake_up() {
    let (authority, files) = (Authority::new(), Files::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint: Endpoint = format!("localhost:{}", listener.local_addr().unwrap().port()).parse().unwrap();
    let address = files.client(&endpoint, &authority, None);
    let began = std::time::Instant::now();
    let refused = Link::connect(&address, Duration::from_millis(300)).await;
    assert!(matches!(&refused, Err(ConnectError::Refused(e)) if e.to_string().contains("in time")), "{refused:?}");
    assert!(began.elapsed() < Duration::from_millis(900));
}

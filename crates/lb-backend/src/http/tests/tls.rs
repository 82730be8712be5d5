//! Calls over TLS, to servers with certificates of an authority of our own.

use std::net::SocketAddr;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::super::tls;
use super::*;
use crate::error::{ConnectError, EraError};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// The server's side, with a certificate for these names.
    fn acceptor(&self, names: &[&str]) -> TlsAcceptor {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Speaks TLS in front of the script.
async fn front(acceptor: TlsAcceptor, script: SocketAddr) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tasks = Tasks::default();
    let own = tasks.clone();
    tasks.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            own.spawn(async move {
                // A client that does not trust us hangs up.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
                let mut script = TcpStream::connect(script).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut stream, &mut script).await);
            });
        }
    });
    port
}

/// A port where plain HTTP is spoken.
async fn plain() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    Tasks::default().spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await);
            // Until the client hangs up.
            while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {}
        }
    });
    port
}

/// Whom we trust when `SSL_CERT_FILE` and `SSL_CERT_DIR` are these.
fn roots(file: &str, folders: &str) -> Result<rustls::RootCertStore, String> {
    let roots = tls::roots(|name| match name {
        "SSL_CERT_FILE" => Some(file.into()),
        "SSL_CERT_DIR" => Some(folders.into()),
        _ => None,
    });
    roots.map_err(|error| error.to_string())
}

#[tokio::test]
async fn calls_go_over_tls_to_servers_that_the_user_trusts() {
    let (ours, stranger) = (Authority::new("ours"), Authority::new("stranger"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    std::fs::write(&file, ours.pem()).unwrap();
    tls::trust(roots(file.to_str().unwrap(), "").unwrap());

    let mut server = Script::start().await;
    let port = front(ours.acceptor(&["localhost", "127.0.0.1"]), server.address()).await;
    for host in ["localhost", "127.0.0.1"] {
        let endpoint =
            Arc::new(Endpoint::new("it", &format!("https://{host}:{port}/mcp"), &[], Tasks::default()).unwrap());
        let (connected, ()) = tokio::join!(HttpConnection::legacy(endpoint, hello(), Feed::default()), async {
            welcome(&mut server, "s-1").await;
        });
        let connection = connected.unwrap().0;
        let mut used = Vec::new();
        for _ in 0..2 {
            let (got, ()) = tokio::join!(end(tool(&connection)), async {
                let asked = server.next().await;
                assert_eq!(asked.header("host"), Some(format!("{host}:{port}").as_str()));
                used.push(asked.connection);
                asked.json(&asked.result(&json!({"over": "tls"}))).await;
            });
            assert_eq!(got, r#"result {"over":"tls"}"#);
        }
        assert_eq!(used.first(), used.last(), "the connection is kept");
        connection.intake().calls.close(&raw(&json!({})));
    }

    let wrong_name = front(ours.acceptor(&["elsewhere.example"]), server.address()).await;
    let wrong_authority = front(stranger.acceptor(&["localhost"]), server.address()).await;
    for (port, why) in [
        (wrong_name, "certificate not valid for name"),
        (wrong_authority, "set SSL_CERT_FILE"),
        (plain().await, "does not speak TLS there; try http://"),
    ] {
        let endpoint =
            Arc::new(Endpoint::new("it", &format!("https://localhost:{port}/mcp"), &[], Tasks::default()).unwrap());
        let refused = HttpConnection::legacy(endpoint, hello(), Feed::default()).await;
        let EraError::Failed(error @ ConnectError::Unreachable { .. }) = refused.err().unwrap() else {
            panic!("nothing is said about the era")
        };
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn the_environment_says_whom_to_trust() {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = first.path().join("one.pem");
    std::fs::write(&file, one.pem()).unwrap();
    std::fs::write(second.path().join("two.pem"), two.pem()).unwrap();
    let both = std::env::join_paths([first.path(), second.path()]).unwrap();
    let (file, both) = (file.to_str().unwrap(), both.to_str().unwrap());
    let (first, second) = (first.path().to_str().unwrap(), second.path().to_str().unwrap());
    for (file, folders, want) in [(file, "", 1), ("", first, 1), ("", both, 2), (file, second, 2)] {
        assert_eq!(roots(file, folders).unwrap().len(), want, "{file:?} {folders:?}");
    }
    for (file, folders) in [("/nowhere", ""), ("", "/nowhere"), (first, "")] {
        let error = roots(file, folders).unwrap_err();
        assert!(error.starts_with("SSL_CERT_FILE or SSL_CERT_DIR is set, but holds no certificate: "), "{error}");
    }
    assert!(100 < roots("", "").unwrap().len(), "the public authorities");
}

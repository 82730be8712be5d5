use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lb_http::{Listener, Settings, Tls};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::peer::*;

/// Files of a certificate, and what clients trust.
struct Files {
    _folder: tempfile::TempDir,
    cert: PathBuf,
    key: PathBuf,
    trusted: RootCertStore,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a certificate, trusted");
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let mut files = Self { _folder: folder, cert, key, trusted: RootCertStore::empty() };
        files.renew();
        files
    }

    /// Writes a new pair, which clients trust as well.
    fn renew(&mut self) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate, trusted");
        std::fs::write(&self.cert, made.cert.pem()).expect("a certificate, trusted");
        std::fs::write(&self.key, made.signing_key.serialize_pem()).expect("a certificate, trusted");
        self.trusted
            .add(CertificateDer::from_pem_file(&self.cert).expect("a certificate, trusted"))
            .expect("a certificate, trusted");
    }

    async fn server(&self, settings: Settings) -> Server {
        let listener = Listener::bind(&"127.0.0.1:0".parse().expect("a certificate, trusted"))
            .await
            .expect("a certificate, trusted");
        let listener = listener.with_tls(Tls::load(&self.cert, &self.key).expect("a certificate, trusted"));
        assert!(listener.to_string().starts_with("https://127.0.0.1:"), "{listener}");
        Server::behind(listener, settings, lb_front::Settings::default())
    }

    async fn connect(&self, server: &Server) -> TlsStream<TcpStream> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("a certificate, trusted");
        let mut config = builder.with_root_certificates(self.trusted.clone()).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let socket = TcpStream::connect(server.addr).await.expect("a certificate, trusted");
        let name = ServerName::try_from("localhost").expect("a certificate, trusted");
        TlsConnector::from(Arc::new(config)).connect(name, socket).await.expect("a certificate, trusted")
    }
}

fn certificate(socket: &TlsStream<TcpStream>) -> Vec<u8> {
    socket.get_ref().1.peer_certificates().expect("a certificate, trusted")[0].to_vec()
}

#[tokio::test]
async fn clients_are_served_over_tls_and_told_to_stay_there() {
    let files = Files::new();
    let server = files.server(Settings::default()).await;
    let socket = files.connect(&server).await;
    assert_eq!(socket.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]), "HTTP/2 is not offered");
    server
        .handle
        .update(Settings { allowed_hosts: vec!["localhost".into(), "mcp.example".into()], ..Settings::default() });
    let mut peer = Peer::over(socket, "mcp.example");
    let response = peer.ask("GET /ping", &[]).await;
    assert_eq!((response.status, response.header("strict-transport-security")), (200, Some("max-age=31536000")));
    let local = peer.ask("GET /ping", &[("Host", "localhost")]).await;
    assert_eq!(local.header("strict-transport-security"), Some("max-age=0"), "other ports of this machine have no TLS");
    let plain = Server::start().await;
    let response = plain.connect().await.ask("GET /ping", &[]).await;
    assert_eq!(response.header("strict-transport-security"), None);
}

#[tokio::test]
async fn a_handshake_that_does_not_come_is_not_waited_for() {
    let files = Files::new();
    let server = files.server(Settings { handshake_max: Duration::from_millis(150), ..Settings::default() }).await;
    let mut silent = server.connect().await;
    assert!(silent.closed().await.is_empty());
    let mut plain = server.connect().await;
    let head = plain.head("GET /ping", &[]);
    plain.send(&format!("{head}\r\n")).await;
    let said = plain.closed().await;
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
    assert_eq!(Peer::over(files.connect(&server).await, "localhost").ask("GET /ping", &[]).await.status, 200);
}

#[tokio::test]
async fn a_handshake_that_does_not_end_does_not_hold_up_the_shutdown() {
    let files = Files::new();
    let (drain_max, handshake_max) = (Duration::from_millis(100), 100 * PATIENCE);
    let server = files.server(Settings { drain_max, handshake_max, ..Settings::default() }).await;
    let mut silent = server.connect().await;
    let start = Instant::now();
    while server.handle.connections() == 0 {
        assert!(start.elapsed() < PATIENCE, "the connection is not accepted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.stop.cancel();
    assert!(silent.closed().await.is_empty());
    tokio::time::timeout(PATIENCE, server.stopped.cancelled()).await.expect("it stops");
}

#[tokio::test]
async fn a_new_certificate_is_used_without_a_restart_and_open_connections_go_on() {
    let mut files = Files::new();
    let server = files.server(Settings::default()).await;
    let socket = files.connect(&server).await;
    let old = certificate(&socket);
    let mut open = Peer::over(socket, "localhost");
    assert_eq!(open.ask("GET /ping", &[]).await.status, 200);
    files.renew();
    let start = Instant::now();
    while certificate(&files.connect(&server).await) == old {
        assert!(start.elapsed() < PATIENCE, "the new certificate is not used");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(open.ask("GET /ping", &[]).await.status, 200);
}

//! Clients whose id is the address of a document about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lb_peers::idp::Decision;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::world::{ALLOW, Client, REDIRECT, World, authorize, get, parameter, redeem};

/// A site with one document, the file of its certificate, and how many have connected.
struct Site {
    id: String,
    ca: tempfile::TempPath,
    visits: Arc<AtomicUsize>,
}

#[expect(clippy::disallowed_methods, reason = "a test's server ends with its runtime")]
async fn site() -> Site {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let mut ca = tempfile::NamedTempFile::new().expect("a file");
    std::io::Write::write_all(&mut ca, made.cert.pem().as_bytes()).expect("written");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config.expect("a certificate")));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let id = format!("https://localhost:{}/client.json", listener.local_addr().expect("its address").port());
    let document = json!({ "client_id": id, "client_name": "Documented", "redirect_uris": [REDIRECT] }).to_string();
    let visits = Arc::new(AtomicUsize::new(0));
    let counted = visits.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let (acceptor, document) = (acceptor.clone(), document.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut head = [0; 4_096];
                let Ok(1..) = stream.read(&mut head).await else { return };
                let length = document.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{document}"
                );
                stream.write_all(answer.as_bytes()).await.ok();
                stream.shutdown().await.ok();
            });
        }
    });
    Site { id, ca: ca.into_temp_path(), visits }
}

#[tokio::test]
async fn a_client_that_names_a_document_gets_in_where_its_network_is_allowed() {
    let site = site().await;
    let ca = site.ca.to_string_lossy().into_owned();
    let world = World::start(ALLOW, &["--outbound-ca", &ca, "--cimd-allow", "127.0.0.0/8,::1"]).await;
    let stopped = world.login(&site.id, "mcp:read", "alice", Decision::Approve).await;
    let code = parameter(&stopped.url, "code")
        .unwrap_or_else(|| panic!("{:?} {:?} {}", stopped.page, stopped.trace, world.gateway.said()));
    let got = redeem(world.at(), &site.id, &code).await;
    let client = Client::begin(world.at(), &got.access).await;
    assert_eq!(client.call("list_servers", json!({})).await.head.status(), 200);
    assert_eq!(site.visits.load(Ordering::SeqCst), 1, "it is asked once");
}

#[tokio::test]
async fn nobody_makes_us_ask_a_network_of_our_own() {
    let site = site().await;
    let ca = site.ca.to_string_lossy().into_owned();
    let world = World::start(ALLOW, &["--outbound-ca", &ca]).await;
    let start = authorize(&world.url, &site.id, "mcp:read");
    let answer = get(world.at(), start.strip_prefix(&world.url).expect("ours"), &[]).await;
    assert_eq!((answer.head.status(), answer.head.header("location")), (400, None), "{}", answer.text());
    assert_eq!(site.visits.load(Ordering::SeqCst), 0);
}

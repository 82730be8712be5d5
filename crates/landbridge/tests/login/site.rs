//! A site of a client, with the document that its id is the address of.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::world::REDIRECT;

/// A site with one document, the file of its certificate, and how many have connected.
pub struct Site {
    pub id: String,
    pub visits: Arc<AtomicUsize>,
    ca: tempfile::TempPath,
}

impl Site {
    /// The file with its certificate.
    pub fn ca(&self) -> &str {
        self.ca.to_str().expect("a name of ours")
    }

    /// How a gateway is told that it may ask this site.
    pub fn args(&self) -> [&str; 4] {
        ["--outbound-ca", self.ca(), "--cimd-allow", "127.0.0.0/8,::1"]
    }
}

/// A site whose document names a public client.
pub async fn site() -> Site {
    site_named("Documented").await
}

/// The same with another name.
#[expect(clippy::disallowed_methods, reason = "a test's server ends with its runtime")]
pub async fn site_named(name: &str) -> Site {
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
    let document = json!({
        "client_id": id, "client_name": name, "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
    });
    let document = document.to_string();
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
    Site { id, visits, ca: ca.into_temp_path() }
}

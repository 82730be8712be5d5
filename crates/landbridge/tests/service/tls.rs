//! TLS of the binary itself: who is let in by which certificate, and a new one while it runs.

use std::path::Path;
use std::sync::Arc;

use lb_peers::harness::{Gateway, config};
use rcgen::CertifiedKey;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio_rustls::TlsConnector;

use crate::world::*;

/// Puts a new certificate for localhost in the place of the one in a folder, and gives it.
fn certificate(folder: &Path) -> CertificateDer<'static> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(names).expect("a certificate");
    for (name, text) in [("key.pem", signing_key.serialize_pem()), ("cert.pem", cert.pem())] {
        std::fs::write(folder.join("new"), text).expect("written");
        std::fs::rename(folder.join("new"), folder.join(name)).expect("renamed");
    }
    CertificateDer::from_pem_slice(cert.pem().as_bytes()).expect("PEM")
}

/// A gateway that serves https with the certificate in its folder, and that.
async fn secure() -> (Gateway, tempfile::TempDir, CertificateDer<'static>) {
    let (folder, file) = config(&json!({}));
    let own = tempfile::tempdir().expect("a folder");
    let cert = certificate(own.path());
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    command.arg("--tls-cert").arg(own.path().join("cert.pem")).arg("--tls-key").arg(own.path().join("key.pem"));
    (Gateway::launch(command, folder).await, own, cert)
}

/// What a GET over TLS gives to somebody who trusts this certificate and speaks these protocols: the one that was
/// chosen, and the answer.
async fn get(
    gateway: &Gateway,
    trusted: &CertificateDer<'static>,
    protocols: &[&str],
    path: &str,
) -> std::io::Result<(Option<String>, String)> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let socket = TcpStream::connect(gateway.address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
    let chosen = stream.get_ref().1.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("it ends")?;
    Ok((chosen, answer))
}

#[tokio::test]
async fn https_is_served_as_http_1_to_whoever_trusts_the_certificate() {
    let (gateway, own, cert) = secure().await;
    let address = gateway.address;
    assert!(gateway.said().contains(&format!("listening on https://{address}\n")), "{}", gateway.said());
    until("the banner is whole", async || gateway.said().contains("Stop with Ctrl-C.")).await;
    assert!(gateway.said().contains(&format!("\"url\": \"https://{address}/mcp\"")), "{}", gateway.said());
    for protocols in [&["h2", "http/1.1"][..], &["http/1.1"]] {
        let (chosen, answer) = get(&gateway, &cert, protocols, "/ping").await.expect("an answer");
        assert_eq!(chosen.as_deref(), Some("http/1.1"), "{protocols:?}");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("pong"), "{answer}");
        assert!(answer.to_ascii_lowercase().contains("strict-transport-security: "), "{answer}");
    }
    assert!(
        get(&gateway, &cert, &["h2"], "/ping").await.is_err(),
        "who only speaks HTTP/2 is refused in the handshake"
    );
    let (_, answer) = get(&gateway, &cert, &[], "/").await.expect("who names none is served");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let stranger = tempfile::tempdir().expect("a folder");
    let other = certificate(stranger.path());
    assert!(get(&gateway, &other, &["http/1.1"], "/ping").await.is_err(), "another certificate is not trusted");
    drop(own);
}

#[tokio::test]
async fn a_new_certificate_is_used_without_a_restart_and_a_broken_one_is_not() {
    let (gateway, own, old) = secure().await;
    assert!(get(&gateway, &old, &["http/1.1"], "/ping").await.is_ok());
    std::fs::write(own.path().join("cert.pem"), "broken").expect("written");
    until("it says so", async || gateway.said().contains("certificate_reload_failed")).await;
    assert!(get(&gateway, &old, &["http/1.1"], "/ping").await.is_ok(), "the old one stays");
    let new = certificate(own.path());
    until("the new one is used", async || get(&gateway, &new, &["http/1.1"], "/ping").await.is_ok()).await;
    assert!(get(&gateway, &old, &["http/1.1"], "/ping").await.is_err(), "and the old one is not");
    assert!(gateway.said().contains("certificate_reloaded"), "{}", gateway.said());
}

#[tokio::test]
async fn smoke_tests_https_with_an_authority_or_without_any() {
    let (gateway, own, _cert) = secure().await;
    let url = format!("https://localhost:{}/mcp", gateway.port());
    let smoke = async |args: &[&str]| {
        let mut command = Command::new(LANDBRIDGE);
        command.args(["smoke", &url]).args(args).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").expect("its output");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    };
    let cert = own.path().join("cert.pem");
    for args in [&["--ca", cert.to_str().expect("text")][..], &["--insecure"]] {
        let (code, said) = smoke(args).await;
        assert_eq!(code, Some(0), "{args:?}: {said}");
        assert!(said.contains(&format!("Smoke test of {url}\n")) && said.contains(" 0 failed"), "{said}");
    }
    let (code, said) = smoke(&[]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("give --ca FILE") && said.contains("--insecure"), "{said}");
    let (code, said) = smoke(&["--ca", "none.pem"]).await;
    assert!(code == Some(2) && said.contains("none.pem holds no certificate"), "{said}");
}

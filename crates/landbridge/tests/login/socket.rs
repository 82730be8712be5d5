//! A login behind a unix socket, as below a proxy of the same user.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::world::{ALLOW, REDIRECT, serve};

const PATIENCE: Duration = Duration::from_secs(30);

/// The status of a registration that a proxy says comes from there.
async fn register(path: &Path, from: &str) -> Option<u16> {
    let body = json!({ "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none" }).to_string();
    let mut socket = UnixStream::connect(path).await.ok()?;
    let request = format!(
        "POST /register HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-For: {from}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// What twelve registrations from two addresses, in turn, are told.
async fn told(proxies: &[&str]) -> Vec<u16> {
    let (mut command, folder) = serve(ALLOW);
    let path = folder.path().join("run/http.sock");
    command.arg("--listen").arg(format!("unix:{}", path.display())).args(proxies);
    // What is counted is kept, and the next one starts anew.
    command.args(["--data", "none", "--auth", "oidc", "--oidc-client-id", "x", "--oidc-issuer", "https://idp.example"]);
    command.args(["--public-url", "https://gw.example", "--allow-host", "localhost"]);
    let mut child = command.kill_on_drop(true).spawn().expect("it starts");
    let began = Instant::now();
    while UnixStream::connect(&path).await.is_err() {
        assert!(began.elapsed() < PATIENCE, "it listens");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut told = Vec::new();
    for number in 0..12 {
        told.push(register(&path, &format!("203.0.113.{}", number % 2)).await.expect("an answer"));
    }
    child.kill().await.expect("it is ours");
    told
}

/// Whoever is at the other end is a process of our own user, and not by that a proxy: what it says of others is believed
/// where the operator has said so.
#[tokio::test]
async fn a_proxy_on_a_unix_socket_is_believed_when_it_is_named() {
    assert_eq!(told(&["--trusted-proxies", "127.0.0.1"]).await, [201; 12], "two addresses, ten each");
    let unnamed = told(&[]).await;
    assert_eq!(unnamed[..10], [201; 10]);
    assert_eq!(unnamed[10..], [429; 2], "all of it is one, which has ten");
}

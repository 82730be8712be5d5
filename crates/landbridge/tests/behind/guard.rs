//! A real server behind a door: it says who makes its tokens, and lets in who shows what it wants.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lb_peers::harness::{HttpPeer, peer};
use lb_peers::raw::endpoint;
use lb_peers::raw::http1::{Conn, Head, response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::LANDBRIDGE;

/// What somebody has to show.
#[derive(Clone)]
pub enum Wants {
    /// A token of this issuer that is for the server and not over.
    TokenOf(String),
    /// This header with this value.
    Header(&'static str, String),
}

/// A server with a door.
pub struct Guard {
    pub url: String,
    shown: Arc<Mutex<Vec<String>>>,
    _server: HttpPeer,
}

impl Guard {
    #[expect(clippy::disallowed_methods, reason = "a test's server ends with its runtime")]
    pub async fn start(wants: Wants) -> Self {
        let server = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &[]).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("its address"));
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (door, behind) = (Arc::new((url.clone(), wants, shown.clone())), server.address);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let door = door.clone();
                tokio::spawn(async move {
                    let mut conn = Conn::new(stream);
                    let Ok(Some((head, body))) = endpoint::read(&mut conn).await else { return };
                    let done = match answer(&head, &door.0, &door.1, &door.2) {
                        Some(refusal) => conn.write(&refusal).await,
                        None => passed(&mut conn, behind, &head, &body).await,
                    };
                    // Whoever asks may have gone before the answer ended.
                    done.ok();
                });
            }
        });
        Self { url, shown, _server: server }
    }

    /// What was shown that was good, once each, in the order in which it came.
    pub fn shown(&self) -> Vec<String> {
        self.shown.lock().expect("no panic holds it").clone()
    }
}

/// Asks the server itself, and hands on what it says until it has said all.
async fn passed(conn: &mut Conn, server: std::net::SocketAddr, head: &Head, body: &[u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    let framing = ["connection", "content-length", "transfer-encoding", "expect", "authorization"];
    let mut asked = format!("{}\r\nConnection: close\r\nContent-Length: {}\r\n", head.start, body.len());
    for (name, value) in head.headers.iter().filter(|(name, _)| !framing.contains(&name.to_lowercase().as_str())) {
        asked.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(&[asked.as_bytes(), b"\r\n", body].concat()).await?;
    let mut piece = [0; 4_096];
    loop {
        match stream.read(&mut piece).await? {
            0 => return Ok(()),
            read => conn.write(&piece[..read]).await?,
        }
    }
}

/// What is said at the door; `None` for who is let in.
fn answer(head: &Head, url: &str, wants: &Wants, shown: &Mutex<Vec<String>>) -> Option<Vec<u8>> {
    let close = ("connection", "close");
    let path = head.start.split(' ').nth(1).unwrap_or_default();
    let document = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
    if let Wants::TokenOf(issuer) = wants
        && document.ends_with(path)
        && path.starts_with("/.well-known/")
    {
        let said = json!({ "resource": url, "authorization_servers": [issuer], "scopes_supported": ["mcp:read"] });
        return Some(response(200, &[close, ("content-type", "application/json")], said.to_string().as_bytes()));
    }
    if path != "/mcp" {
        return Some(response(404, &[close], b""));
    }
    let good = match wants {
        Wants::TokenOf(issuer) => head.header("authorization").filter(|sent| is_good(sent, url, issuer)),
        Wants::Header(name, value) => head.header(name).filter(|sent| sent == value),
    };
    if let Some(good) = good {
        let mut shown = shown.lock().expect("no panic holds it");
        if !shown.iter().any(|known| known == good) {
            shown.push(good.to_owned());
        }
        return None;
    }
    let challenge = match wants {
        Wants::TokenOf(_) => format!("Bearer scope=\"mcp:read\", resource_metadata=\"{document}\""),
        Wants::Header(..) => "Bearer".to_owned(),
    };
    Some(response(401, &[close, ("www-authenticate", &challenge)], b""))
}

/// Whether a token is of this issuer, for us and not over. That it is signed is the provider's own affair here.
fn is_good(sent: &str, url: &str, issuer: &str) -> bool {
    let claims = sent.strip_prefix("Bearer ").and_then(|token| token.split('.').nth(1));
    let claims = claims.and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok());
    let Some(claims) = claims.and_then(|claims| serde_json::from_slice::<Value>(&claims).ok()) else { return false };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs_f64();
    claims["aud"] == url && claims["iss"] == issuer && claims["exp"].as_f64().is_some_and(|end| now < end)
}

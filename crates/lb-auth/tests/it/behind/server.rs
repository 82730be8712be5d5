//! A server that says who makes its tokens, and takes those that are for it and not over.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lb_exchange::Proof;
use lb_peers::raw::endpoint;
use lb_peers::raw::http::{RawHttp, headers};
use lb_peers::raw::http1::{Conn, response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What a server says and wants.
#[derive(Clone)]
pub struct Says {
    /// Who makes its tokens; nobody, where it says nothing of itself.
    pub issuer: Option<String>,
    /// What it wants to be asked for.
    pub scopes: String,
    /// Whether it takes anything at all.
    pub is_stubborn: bool,
}

/// A server on loopback.
pub struct Server {
    pub url: String,
    pub says: Arc<Mutex<Says>>,
}

impl Server {
    pub async fn start(issuer: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let says = Says { issuer: Some(issuer.into()), scopes: "mcp:read".into(), is_stubborn: false };
        let says = Arc::new(Mutex::new(says));
        serve(listener, url.clone(), says.clone());
        Self { url, says }
    }
}

/// Sends a request; the status, and what it says to a refusal.
pub async fn send(url: &str, proof: Option<&Proof>) -> (u16, Vec<String>) {
    let url = url::Url::parse(url).unwrap();
    let address = format!("127.0.0.1:{}", url.port().unwrap()).parse().unwrap();
    let mut connection = RawHttp::connect(address).await.unwrap();
    let sent = proof.map(|proof| ("Authorization", proof.value.expose()));
    let answer = connection.post(url.path(), &headers(&sent.into_iter().collect::<Vec<_>>()), b"{}").await.unwrap();
    let challenges = answer.head.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"));
    (answer.head.status(), challenges.map(|(_, value)| value.clone()).collect())
}

#[expect(clippy::disallowed_methods, reason = "a test's server ends with its runtime")]
fn serve(listener: TcpListener, url: String, says: Arc<Mutex<Says>>) {
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (url, says) = (url.clone(), says.clone());
            tokio::spawn(async move {
                let mut conn = Conn::new(stream);
                while let Ok(Some((head, _))) = endpoint::read(&mut conn).await {
                    let path = head.start.split(' ').nth(1).unwrap().to_owned();
                    let says = says.lock().clone();
                    let bytes = answer(&path, head.header("authorization"), &url, &says);
                    if conn.write(&bytes).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}

fn answer(path: &str, sent: Option<&str>, url: &str, says: &Says) -> Vec<u8> {
    let json_kind = [("content-type", "application/json")];
    let document = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
    if let (Some(issuer), true) = (&says.issuer, path.starts_with("/.well-known/") && document.ends_with(path)) {
        let said = json!({"resource": url, "authorization_servers": [issuer], "scopes_supported": ["mcp:read"]});
        return response(200, &json_kind, said.to_string().as_bytes());
    }
    if path != "/mcp" {
        return response(404, &[], b"");
    }
    let has = sent.and_then(|sent| granted(sent.strip_prefix("Bearer ")?, url));
    let (status, error) = match has {
        Some(has) if !says.is_stubborn => {
            match says.scopes.split(' ').all(|scope| has.split(' ').any(|it| it == scope)) {
                true => return response(200, &json_kind, b"{}"),
                false => (403, "error=\"insufficient_scope\", "),
            }
        }
        Some(_) => (401, "error=\"invalid_token\", "),
        None => (401, ""),
    };
    let challenge = match says.issuer {
        Some(_) => format!("Bearer {error}scope=\"{}\", resource_metadata=\"{document}\"", says.scopes),
        None => "Bearer".to_owned(),
    };
    response(status, &[("www-authenticate", &challenge)], b"")
}

/// What a token is good for, if it is for us and not over. Who made it is the provider's own affair here.
fn granted(token: &str, url: &str) -> Option<String> {
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let is_ours = claims["aud"] == url && now < claims["exp"].as_f64()?;
    is_ours.then(|| claims["scope"].as_str().unwrap_or_default().to_owned())
}

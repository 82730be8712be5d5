//! A provider for the benches, and somebody who logs in with it: `login serve GATEWAY` runs the provider until it is told
//! to end, `login get GATEWAY` prints the tokens of somebody as a line of JSON.

use std::io::{Error, Result};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lb_peers::idp::{Browser, Decision, Idp, Options};
use lb_peers::raw::http::{RawHttp, headers};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::signal::unix::{SignalKind, signal};
use url::Url;

const REDIRECT: &str = "http://127.0.0.1:4711/cb";
const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some("serve"), Some(gateway)) => serve(&gateway).await,
        (Some("get"), Some(gateway)) => get(&gateway).await,
        _ => Err(Error::other("usage: login serve|get GATEWAY")),
    }
}

async fn serve(gateway: &str) -> Result<()> {
    let mut end = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let provider = Idp::start(&Options { redirects: vec![format!("{gateway}/oauth/callback")], ..Options::default() });
    eprintln!("listening on {}", provider.issuer);
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
    drop(provider);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "that is what it is for")]
async fn get(gateway: &str) -> Result<()> {
    let about = json!({ "redirect_uris": [REDIRECT], "client_name": "bench", "token_endpoint_auth_method": "none" });
    let client = ask(gateway, "/register", "application/json", &about.to_string()).await?;
    let client = client["client_id"].as_str().ok_or_else(|| Error::other(format!("no client: {client}")))?.to_owned();
    let mut start = Url::parse(&format!("{gateway}/authorize")).map_err(Error::other)?;
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
    start.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", &client),
        ("redirect_uri", REDIRECT),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    let came = Browser::default().login(start.as_str(), REDIRECT, "alice", Decision::Approve).await?;
    let code = came.url.query_pairs().find(|(name, _)| name == "code").map(|(_, code)| code.into_owned());
    let code = code.ok_or_else(|| Error::other(format!("no code: {:?} {:?}", came.page, came.trace)))?;
    let form = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("grant_type", "authorization_code"), ("client_id", &client), ("code", &code)])
        .extend_pairs([("code_verifier", VERIFIER), ("redirect_uri", REDIRECT)])
        .finish();
    println!("{}", ask(gateway, "/token", "application/x-www-form-urlencoded", &form).await?);
    Ok(())
}

async fn ask(gateway: &str, path: &str, kind: &str, body: &str) -> Result<Value> {
    let address = gateway.strip_prefix("http://").unwrap_or(gateway).parse().map_err(Error::other)?;
    let mut http = RawHttp::connect(address).await?;
    let answer = http.request("POST", path, &headers(&[("Content-Type", kind)]), body.as_bytes()).await?;
    serde_json::from_slice(&answer.body).map_err(Error::other)
}

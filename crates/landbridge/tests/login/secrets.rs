//! Secrets in every field of a login and of what comes after it: none is in a log, a store, a page or an answer.

use std::fmt::Write as _;

use base64::Engine as _;
use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::idp::{Browser, CLIENT_SECRET, Decision, Idp, Options};
use lb_peers::raw::http::{headers, modern_headers, modern_meta};
use lb_peers::valkey::{Program, Valkey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use url::Url;

use crate::LANDBRIDGE;
use crate::hunt::Hunt;
use crate::search::found;
use crate::world::{
    ALLOW, Client, OPERATOR, REDIRECT, Tokens, VERIFIER, form_to, free_port, get, parameter, send, serve, tokens,
    value, with_provider,
};

/// What is written at both ends of a text is written differently in every form.
const STATE: &str = "state/\"of the+client\\ü&more";
const ANSWER: &str = "answer/\"of a+person\\ü&more";
const ENV: &str = "variable/of+the-server=4711";
const HEADER: &str = "header/of+the-server=4711";
const KEY: &str = "key/of+both+nodes=0123456789abcdef-4711";
const OWN_SECRET: &str = "secret/of+a-client=of-the-operator";
/// What is no secret, and stands in the place of one that got out.
const PLANTED: &str = "planted-for-the-searcher";

/// A gateway, what it keeps, and all that was seen of it.
struct Scene {
    gateway: Gateway,
    url: String,
    hunt: Hunt,
    notes: tempfile::TempPath,
    key: String,
    _idp: Idp,
    _web: HttpPeer,
}

impl std::ops::Deref for Scene {
    type Target = Hunt;

    fn deref(&self) -> &Hunt {
        &self.hunt
    }
}

impl std::ops::DerefMut for Scene {
    fn deref_mut(&mut self) -> &mut Hunt {
        &mut self.hunt
    }
}

impl Scene {
    async fn start(store: Option<Valkey>) -> Self {
        let web = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &[]).await;
        let address = format!("127.0.0.1:{}", free_port());
        let url = format!("http://{address}");
        let notes = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
        let redirects = vec![format!("{url}/oauth/callback")];
        let options = Options { redirects, notes: Some(notes.to_path_buf()), ..Options::default() };
        let idp = tokio::task::spawn_blocking(move || Idp::start(&options)).await.expect("it starts");
        let hash: String = Sha256::digest(OWN_SECRET).iter().map(|byte| format!("{byte:02x}")).collect();
        let client = format!(
            "[[auth.clients]]\nid = \"ops\"\nname = \"Ops\"\nredirect_uris = [\"{REDIRECT}\"]\nsecret_sha256 = \"{hash}\"\n"
        );
        let (mut command, folder) = serve(&format!("{ALLOW}{client}"));
        let servers = json!({ "mcpServers": {
            "it": { "command": peer(LANDBRIDGE, "fixture"), "env": { "IT_TOKEN": ENV } },
            "web": { "url": web.url(), "headers": { "X-Api-Key": HEADER } },
        } });
        std::fs::write(folder.path().join("mcp.json"), servers.to_string()).expect("written");
        let data = tempfile::tempdir().expect("a folder");
        let keys = data.path().join("keys.txt");
        let made = Command::new(LANDBRIDGE).args(["auth", "key", "new", "ci", "--file"]).arg(&keys).output().await;
        let key = String::from_utf8_lossy(&made.expect("it runs").stdout).trim().to_owned();
        with_provider(&mut command, &url, &idp);
        command.args(["--auth", "keys"]).arg(&keys).args(["--listen", &address, "--log-level", "trace", "--log-file"]);
        command.arg(data.path().join("log")).env("LANDBRIDGE_KEY", KEY);
        match &store {
            Some(store) => command.args(["--store", &store.url(), "--node-listen", "127.0.0.1:0"]),
            None => command.arg("--data").arg(data.path().join("data")),
        };
        let gateway = Gateway::launch(command, folder).await;
        let hunt = Hunt::new(gateway.address, store, data);
        Self { gateway, url, hunt, notes, key, _idp: idp, _web: web }
    }

    /// A login step by step, as a browser goes through it.
    async fn login(&mut self, client: &str) -> String {
        let mut browser = Browser::default();
        let start = self.authorize(client);
        let asked = browser.open(&start, None).await.expect("an answer");
        let consent = Url::parse(asked.head.header("location").expect("to consent")).expect("a URL");
        let id = parameter(&consent, "id").expect("an id");
        let page = browser.open(&consent, None).await.expect("a page").text();
        let mark = page.split_once("name=\"csrf\" value=\"").and_then(|(_, rest)| rest.split_once('"'));
        let mark = mark.expect("a mark").0.to_owned();
        self.dump("while a person is asked");
        let form = [("id", id.as_str()), ("csrf", &mark), ("decision", "approve")];
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let there = browser.open(&consent, Some(body)).await.expect("an answer");
        let provider = there.head.header("location").expect("to the provider").to_owned();
        let cookies: Vec<_> = browser.cookies().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.dump("while a person logs in");
        let came = browser.login(&provider, REDIRECT, "alice", Decision::Approve).await.expect("it goes on");
        let code = parameter(&came.url, "code").unwrap_or_else(|| panic!("{:?} {:?}", came.page, came.trace));
        assert_eq!(parameter(&came.url, "state").as_deref(), Some(STATE));
        self.dump("while a code waits");
        let to = Url::parse(&provider).expect("a URL");
        let callback =
            came.trace.iter().find(|(url, _)| url.path() == "/oauth/callback").expect("it came by").0.clone();
        self.secret("the id of a consent", id);
        self.secret("the mark of a form", mark);
        for (name, value) in cookies.into_iter().filter(|(name, _)| name.starts_with("lb_")) {
            self.secret(if name == "lb_form" { "the cookie of a form" } else { "the cookie of a login" }, value);
        }
        self.secret("our state", parameter(&to, "state").expect("a state"));
        self.secret("our nonce", parameter(&to, "nonce").expect("a nonce"));
        self.secret("the provider's code", parameter(&callback, "code").expect("a code"));
        self.secret("our code", code.clone());
        code
    }

    fn authorize(&self, client: &str) -> Url {
        let start = crate::world::authorize(&self.url, client, "mcp:call");
        let mut start = Url::parse(&start).expect("a URL");
        let others: Vec<_> = start
            .query_pairs()
            .filter(|(name, _)| name != "state")
            .map(|(a, b)| (a.into_owned(), b.into_owned()))
            .collect();
        start.query_pairs_mut().clear().extend_pairs(others).append_pair("state", STATE);
        start
    }

    /// What the provider was asked and answered, which only it and we know.
    fn provider_told(&mut self) {
        let notes = std::fs::read_to_string(&self.notes).expect("notes");
        let told: Value = serde_json::from_str(notes.lines().next().expect("a line")).expect("JSON");
        for (what, at) in [
            ("our verifier", "/asked/code_verifier"),
            ("the provider's access token", "/answered/access_token"),
            ("the provider's id token", "/answered/id_token"),
        ] {
            let secret = told.pointer(at).and_then(Value::as_str).unwrap_or_else(|| panic!("no {at} in {told}"));
            self.secret(what, secret);
        }
    }
}

/// A client that has a secret.
async fn confidential(scene: &Scene) -> (String, String) {
    let said = json!({ "redirect_uris": [REDIRECT], "client_name": "Test", "token_endpoint_auth_method": "client_secret_post" });
    let kind = headers(&[("Content-Type", "application/json")]);
    let answer = send(scene.at, "POST", "/register", &kind, said.to_string().as_bytes()).await;
    assert_eq!(answer.head.status(), 201, "{}", answer.text());
    let told = value(&answer);
    let text = |name: &str| told[name].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
    (text("client_id"), text("client_secret"))
}

/// Redeems, refreshes, and uses a spent token.
async fn exchange(scene: &mut Scene, client: (&str, &str), code: &str) -> Tokens {
    let own = [("client_id", client.0), ("client_secret", client.1)];
    let redeem =
        [("grant_type", "authorization_code"), ("code", code), ("code_verifier", VERIFIER), ("redirect_uri", REDIRECT)];
    let (status, told) = form_to(scene.at, "/token", &[&own[..], &redeem].concat()).await;
    assert_eq!(status, 200, "{told}");
    let first = tokens(client.0, &told);
    let refresh = [("grant_type", "refresh_token"), ("refresh_token", first.refresh.as_str())];
    let (status, told) = form_to(scene.at, "/token", &[&own[..], &refresh].concat()).await;
    assert_eq!(status, 200, "{told}");
    let next = tokens(client.0, &told);
    for (what, secret) in [
        ("an access token", &first.access),
        ("a refresh token", &first.refresh),
        ("the next access token", &next.access),
        ("the next refresh token", &next.refresh),
    ] {
        scene.secret(what, secret.clone());
        // What is signed is no secret by itself, and in no log all the same.
        let signature = secret.rsplit('.').next().unwrap_or_default().to_owned();
        scene.secret(what, signature);
    }
    next
}

/// Calls, is asked, and answers.
async fn work(scene: &mut Scene, token: &str) {
    let client = Client::begin(scene.at, token).await;
    for server in ["it", "web"] {
        let call = json!({ "server": server, "tool": "echo", "args": { "message": PLANTED } });
        let answer = client.call("execute_tool", call).await;
        assert!(answer.text().contains(PLANTED), "{}", answer.text());
    }
    let ask = json!({ "server": "it", "tool": "test_elicitation", "args": { "message": "who?" }, "timeout_ms": 500 });
    client.call("execute_tool", ask).await;
    let asked = value(&client.call("get_elicitations", json!({})).await);
    let id = &asked["result"]["structuredContent"]["elicitations"][0]["requestId"];
    assert!(id.is_string(), "{asked}");
    let content = json!({ "username": ANSWER, "email": "a@example.test" });
    let said = client
        .call("respond_to_elicitation", json!({ "request_id": id, "action": "accept", "content": content }))
        .await;
    assert!(!said.text().contains("\"isError\":true"), "{}", said.text());
    let session = client.headers().into_iter().find(|(name, _)| name == "Mcp-Session-Id").expect("a session").1;
    scene.secret("the id of a session", session);
    let by_itself = Client::begin_at(scene.at, token, "/mcp/server/web").await;
    by_itself.call("echo", json!({ "message": "x" })).await;
    // Names are shown where rows are: this is a leak that was put there.
    client.call("execute_tool", json!({ "server": "it", "tool": PLANTED, "args": {} })).await;
    let mut all = modern_headers("tools/call", Some("list_servers"));
    all.push(("Authorization".into(), format!("Bearer {token}")));
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"name":"list_servers","arguments":{{}},"_meta":{}}}}}"#,
        modern_meta("")
    );
    assert_eq!(send(scene.at, "POST", "/mcp", &all, call.as_bytes()).await.head.status(), 200);
}

/// Every mistake that a client can make with a secret in its hand.
async fn mistakes(scene: &mut Scene, client: &str, token: &Tokens, code: &str) {
    let (bearer, twice) = (format!("Bearer {}", token.access), format!("Bearer {} x", token.access));
    let (spoilt, key) = (format!("Bearer {}x", token.access), format!("Bearer {}", scene.key));
    let cookie = format!("lb_tx_0123456789abcdef={}; lb_form={}", token.refresh, token.refresh);
    let kind = "application/x-www-form-urlencoded";
    let in_path = format!("/mcp?access_token={}", token.access);
    let form = format!(
        "grant_type=authorization_code&code={code}&client_id={client}&client_secret=x{OWN_SECRET}&code_verifier={VERIFIER}"
    );
    let refresh = format!("grant_type=refresh_token&refresh_token={}&client_id={client}", token.refresh);
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("ops:{OWN_SECRET}x"));
    let basic = format!("Basic {basic}");
    let state = url::form_urlencoded::byte_serialize(STATE.as_bytes()).collect::<String>();
    let unknown =
        format!("/authorize?client_id={client}&state={state}&redirect_uri=https://evil.example/{}", token.refresh);
    let callback = format!("/oauth/callback?state={}&code={code}", token.refresh);
    for (method, path, with, body) in [
        ("POST", "/mcp", vec![("Authorization", spoilt.as_str())], "{}"),
        ("POST", "/mcp", vec![("Authorization", &twice)], "{}"),
        ("POST", "/mcp", vec![("Authorization", &bearer)], "{"),
        ("POST", "/mcp", vec![("Authorization", &bearer)], r#"{"jsonrpc":"2.0","id":1,"method":"nothing"}"#),
        ("POST", "/mcp", vec![("Authorization", &bearer), ("Mcp-Session-Id", &token.refresh)], "{}"),
        ("POST", "/mcp", vec![("Authorization", &key), ("Cookie", &cookie)], "{"),
        ("POST", in_path.as_str(), vec![], "{}"),
        ("GET", "/mcp/server/nothing", vec![("Authorization", &bearer)], ""),
        ("GET", "/nothing/at/all", vec![("Authorization", &bearer), ("Cookie", &cookie)], ""),
        ("GET", "/sessions", vec![("Authorization", &bearer)], ""),
        ("POST", "/token", vec![("Content-Type", kind)], &form),
        ("POST", "/token", vec![("Content-Type", kind), ("Authorization", &basic)], &form),
        ("POST", "/token", vec![("Content-Type", kind)], &refresh),
        ("POST", "/token", vec![("Content-Type", "application/json")], &refresh),
        ("POST", "/revoke", vec![("Content-Type", kind)], &refresh),
        ("POST", "/consent", vec![("Content-Type", kind), ("Cookie", &cookie)], &refresh),
        ("GET", &unknown, vec![], ""),
        ("GET", &callback, vec![("Cookie", &cookie)], ""),
        ("POST", "/register", vec![("Content-Type", "application/json")], &refresh),
    ] {
        let status = scene.ask(method, path, &with, body).await;
        assert!((400..500).contains(&status), "{method} {path}: {status}");
    }
}

/// All that operators can see, and all that was written.
async fn look_around(scene: &mut Scene) {
    let operator = format!("Bearer {OPERATOR}");
    for page in
        ["/", "/health", "/sessions", "/metrics", "/waterfall", "/waterfall/json", "/oauth/stats", "/oauth/style.css"]
    {
        let answer = get(scene.at, page, &[("Authorization", &operator)]).await;
        assert_eq!(answer.head.status(), 200, "{page}: {}", answer.text());
        scene.seen(page, &answer.text());
    }
    scene.dump("at the end");
    let log = std::fs::read_to_string(scene.data.path().join("log")).expect("a log");
    assert!(log.contains("TRACE") && log.contains("/token"), "the deepest level is on");
    scene.seen("the log", &log);
    let said = scene.gateway.said();
    scene.seen("stderr", &said);
}

async fn no_secret_gets_out(store: Option<Valkey>) {
    let mut scene = Scene::start(store).await;
    let (client, secret) = confidential(&scene).await;
    let code = scene.login(&client).await;
    scene.provider_told();
    let got = exchange(&mut scene, (&client, &secret), &code).await;
    work(&mut scene, &got.access).await;
    let of_operator = scene.login("ops").await;
    let tokens = exchange(&mut scene, ("ops", OWN_SECRET), &of_operator).await;
    let key = scene.key.clone();
    Client::begin(scene.at, &key).await.call("list_servers", json!({})).await;
    mistakes(&mut scene, "ops", &tokens, &of_operator).await;
    look_around(&mut scene).await;
    for (what, secret) in [
        ("the state of a client", STATE),
        ("what a person answered", ANSWER),
        ("a variable of a server", ENV),
        ("a header of a server", HEADER),
        ("the key of the store", KEY),
        ("the secret of a client of the operator", OWN_SECRET),
        ("the secret of a client that registered", &secret),
        ("the verifier of a client", VERIFIER),
        ("our secret at the provider", CLIENT_SECRET),
        ("the operator's token", OPERATOR),
        ("a key of a program", &key),
    ] {
        scene.secret(what, secret);
    }
    let leaks = found(&scene.places, &scene.secrets);
    assert!(leaks.is_empty(), "{}", list(&leaks));
    // The searcher looks where it should: what was put there is found.
    let planted = found(&scene.places, &[("planted", PLANTED.to_owned())]);
    for place in ["the log", "/waterfall/json"] {
        assert!(planted.iter().any(|leak| leak.contains(&format!("in {place}"))), "{place}: {}", list(&planted));
    }
    planted_in_the_store(&mut scene);
}

/// Something that is written there in another form, without a seal, is found.
fn planted_in_the_store(scene: &mut Scene) {
    let hex: String = PLANTED.bytes().map(|byte| format!("{byte:02x}")).collect();
    match &scene.store {
        Some(store) => assert!(store.command(&["SET", "planted", &hex]).contains("OK")),
        None => std::fs::write(scene.data.path().join("data/planted"), &hex).expect("written"),
    }
    scene.places.clear();
    scene.dump("with a leak");
    let planted = found(&scene.places, &[("planted", PLANTED.to_owned())]);
    assert_eq!(planted.len(), 1, "{}", list(&planted));
    assert!(planted[0].starts_with("planted, hex, in the store"), "{}", list(&planted));
}

fn list(leaks: &[String]) -> String {
    leaks.iter().fold(String::new(), |mut all, leak| {
        write!(all, "\n  {leak}").expect("a string");
        all
    })
}

#[tokio::test]
async fn no_secret_gets_out_where_a_server_keeps_them() {
    no_secret_gets_out(Some(Valkey::start_with(Program::Valkey, &["--rdbcompression", "no"]))).await;
}

#[tokio::test]
async fn no_secret_gets_out_where_a_disk_keeps_them() {
    no_secret_gets_out(None).await;
}

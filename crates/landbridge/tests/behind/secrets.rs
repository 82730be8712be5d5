//! Secrets of logins at servers, of operators and of calls: none is in a log, a store, a page or an answer.

use std::fmt::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use lb_peers::harness::{Gateway, peer};
use lb_peers::idp::{Browser, Decision, Idp, Options, SERVICE_SECRET};
use lb_peers::raw::http::{modern_headers, modern_meta};
use lb_peers::valkey::{Program, Valkey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::process::Command;
use url::Url;

use crate::LANDBRIDGE;
use crate::guard::{Guard, Wants};
use crate::hunt::Hunt;
use crate::search::found;
use crate::service::provider;
use crate::tap::Heard;
use crate::world::{self, ALLOW, Client, OPERATOR, VERIFIER, free_port, get, parameter, redeem, register, send, value};

/// What is written at both ends of a text is written differently in every form.
const ARGUMENT: &str = "argument/\"of a+call\\ü&more";
const TEAM_SECRET: &str = "secret/of+ours=at-the-team-4711";
const STATIC: &str = "static/token+of=the-operator-4711";
const KEY: &str = "key/of+both+nodes=0123456789abcdef-4711";
const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway, the servers behind it, and all that was seen of it.
struct Scene {
    gateway: Gateway,
    url: String,
    hunt: Hunt,
    key: String,
    idp: Idp,
    notes: std::path::PathBuf,
    behind: Behind,
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

/// The servers: a gateway of ours that people log in at, and three behind doors.
struct Behind {
    team_url: String,
    heard: Heard,
    docs: Guard,
    files: Guard,
    keyed: Guard,
    _team: Gateway,
}

impl Behind {
    /// Starts them for a gateway that people come back to.
    async fn start(idp: &Idp, front: &str, team_url: &str, listener: TcpListener) -> Self {
        let hash: String = Sha256::digest(TEAM_SECRET).iter().map(|byte| format!("{byte:02x}")).collect();
        let client = format!(
            "[[auth.clients]]\nid = \"front\"\nname = \"Front\"\nredirect_uris = [\"{front}/oauth/backend/callback\"]\n\
             secret_sha256 = \"{hash}\"\n"
        );
        let (mut team, folder) = world::serve(&format!("{ALLOW}{client}"));
        world::with_provider(&mut team, team_url, idp);
        team.args(["--listen", "127.0.0.1:0"]);
        let tokens = || Guard::start(Wants::TokenOf(idp.issuer.clone()));
        let fixed = Guard::start(Wants::Header("x-api-key", STATIC.to_owned()));
        let (team, docs, files, keyed) = tokio::join!(Gateway::launch(team, folder), tokens(), tokens(), fixed);
        let heard = Heard::between(listener, team.address);
        Self { team_url: team_url.to_owned(), heard, docs, files, keyed, _team: team }
    }

    fn config(&self) -> Value {
        json!({ "mcpServers": {
            "it": { "command": peer(LANDBRIDGE, "fixture") },
            "team": { "url": format!("{}/mcp/server/it", self.team_url),
                      "auth": { "type": "user", "client_id": "front", "client_secret": "${TEAM_SECRET}" } },
            "docs": { "url": self.docs.url, "auth": "user" },
            "files": { "url": self.files.url,
                       "auth": { "type": "service", "client_id": "service", "client_secret": "${FILES_SECRET}" } },
            "keyed": { "url": self.keyed.url, "auth": { "type": "static", "header": "X-Api-Key", "value": "${STATIC}" } },
        } })
    }
}

impl Scene {
    async fn start(store: Option<Valkey>) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let url = format!("http://{address}");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let team_url = format!("http://{}", listener.local_addr().expect("its address"));
        let data = tempfile::tempdir().expect("a folder");
        let notes = data.path().join("notes");
        let redirects = [&url, &team_url].map(|url| format!("{url}/oauth/callback")).to_vec();
        // What is renewed is a secret as well.
        let (groups, access_life) = ("carol=admins".to_owned(), Some(Duration::from_secs(2)));
        let idp =
            provider(Options { redirects, groups, access_life, notes: Some(notes.clone()), ..Options::default() })
                .await;
        let behind = Behind::start(&idp, &url, &team_url, listener).await;
        let (mut command, folder) = world::serve(ALLOW);
        std::fs::write(folder.path().join("mcp.json"), behind.config().to_string()).expect("written");
        let keys = data.path().join("keys.txt");
        let made = Command::new(LANDBRIDGE).args(["auth", "key", "new", "ci", "--file"]).arg(&keys).output().await;
        let key = String::from_utf8_lossy(&made.expect("it runs").stdout).trim().to_owned();
        world::with_provider(&mut command, &url, &idp);
        command.args(["--auth", "keys"]).arg(&keys).args(["--listen", &address, "--log-level", "trace"]);
        command.arg("--log-file").arg(data.path().join("log")).arg("--audit-log").arg(data.path().join("audit"));
        command.env("LANDBRIDGE_KEY", KEY).env("TEAM_SECRET", TEAM_SECRET).env("FILES_SECRET", SERVICE_SECRET);
        command.env("STATIC", STATIC).stdin(Stdio::null());
        match &store {
            Some(store) => command.args(["--store", &store.url(), "--node-listen", "127.0.0.1:0"]),
            None => command.arg("--data").arg(data.path().join("data")),
        };
        let gateway = Gateway::launch(command, folder).await;
        let hunt = Hunt::new(gateway.address, store, data);
        Self { gateway, url, hunt, key, idp, notes, behind }
    }

    /// Somebody logs in at the gateway.
    async fn person(&self, user: &str) -> Client {
        let client = register(self.at).await;
        let stopped = world::login(&self.url, &client, "mcp:call", user, Decision::Approve).await;
        let code = parameter(&stopped.url, "code").unwrap_or_else(|| panic!("{stopped:?} {}", self.gateway.said()));
        Client::begin(self.at, &redeem(self.at, &client, &code).await.access).await
    }

    /// What the log and the pages of operators say now.
    async fn look_around(&mut self) {
        let operator = format!("Bearer {OPERATOR}");
        for page in
            ["/", "/health", "/sessions", "/metrics", "/waterfall", "/waterfall/json", "/oauth/stats", "/servers"]
        {
            let answer = get(self.at, page, &[("Authorization", &operator)]).await;
            assert_eq!(answer.head.status(), 200, "{page}: {}", answer.text());
            self.seen(page, &answer.text());
        }
        self.dump("at the end");
        for (place, file, part) in [("the log", "log", "TRACE"), ("the audit log", "audit", "\"call\"")] {
            let text = std::fs::read_to_string(self.data.path().join(file)).expect("a file");
            assert!(text.contains(part), "{place} is one: {text}");
            self.seen(place, &text);
        }
        let said = self.gateway.said();
        self.seen("stderr", &said);
    }
}

async fn echo(client: &Client, server: &str) -> String {
    let call = json!({ "server": server, "tool": "echo", "args": { "message": ARGUMENT } });
    client.call("execute_tool", call).await.text()
}

/// Whether what was called was heard: its answer says it again.
fn is_heard(text: &str) -> bool {
    text.contains("argument/")
}

/// Logs in at a server step by step, as a browser goes through it.
async fn logs_in(scene: &mut Scene, session: &Client, server: &'static str, there: &str) {
    let asked = echo(session, server).await;
    assert!(asked.contains("/oauth/backend/start?id="), "{server} wants a login: {asked}");
    let all = value(&session.call("list_servers", json!({})).await);
    let rows = all["result"]["structuredContent"]["servers"].as_array().expect("rows").clone();
    let row = rows.iter().find(|row| row["name"] == server).unwrap_or_else(|| panic!("{all}"));
    let link = row["loginUrl"].as_str().unwrap_or_else(|| panic!("{all}")).to_owned();
    scene.dump("while a link waits");
    let mut browser = Browser::default();
    let sent = browser.login(&link, there, "alice", Decision::Approve).await.expect("it goes on");
    assert!(sent.page.is_none(), "{sent:?} {}", scene.gateway.said());
    scene.dump("while a person logs in there");
    let callback = format!("{}/oauth/backend/callback", scene.url);
    let back = browser.login(sent.url.as_str(), &callback, "alice", Decision::Approve).await.expect("it goes on");
    assert!(back.page.is_none(), "{back:?} {}", scene.gateway.said());
    let known = browser.cookies().find(|(name, _)| name.starts_with("lb_person_"));
    let (name, person) =
        known.map(|(name, value)| (name.to_owned(), value.to_owned())).expect("it is known who that is");
    let id = Url::parse(&link).ok().and_then(|link| parameter(&link, "id")).expect("an id");
    let [state, code] = ["state", "code"].map(|name| parameter(&back.url, name).expect("it comes back with it"));
    // What others make of it, before it is used and afterwards.
    let query = back.url.query().expect("a query");
    let (own, other) = (format!("{name}={person}"), format!("{name}={person}x; lb_ui={person}"));
    let callback_path = format!("/oauth/backend/callback?{query}");
    for (path, cookie) in [
        (format!("/oauth/backend/callback?code={code}&state={state}x"), own.as_str()),
        (callback_path.clone(), &other),
        (format!("{callback_path}&{query}"), &own),
        (format!("/oauth/backend/start?id={id}x"), &own),
        (format!("/oauth/backend/start?id={state}&id={code}"), &own),
        (format!("/waterfall?id={id}"), &other),
        (format!("/mcp?state={state}&code={code}"), &own),
    ] {
        let status = scene.ask("GET", &path, &[("Cookie", cookie)], "").await;
        assert!((400..500).contains(&status), "{path}: {status}");
    }
    let page = browser.open(&back.url, None).await.expect("a page");
    assert_eq!(page.head.status(), 200, "{} {}", page.text(), scene.gateway.said());
    scene.seen("the page at the end of a login", &page.text());
    assert_eq!(scene.ask("GET", &callback_path, &[("Cookie", &own)], "").await, 400, "it is used once");
    for (what, secret) in [
        ("the id of a link", id),
        ("our state at a server", state),
        ("a code of a server", code),
        ("the cookie of a person", person),
    ] {
        scene.secret(what, secret);
    }
    let works = echo(session, server).await;
    assert!(is_heard(&works) && !works.contains("oauth/backend"), "{server}: {works} {}", scene.gateway.said());
}

/// Calls in every way there is, with something that is nobody's business.
async fn work(scene: &Scene, session: &Client) {
    let program = Client::begin(scene.at, &scene.key).await;
    for (client, server) in [(session, "it"), (session, "files"), (&program, "files"), (&program, "keyed")] {
        let works = echo(client, server).await;
        assert!(is_heard(&works), "{server}: {works} {}", scene.gateway.said());
    }
    let unknown = json!({ "server": "it", "tool": "nothing", "args": { ARGUMENT: ARGUMENT } });
    session.call("execute_tool", unknown).await;
    let wrong = json!({ "server": "it", "tool": 7, "args": ARGUMENT });
    session.call("execute_tool", wrong).await;
    for (tool, arguments) in [
        ("set_timer", json!({ "duration_ms": 3_600_000, "message": ARGUMENT })),
        (
            "execute_tool",
            json!({ "server": "it", "tool": "test_elicitation", "args": { "message": ARGUMENT }, "timeout_ms": 200 }),
        ),
        (
            "get_prompt",
            json!({ "server": "it", "prompt": "test_prompt_with_arguments", "arguments": { "arg1": ARGUMENT, "arg2": "x" } }),
        ),
    ] {
        let answer = session.call(tool, arguments).await;
        assert_eq!(answer.head.status(), 200, "{tool}: {}", answer.text());
    }
    let by_itself = Client::begin_at(scene.at, &session.token, "/mcp/server/it").await;
    assert!(is_heard(&by_itself.call("echo", json!({ "message": ARGUMENT })).await.text()));
    let mut all = modern_headers("tools/call", Some("echo"));
    all.push(("Authorization".into(), format!("Bearer {}", session.token)));
    let message = json!({ "message": ARGUMENT });
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"name":"echo","arguments":{message},"_meta":{}}}}}"#,
        modern_meta("")
    );
    let answer = send(scene.at, "POST", "/mcp/server/it", &all, call.as_bytes()).await;
    assert!(answer.head.status() == 200 && is_heard(&answer.text()), "{}", answer.text());
}

/// An operator looks at the pages in a browser, and sends its cookie where it is no use.
async fn operates(scene: &mut Scene) {
    let mut browser = Browser::default();
    let login = browser.login(&format!("{}/waterfall", scene.url), "nowhere:", "carol", Decision::Approve).await;
    let page = login.expect("it goes on");
    assert_eq!(page.page.as_ref().map(|(status, _)| *status), Some(200), "{page:?}");
    let cookie = browser.cookie(&scene.url, "lb_ui").expect("a cookie");
    for path in ["/waterfall", "/waterfall/json", "/sessions"] {
        let to = format!("{}{path}", scene.url).parse().expect("a URL");
        let page = browser.open(&to, None).await.expect("a page");
        assert_eq!(page.head.status(), 200, "{path}");
        scene.seen("a page of an operator", &page.text());
    }
    let (sent, bearer) = (format!("lb_ui={cookie}"), format!("Bearer {cookie}"));
    let form = format!("token={cookie}&client_id={cookie}");
    for (method, path, body) in
        [("GET", "/mcp", ""), ("POST", "/servers", "{}"), ("POST", "/oauth/revoke", &form), ("POST", "/mcp", &cookie)]
    {
        let status = scene.ask(method, path, &[("Cookie", &sent), ("Authorization", &bearer)], body).await;
        assert!((400..500).contains(&status), "{method} {path}: {status}");
    }
    scene.secret("the cookie of an operator", cookie);
}

/// What only the servers' providers and we know.
fn servers_told(scene: &mut Scene) {
    let all = |heard: &Heard, name: &str| {
        let found = heard.all(name);
        assert!(!found.is_empty(), "no {name} was heard");
        found
    };
    let named = [
        ("an access token of the team", "access_token"),
        ("a refresh token of the team", "refresh_token"),
        ("our verifier at the team", "code_verifier"),
    ];
    for (what, name) in named {
        for secret in all(&scene.behind.heard, name) {
            scene.secret(what, secret);
        }
    }
    let notes = std::fs::read_to_string(&scene.notes).expect("notes");
    let mut kinds = std::collections::BTreeMap::new();
    for note in notes.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")) {
        for (what, at) in [
            ("our verifier at a provider", "/asked/code_verifier"),
            ("a code of a provider", "/asked/code"),
            ("a refresh token that we renewed", "/asked/refresh_token"),
            ("our secret at a provider", "/asked/client_secret"),
            ("a secret that we registered with", "/answered/client_secret"),
            ("what our registration is changed with", "/answered/registration_access_token"),
            ("an access token of a provider", "/answered/access_token"),
            ("a refresh token of a provider", "/answered/refresh_token"),
        ] {
            if let Some(secret) = note.pointer(at).and_then(Value::as_str) {
                *kinds.entry(what).or_insert(0) += 1;
                scene.secret(what, secret);
            }
        }
    }
    for kind in
        ["a refresh token that we renewed", "what our registration is changed with", "our verifier at a provider"]
    {
        assert!(kinds.contains_key(kind), "{kind}: {kinds:?}");
    }
    let shown = [scene.behind.docs.shown(), scene.behind.files.shown()].concat();
    assert!(2 <= shown.len(), "{shown:?}");
    for token in shown {
        let token = token.strip_prefix("Bearer ").expect("a token").to_owned();
        // What is signed is no secret by itself, and in no log all the same.
        scene.secret("the signature of a token", token.rsplit('.').next().unwrap_or_default());
        scene.secret("a token that a server took", token);
    }
}

async fn no_secret_gets_out(store: Option<Valkey>) {
    let mut scene = Scene::start(store).await;
    let session = scene.person("alice").await;
    let (team, provider) = (format!("{}/authorize", scene.behind.team_url), format!("{}/auth", scene.idp.issuer));
    logs_in(&mut scene, &session, "team", &team).await;
    logs_in(&mut scene, &session, "docs", &provider).await;
    work(&scene, &session).await;
    operates(&mut scene).await;
    // Until what is over after two seconds has been renewed.
    let began = Instant::now();
    while scene.behind.docs.shown().len() < 2 {
        let works = echo(&session, "docs").await;
        assert!(is_heard(&works) && began.elapsed() < PATIENCE, "{works} {}", scene.gateway.said());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    servers_told(&mut scene);
    let key = scene.key.clone();
    for (what, secret) in [
        ("an argument of a call", ARGUMENT),
        ("our secret at the team", TEAM_SECRET),
        ("our secret at a provider", SERVICE_SECRET),
        ("a token that an operator has got", STATIC),
        ("a key of a program", &key),
        ("a token of ours", &session.token),
        ("the key of the store", KEY),
        ("the verifier of a client", VERIFIER),
    ] {
        scene.secret(what, secret);
    }
    scene.look_around().await;
    let leaks = found(&scene.places, &scene.secrets);
    assert!(leaks.is_empty(), "{}", list(&leaks));
    eprintln!("{} secrets in {} places", scene.secrets.len(), scene.places.len());
    planted(&mut scene, &session).await;
}

/// The searcher looks where it should: a token of a server that gets out is found, in a log, on a page and in the store.
async fn planted(scene: &mut Scene, session: &Client) {
    let is_refresh = |(what, _): &&(&str, String)| *what == "a refresh token of a provider";
    let secret = scene.secrets.iter().find(is_refresh).expect("one").clone();
    // Names are shown where rows are.
    session.call("execute_tool", json!({ "server": "it", "tool": secret.1, "args": {} })).await;
    let hex: String = secret.1.bytes().map(|byte| format!("{byte:02x}")).collect();
    match &scene.store {
        Some(store) => assert!(store.command(&["SET", "planted", &hex]).contains("OK")),
        None => std::fs::write(scene.data.path().join("data/planted"), &hex).expect("written"),
    }
    scene.places.clear();
    scene.look_around().await;
    let leaks = found(&scene.places, &[secret]);
    for place in ["plain, in the log", "plain, in the audit log", "plain, in /waterfall/json", "hex, in the store"] {
        assert!(leaks.iter().any(|leak| leak.contains(place)), "{place}: {}", list(&leaks));
    }
}

fn list(leaks: &[String]) -> String {
    leaks.iter().fold(String::new(), |mut all, leak| {
        write!(all, "\n  {leak}").expect("a string");
        all
    })
}

#[tokio::test]
async fn no_secret_of_a_servers_login_gets_out_where_a_server_keeps_them() {
    no_secret_gets_out(Some(Valkey::start_with(Program::Valkey, &["--rdbcompression", "no"]))).await;
}

#[tokio::test]
async fn no_secret_of_a_servers_login_gets_out_where_a_disk_keeps_them() {
    no_secret_gets_out(None).await;
}

//! Rules of a login that show only from outside.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lb_peers::harness::{Gateway, HttpPeer, peer};
use lb_peers::idp::{Browser, Decision, Idp, Options};
use lb_peers::raw::http::{headers, modern_headers, modern_meta};
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::leaks::tap;
use crate::site::site_named;
use crate::world::{
    ALLOW, Client, REDIRECT, Tokens, VERIFIER, World, authorize, form_to, free_port, get, parameter, provider, redeem,
    register, send, serve, value, with_provider,
};

/// A gateway and a provider that is set up otherwise than usual.
async fn world(toml: &str, args: &[&str], options: Options) -> World {
    let address = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{address}");
    let options = Options { redirects: vec![format!("{url}/oauth/callback")], ..options };
    let idp = tokio::task::spawn_blocking(move || Idp::start(&options)).await.expect("it starts");
    let (mut command, folder) = serve(toml);
    with_provider(&mut command, &url, &idp);
    command.args(["--listen", &address]).args(args);
    World::new(Gateway::launch(command, folder).await, url, idp)
}

/// What a token says.
fn claims(token: &str) -> Value {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).expect("a payload")).expect("base64url");
    serde_json::from_slice(&payload).expect("JSON")
}

/// Whether a token opens `/mcp`.
async fn opens(world: &World, token: &str) -> u16 {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let mut all = lb_peers::raw::http::post_headers();
    all.push(("Authorization".into(), format!("Bearer {token}")));
    send(world.at(), "POST", "/mcp", &all, body.as_bytes()).await.head.status()
}

/// A login for other resources than the usual one.
async fn tokens_for(world: &World, resources: &[&str], at_token: &[&str]) -> Tokens {
    let client = register(world.at()).await;
    let mut start = url::Url::parse(&authorize(&world.url, &client, "mcp:call")).expect("a URL");
    let kept: Vec<_> = start
        .query_pairs()
        .filter(|(name, _)| name != "resource")
        .map(|(a, b)| (a.into_owned(), b.into_owned()))
        .collect();
    start.query_pairs_mut().clear().extend_pairs(kept).extend_pairs(resources.iter().map(|one| ("resource", one)));
    let came =
        Browser::default().login(start.as_str(), REDIRECT, "alice", Decision::Approve).await.expect("it goes on");
    let code = parameter(&came.url, "code").unwrap_or_else(|| panic!("{:?} {:?}", came.page, came.trace));
    let mut form = vec![
        ("grant_type", "authorization_code"),
        ("client_id", client.as_str()),
        ("code", &code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
    ];
    form.extend(at_token.iter().map(|one| ("resource", *one)));
    let (status, told) = form_to(world.at(), "/token", &form).await;
    assert_eq!(status, 200, "{told}");
    crate::world::tokens(&client, &told)
}

#[tokio::test]
async fn tokens_of_the_provider_and_for_another_place_open_nothing() {
    let notes = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
    let world = world(ALLOW, &[], Options { notes: Some(notes.to_path_buf()), ..Options::default() }).await;
    let got = world.tokens("alice", "mcp:call").await;
    assert_eq!(opens(&world, &got.access).await / 100, 4, "a ping needs a session");
    assert_ne!(opens(&world, &got.access).await, 401);
    let told = std::fs::read_to_string(&notes).expect("notes");
    let told: Value = serde_json::from_str(told.lines().next().expect("a line")).expect("JSON");
    for token in ["access_token", "id_token"] {
        let token = told["answered"][token].as_str().expect("a token");
        assert_eq!(opens(&world, token).await, 401, "{token}");
    }
    assert_eq!(opens(&world, &got.refresh).await, 401, "a refresh token is no access token");
    let narrow = format!("{}/mcp/server/it", world.url);
    let narrow = tokens_for(&world, &[&narrow], &[]).await;
    assert_eq!(claims(&narrow.access)["aud"], format!("{}/mcp/server/it", world.url));
    assert_eq!(opens(&world, &narrow.access).await, 401, "it is for one server");
    Client::begin_at(world.at(), &narrow.access, "/mcp/server/it").await;
}

#[tokio::test]
async fn of_several_resources_one_is_what_a_token_is_for() {
    let world = World::start(ALLOW, &[]).await;
    let [all, one] = ["/mcp", "/mcp/server/it"].map(|path| format!("{}{path}", world.url));
    let got = tokens_for(&world, &[&one, &all], &[&all, &one]).await;
    assert_eq!(claims(&got.access)["aud"], all, "the first that was asked for");
    let got = tokens_for(&world, &[&one, &all], &[]).await;
    assert_eq!(claims(&got.access)["aud"], one, "the first that was agreed to");
}

#[tokio::test]
async fn another_client_of_the_same_person_is_somebody_else() {
    let world = World::start(ALLOW, &[]).await;
    let (one, other) = (world.tokens("alice", "mcp:call").await, world.tokens("alice", "mcp:call").await);
    assert_eq!(claims(&one.access)["sub"], claims(&other.access)["sub"]);
    let session = Client::begin(world.at(), &one.access).await;
    let foreign = session.as_sent(world.at(), &other.access);
    assert_eq!(foreign.call("list_servers", json!({})).await.head.status(), 404);
    for method in ["GET", "DELETE"] {
        let mut all = foreign.headers();
        all.push(("Last-Event-ID".into(), "1".into()));
        assert_eq!(send(world.at(), method, "/mcp", &all, b"").await.head.status(), 404, "{method}");
    }
    assert_eq!(session.call("list_servers", json!({})).await.head.status(), 200, "it is still there");
}

#[tokio::test]
async fn nothing_of_a_clients_request_but_its_message_reaches_a_server() {
    let fixture = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &[]).await;
    let (tapped, heard) = tap(fixture.address).await;
    let (mut command, folder) = serve(ALLOW);
    let address = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{address}");
    let idp = provider(&[&url]).await;
    let web = json!({ "mcpServers": { "web": { "url": format!("http://{tapped}/mcp") } } });
    std::fs::write(folder.path().join("mcp.json"), web.to_string()).expect("written");
    with_provider(&mut command, &url, &idp);
    command.args(["--listen", &address, "--trusted-proxies", "127.0.0.1"]);
    let world = World::new(Gateway::launch(command, folder).await, url, idp);
    let got = world.tokens("alice", "mcp:call").await;
    let own = [
        ("Cookie", "session=canary-cookie"),
        ("X-Forwarded-For", "198.51.100.77"),
        ("X-Forwarded-Host", "canary-host.example"),
        ("X-Forwarded-Proto", "canary-proto"),
        ("X-Real-IP", "198.51.100.78"),
        ("Proxy-Authorization", "Basic canary-proxy"),
        ("X-Api-Key", "canary-key"),
        ("Referer", "https://canary-referer.example/"),
        ("User-Agent", "canary-agent"),
        ("Last-Event-ID", "canary-event"),
    ];
    let session = Client::begin_at(world.at(), &got.access, "/mcp/server/web").await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "echo", "arguments": { "message": "legacy-heard" } } });
    let legacy = [session.headers(), headers(&own)].concat();
    let answer = send(world.at(), "POST", "/mcp/server/web", &legacy, call.to_string().as_bytes()).await;
    assert!(answer.text().contains("legacy-heard"), "{}", answer.text());
    let mut modern = modern_headers("tools/call", Some("echo"));
    modern.push(("Authorization".into(), format!("Bearer {}", got.access)));
    modern.extend(headers(&own));
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"modern-heard"}},"_meta":{}}}}}"#,
        modern_meta("")
    );
    let answer = send(world.at(), "POST", "/mcp/server/web", &modern, call.as_bytes()).await;
    assert!(answer.text().contains("modern-heard"), "{}", answer.text());
    let stream = [session.headers(), headers(&own[..9])].concat();
    let mut http = lb_peers::raw::RawHttp::connect(world.at()).await.expect("it listens");
    http.send("GET", "/mcp/server/web", &stream, b"").await.expect("sent");
    assert_eq!(http.head().await.expect("a head").status(), 200);
    let heard = String::from_utf8_lossy(&heard.lock().expect("no panic holds it")).to_ascii_lowercase();
    assert!(heard.contains("legacy-heard") && heard.contains("modern-heard"));
    let ours = session.headers().into_iter().find(|(name, _)| name == "Mcp-Session-Id").expect("a session").1;
    let token = got.access.to_ascii_lowercase();
    for part in [
        "canary",
        "198.51.100",
        "authorization:",
        "cookie:",
        "x-forwarded",
        "forwarded:",
        &ours.to_ascii_lowercase(),
        &token,
    ] {
        assert!(!heard.contains(part), "{part} was heard: {heard}");
    }
}

/// Addresses that look like one that was registered, or lead elsewhere.
#[expect(clippy::too_many_lines, reason = "a table")]
fn tricks() -> Vec<String> {
    let hosts = [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "evil.example@127.0.0.1",
        "127.0.0.1:4711@evil.example",
        "127.0.0.1%2eevil.example",
        "127.0.0.1%00.evil.example",
        "127.0.0.1#.evil.example",
        "127.0.0.1\\@evil.example",
        "127.0.0.1\\.evil.example",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "0.0.0.0",
        "127.0.0.2",
        "127.0.0.1.",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "１２７.0.0.1",
        "127。0。0。1",
        "127.0.0.1,evil.example",
        "127.0.0.1;evil.example",
        "127.0.0.1 evil.example",
        "127.0.0.1\tx",
        "127.0.0.1\r\nLocation: https://evil.example",
        "evil.example?127.0.0.1",
        "evil.example/127.0.0.1",
        "",
    ];
    let mut all: Vec<String> = hosts.iter().map(|host| format!("http://{host}/cb")).collect();
    all.extend(hosts.iter().take(10).map(|host| format!("https://{host}/cb")));
    let paths = [
        "",
        "/",
        "/cb/",
        "/cb/..",
        "/cb/../cb",
        "/./cb",
        "//cb",
        "/CB",
        "/%63b",
        "/cb%2f",
        "/cb%2e",
        "/cb%00",
        "/cb;x",
        "/cb?x=1",
        "/cb?",
        "/cb#",
        "/cb#f",
        "/cb?code=x",
        "/cb\\",
        "/cb%5c",
        "/cb/%2e%2e/x",
        "/..;/cb",
        "/cb%0d%0aX: y",
        "/cb\u{202e}",
        "/cb\u{200b}",
        "/cb x",
        "/cb+x",
        "/x/../cb",
        "/%2e/cb",
        "/cb.evil.example",
    ];
    all.extend(paths.iter().map(|path| format!("http://127.0.0.1:4711{path}")));
    for scheme in [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "blob:x",
        "about:blank",
        "urn:x",
    ] {
        all.push(scheme.into());
    }
    for odd in [
        "//127.0.0.1/cb",
        "///127.0.0.1/cb",
        "http:/127.0.0.1/cb",
        "http:127.0.0.1/cb",
        "http:///127.0.0.1/cb",
        "http:\\\\127.0.0.1\\cb",
        "HTTP://127.0.0.1/cb",
        "hTTp://127.0.0.1/cb",
        " http://127.0.0.1/cb",
        "http://127.0.0.1/cb ",
        "/cb",
        "cb",
        "",
        "https://127.0.0.1/cb",
        "ftp://127.0.0.1/cb",
        "ws://127.0.0.1/cb",
        "http://127.0.0.1:99999/cb",
        "http://127.0.0.1:-1/cb",
        "http://127.0.0.1:x/cb",
        "http://127.0.0.1:4711/cb,http://evil.example/",
        "http://127.0.0.1:4711/cb http://evil.example/",
        "null",
        "*",
    ] {
        all.push(odd.into());
    }
    all
}

#[tokio::test]
async fn nobody_is_sent_anywhere_by_a_hundred_tricks() {
    let world = World::start(ALLOW, &["--trusted-proxies", "127.0.0.1"]).await;
    let client = register(world.at()).await;
    let right = authorize(&world.url, &client, "mcp:read");
    let right = right.strip_prefix(&world.url).expect("ours");
    let redirect: String = url::form_urlencoded::byte_serialize(REDIRECT.as_bytes()).collect();
    let tricks = tricks();
    assert!(100 <= tricks.len(), "{}", tricks.len());
    for (number, trick) in tricks.iter().enumerate() {
        // Each from an address of its own: logins are limited by it.
        let from = format!("192.0.2.{}", number % 250);
        let written: String = url::form_urlencoded::byte_serialize(trick.as_bytes()).collect();
        let path = right.replace(&redirect, &written);
        let answer = get(world.at(), &path, &[("X-Forwarded-For", &from)]).await;
        assert_eq!((answer.head.status(), answer.head.header("location")), (400, None), "{trick:?}: {}", answer.text());
        assert!(answer.head.header("content-type").is_some_and(|kind| kind.starts_with("text/html")), "{trick:?}");
    }
    let twice = format!("{right}&redirect_uri=https%3A%2F%2Fevil.example%2F");
    let without = right.replace(&format!("redirect_uri={redirect}&"), "");
    for path in [twice, without] {
        let answer = get(world.at(), &path, &[]).await;
        assert_eq!((answer.head.status(), answer.head.header("location")), (400, None), "{path}");
    }
    assert_eq!(get(world.at(), right, &[]).await.head.status(), 303, "the right one is right");
}

#[tokio::test]
async fn a_document_with_the_name_of_another_is_shown_with_its_host_and_a_warning() {
    let site = site_named("<b>Cl\u{430}ude</b>\u{202e} Desktop").await;
    let world = World::start(ALLOW, &site.args()).await;
    let start = authorize(&world.url, &site.id, "mcp:read");
    let asked = get(world.at(), start.strip_prefix(&world.url).expect("ours"), &[]).await;
    let consent = asked.head.header("location").and_then(|to| to.strip_prefix(&world.url)).expect("ours").to_owned();
    let page = get(world.at(), &consent, &[]).await.text();
    let (_, form) = page.split_once("<h1>").expect("a title");
    let shown =
        form.split_once("<form").expect("a form").0.replace(site.id.trim_start_matches("https://"), "HOST/client.json");
    let shown = shown.replace(site.id.trim_start_matches("https://").trim_end_matches("/client.json"), "HOST");
    assert!(shown.starts_with("&lt;b&gt;Cl[U+0430]ude&lt;/b&gt; Desktop wants to use"), "{shown}");
    for part in [
        "<dt>Application</dt><dd><strong>",
        "https://HOST/client.json</dd>",
        "<dt>You are sent back to</dt><dd><strong>127.0.0.1",
        "class=\"warn\">You are sent back to a program on this computer.",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("unverified") && !page.contains("<script") && !page.contains("<b>"), "{shown}");
}

#[tokio::test]
async fn issuers_with_a_slash_and_keys_of_other_kinds_are_understood() {
    for (issuer_end, signing) in [("/", ""), ("", "ES256"), ("/", "PS256")] {
        let options = Options { issuer_end: issuer_end.into(), signing: signing.into(), ..Options::default() };
        let world = world(ALLOW, &[], options).await;
        let got = world.tokens("alice", "mcp:read").await;
        Client::begin(world.at(), &got.access).await;
    }
}

#[tokio::test]
async fn groups_may_have_another_name_and_schemes_of_applications_are_those_of_the_operator() {
    let options = Options { groups: "dora=ops".into(), groups_claim: "roles".into(), ..Options::default() };
    let toml = "[auth]\nredirect_schemes = [\"cursor\"]\nallow = { groups = [\"ops\"] }\n";
    let world = world(toml, &["--oidc-groups-claim", "roles"], options).await;
    let got = world.tokens("dora", "mcp:read").await;
    let client = Client::begin(world.at(), &got.access).await;
    assert_eq!(client.call("list_servers", json!({})).await.head.status(), 200);
    let refused = world.login(&got.client, "mcp:read", "alice", Decision::Approve).await;
    assert_eq!(parameter(&refused.url, "error").as_deref(), Some("access_denied"));
    let kind = headers(&[("Content-Type", "application/json")]);
    for (redirect, want) in [("cursor://app/callback", 201), ("vscode://app/callback", 400)] {
        let said = json!({ "redirect_uris": [redirect], "token_endpoint_auth_method": "none" }).to_string();
        let answer = send(world.at(), "POST", "/register", &kind, said.as_bytes()).await;
        assert_eq!(answer.head.status(), want, "{redirect}: {}", answer.text());
        if want == 201 {
            let id = value(&answer)["client_id"].as_str().expect("an id").to_owned();
            let start = authorize(&world.url, &id, "mcp:read");
            let start = start.replace("http%3A%2F%2F127.0.0.1%3A4711%2Fcb", "cursor%3A%2F%2Fapp%2Fcallback");
            let came = Browser::default().login(&start, "cursor://app/callback", "dora", Decision::Approve).await;
            let came = came.expect("it goes on");
            assert!(parameter(&came.url, "code").is_some(), "{:?} {:?}", came.page, came.trace);
        }
    }
}

#[tokio::test]
async fn a_client_of_the_operator_and_keys_work_beside_one_another_by_the_rules() {
    let toml = format!(
        "{ALLOW}[[auth.clients]]\nid = \"desk\"\nname = \"Desk\"\nredirect_uris = [\"{REDIRECT}\"]\n\
         [[auth.rules]]\nwho = {{ clients = [\"desk\"] }}\nservers = [\"*\"]\n"
    );
    let keys = tempfile::tempdir().expect("a folder");
    let file = keys.path().join("keys.txt").to_string_lossy().into_owned();
    let made =
        tokio::process::Command::new(LANDBRIDGE).args(["auth", "key", "new", "ci", "--file", &file]).output().await;
    let key = String::from_utf8_lossy(&made.expect("it runs").stdout).trim().to_owned();
    let world = World::start(&toml, &["--auth", "keys", &file]).await;
    let came = world.login("desk", "mcp:call", "alice", Decision::Approve).await;
    let code = parameter(&came.url, "code").unwrap_or_else(|| panic!("{:?} {:?}", came.page, came.trace));
    let desk = redeem(world.at(), "desk", &code).await;
    let other = world.tokens("alice", "mcp:call").await;
    let echo = json!({ "server": "it", "tool": "echo", "args": { "message": "heard" } });
    for (token, may) in [(&desk.access, true), (&other.access, false), (&key, false)] {
        let client = Client::begin(world.at(), token).await;
        let answer = client.call("execute_tool", echo.clone()).await;
        let heard = answer.head.status() == 200 && answer.text().contains("heard");
        assert_eq!(heard, may, "{} {}", answer.head.status(), answer.text());
    }
    let client = Client::begin(world.at(), &desk.access).await;
    for (tool, arguments) in [
        ("remove_server", json!({ "name": "it" })),
        ("add_server", json!({ "name": "x", "url": "https://x.example/mcp" })),
    ] {
        assert_eq!(client.call(tool, arguments).await.head.status(), 403, "{tool} is for administrators");
    }
}

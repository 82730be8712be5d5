//! Servers that operators add and remove over HTTP.

use lb_peers::harness::{Gateway, peer};
use lb_peers::raw::http::{Response, headers};
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::world::{ALLOW, Client, OPERATOR, World, send, serve, value};

/// What somebody with this token asks of `/servers`, or of a name below it.
async fn ask(at: std::net::SocketAddr, method: &str, path: &str, token: &str, body: &Value) -> Response {
    let with = headers(&[("Authorization", &format!("Bearer {token}")), ("Content-Type", "application/json")]);
    let body = if method == "POST" { body.to_string() } else { String::new() };
    send(at, method, path, &with, body.as_bytes()).await
}

fn names(answer: &Response) -> Vec<String> {
    let told = value(answer);
    let rows = told["servers"].as_array().unwrap_or_else(|| panic!("{}", answer.text()));
    rows.iter().map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn an_administrator_manages_servers_and_nobody_else_does() {
    let world = World::start(ALLOW, &["--log-level", "info"]).await;
    let at = world.at();
    let (alice, caller) = (world.tokens("alice", "mcp:call").await, world.tokens("carol", "mcp:call").await);
    let carol = world.tokens("carol", "mcp:admin").await;
    let added = json!({ "name": "far", "url": "https://8.8.8.8/mcp?key=s3cret", "headers": { "X-Key": "h1dden" } });
    for (method, path) in [("GET", "/servers"), ("POST", "/servers"), ("DELETE", "/servers/it")] {
        let refused = ask(at, method, path, &caller.access, &added).await;
        assert_eq!(refused.head.status(), 403, "{method}: {}", refused.text());
        let challenge = refused.head.header("www-authenticate").expect("a challenge");
        for part in ["error=\"insufficient_scope\"", "scope=\"mcp:admin\""] {
            assert!(challenge.contains(part), "{part} is not in {challenge}");
        }
        let refused = ask(at, method, path, &alice.access, &added).await;
        assert_eq!(refused.head.status(), 403, "{method}: {}", refused.text());
        assert!(refused.head.header("www-authenticate").is_none(), "no scope would help");
        assert_eq!(ask(at, method, path, "wrong", &added).await.head.status(), 401, "{method}");
        assert_eq!(
            send(at, method, path, &headers(&[("Content-Type", "application/json")]), b"{}").await.head.status(),
            401
        );
    }
    assert_eq!(names(&ask(at, "GET", "/servers", &carol.access, &added).await), ["it"]);
    let done = ask(at, "POST", "/servers", &carol.access, &added).await;
    assert_eq!(done.head.status(), 201, "{}", done.text());
    let all = ask(at, "GET", "/servers", OPERATOR, &added).await;
    assert_eq!(names(&all), ["it", "far"]);
    assert_eq!(value(&all)["servers"][1]["definedBy"], "operator");
    assert!(!all.text().contains("s3cret") && !all.text().contains("h1dden"), "{}", all.text());
    // Everybody is told of it: who asks for one that is not there sees what is.
    let with = headers(&[("Authorization", &format!("Bearer {}", alice.access))]);
    let known = send(at, "GET", "/mcp/server/none", &with, b"").await;
    assert!(known.head.status() == 404 && known.text().contains("\"far\""), "{}", known.text());
    assert_eq!(ask(at, "POST", "/servers", &carol.access, &added).await.head.status(), 200, "once more changes it");
    assert_eq!(ask(at, "DELETE", "/servers/far", &carol.access, &added).await.head.status(), 200);
    assert_eq!(ask(at, "DELETE", "/servers/far", &carol.access, &added).await.head.status(), 404);
    assert_eq!(names(&ask(at, "GET", "/servers", &carol.access, &added).await), ["it"]);
    let said = world.gateway.said();
    for part in ["add_server", "remove_server", "denied"] {
        let audited = said.lines().filter(|line| line.contains("who=") && line.contains(part)).count();
        assert!(0 < audited, "no audit of {part}: {said}");
    }
    assert!(!said.contains("s3cret") && !said.contains("h1dden"), "{said}");
}

/// T7: programs are not started for whoever comes over HTTP, not even for administrators.
#[tokio::test]
async fn nobody_starts_programs_from_afar_and_no_address_is_reached_that_is_not_public() {
    let world = World::start(ALLOW, &["--allow-stdio-spawn"]).await;
    let marker = tempfile::tempdir().expect("a folder");
    let made = marker.path().join("made");
    let script = format!("touch {}", made.display());
    for (body, status) in [
        (json!({ "name": "x", "command": "/bin/sh", "args": ["-c", script] }), 403),
        (json!({ "name": "x", "command": peer(LANDBRIDGE, "fixture") }), 403),
        (json!({ "name": "x", "url": "http://127.0.0.1:1/mcp" }), 403),
        (json!({ "name": "x", "url": "https://127.0.0.1:1/mcp" }), 403),
        (json!({ "name": "x", "url": "https://169.254.169.254/latest" }), 403),
        (json!({ "name": "x", "url": "http://8.8.8.8/mcp" }), 403),
        (json!({ "name": "x", "url": "https://8.8.8.8/${HOME}" }), 400),
        (json!({ "name": "it", "url": "https://8.8.8.8/mcp" }), 409),
        (json!({ "name": "a b", "url": "https://8.8.8.8/mcp" }), 400),
        (json!({ "url": "https://8.8.8.8/mcp" }), 400),
        (json!([]), 400),
    ] {
        let answer = ask(world.at(), "POST", "/servers", OPERATOR, &body).await;
        assert_eq!(answer.head.status(), status, "{body}: {}", answer.text());
    }
    assert!(!made.exists(), "a program was started");
    assert_eq!(names(&ask(world.at(), "GET", "/servers", OPERATOR, &Value::Null).await), ["it"]);
    // No web page gets anywhere, not even to ask whether it may.
    for method in ["OPTIONS", "PUT", "PATCH"] {
        let with = headers(&[("Origin", &world.url), ("Access-Control-Request-Method", "POST")]);
        let answer = send(world.at(), method, "/servers", &with, b"").await;
        assert_eq!(answer.head.status(), 405, "{method}");
        assert!(
            !answer.head.headers.iter().any(|(name, _)| name.to_lowercase().starts_with("access-control")),
            "{method}"
        );
    }
    let with = headers(&[("Authorization", &format!("Bearer {OPERATOR}")), ("Content-Type", "text/plain")]);
    assert_eq!(send(world.at(), "POST", "/servers", &with, b"{}").await.head.status(), 415);
    let large = json!({ "name": "x", "url": "https://8.8.8.8/", "headers": { "X": "y".repeat(70_000) } });
    assert_eq!(ask(world.at(), "POST", "/servers", OPERATOR, &large).await.head.status(), 413);
}

/// Without a login only the operator token counts: being on this machine is not enough to change something.
#[tokio::test]
async fn on_this_machine_a_server_is_added_with_the_operator_token_and_used() {
    let (mut behind, folder) = serve("");
    behind.args(["--listen", "127.0.0.1:0"]);
    let behind = Gateway::launch(behind, folder).await;
    let (mut command, folder) = serve("");
    command.args(["--listen", "127.0.0.1:0"]);
    let state = folder.path().to_owned();
    let mut gateway = Gateway::launch(command, folder).await;
    let added = json!({ "name": "near", "url": behind.url("it") });
    let kind = headers(&[("Content-Type", "application/json")]);
    let refused = send(gateway.address, "POST", "/servers", &kind, added.to_string().as_bytes()).await;
    assert_eq!(refused.head.status(), 403, "{}", refused.text());
    let done = ask(gateway.address, "POST", "/servers", OPERATOR, &added).await;
    assert_eq!(done.head.status(), 201, "{}", done.text());
    let program = json!({ "name": "program", "command": peer(LANDBRIDGE, "fixture") });
    assert_eq!(
        ask(gateway.address, "POST", "/servers", OPERATOR, &program).await.head.status(),
        403,
        "it was not allowed"
    );
    let client = Client::begin_at(gateway.address, "", "/mcp/server/near").await;
    let answer = client.call("echo", json!({ "message": "heard" })).await;
    assert!(answer.head.status() == 200 && answer.text().contains("heard"), "{}", answer.text());
    // It is there again after a restart.
    let (mut again, _unused) = serve("");
    again.args(["--listen", "127.0.0.1:0"]).env("XDG_STATE_HOME", &state);
    let pid = i32::try_from(gateway.pid()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
    gateway.child().wait().await.expect("it ends");
    let gateway_again = Gateway::launch(again, tempfile::tempdir().expect("a folder")).await;
    assert_eq!(names(&ask(gateway_again.address, "GET", "/servers", OPERATOR, &added).await), ["it", "near"]);
    assert_eq!(ask(gateway_again.address, "DELETE", "/servers/near", OPERATOR, &added).await.head.status(), 200);
    assert_eq!(names(&ask(gateway_again.address, "GET", "/servers", OPERATOR, &added).await), ["it"]);
}

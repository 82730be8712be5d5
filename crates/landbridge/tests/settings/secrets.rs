//! Secrets stay out of everything that is written, at every level.

use lb_peers::raw::http::{headers, post_headers};
use serde_json::json;

use crate::world::{Run, SERVER, World, arg, execute};

/// Canaries: one for each way in.
const CANARIES: [(&str, &str); 8] = [
    ("a header of a server", "canary-header-4f1b9c2e7d"),
    ("a query of a server", "canary-query-8a3d5e6f10"),
    ("a variable of a server", "canary-variable-77c0ffee11"),
    ("an argument of a server", "canary-argument-0badcafe22"),
    ("the operator's token", "canary-operator-5eed5eed33"),
    ("a header of a client", "canary-client-1234abcd44"),
    ("an argument of a call", "canary-password-9876fedc55"),
    ("what a server prints", "sk-canary-printed-0123456789abcdef66"),
];

#[tokio::test]
async fn no_canary_is_in_any_log_or_page() {
    let canary = |what: &str| CANARIES.iter().find(|(name, _)| *name == what).expect("a canary").1;
    let world = World::new();
    let web = format!("http://127.0.0.1:1/mcp?key={}", canary("a query of a server"));
    let config = world.servers(&json!({
        "it": { "command": "python3", "args": [SERVER, canary("an argument of a server")],
                "env": { "API_TOKEN": canary("a variable of a server") } },
        "web": { "url": web, "headers": { "Authorization": format!("Bearer {}", canary("a header of a server")) } },
    }));
    let log = world.path("log");
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--config",
        arg(&config),
        "--log-level",
        "trace",
        "--log-file",
        arg(&log),
        "--record-args",
    ];
    let mut run = Run::start(world.landbridge(&args).env("LANDBRIDGE_OPERATOR_TOKEN", canary("the operator's token")));
    let client = run.client().await;
    let secret = canary("an argument of a call");
    execute(&client, "it", "echo", json!({ "password": secret, "api_key": secret })).await;
    execute(&client, "it", "print", json!({ "to": "stderr", "line": canary("what a server prints") })).await;
    let line = format!("my token is {}", canary("a variable of a server"));
    execute(&client, "it", "print", json!({ "to": "stderr", "line": line })).await;
    execute(&client, "web", "echo", json!({})).await;
    let mut all = post_headers();
    let bearer = format!("Bearer {}", canary("a header of a client"));
    all.extend(headers(&[("Authorization", &bearer), ("Cookie", canary("a header of a client"))]));
    run.http().await.post("/mcp", &all, b"{}").await.expect("an answer");
    let mut shown = String::new();
    for page in ["/waterfall", "/waterfall/data", "/metrics", "/health", "/sessions"] {
        shown += &run.http().await.request("GET", page, &[], b"").await.expect("an answer").text();
    }
    shown += &run.stop().await;
    shown += &std::fs::read_to_string(&log).expect("the log");
    assert!(shown.contains("TRACE"), "the deepest level is on");
    for (what, canary) in CANARIES {
        assert!(
            !shown.contains(canary),
            "{what} is in: {}",
            shown.lines().find(|line| line.contains(canary)).unwrap_or("")
        );
    }
}

//! Canaries: what is secret is in nothing that is written or shown, at the deepest level of logs.

use lb_peers::harness::Gateway;
use lb_peers::raw::http::{headers, post_headers};
use lb_peers::tools::ToolClient;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::*;

/// Every way in, each with a canary of its own.
const WAYS: [&str; 20] = [
    "operator",
    "config-header",
    "config-bearer",
    "config-query",
    "config-variable",
    "config-argument",
    "config-user",
    "added-header",
    "added-query",
    "added-variable",
    "added-argument",
    "call-argument",
    "call-nested",
    "call-error",
    "answer-text",
    "answer-model",
    "client-bearer",
    "client-cookie",
    "client-query",
    "client-proxy",
];

fn canary(way: &str) -> String {
    assert!(WAYS.contains(&way), "{way}");
    format!("canary-{way}-5e3f9a71c2")
}

/// Has the server ask, and answers.
async fn answer(client: &ToolClient, method: &str, params: Value, list: &str, tool: &str, mut with: Value) {
    let reply = run(client, "ask", json!({ "method": method, "params": params })).await;
    assert!(!reply.is_error(), "{reply}");
    with["request_id"] = client.call(list, json!({})).await.json()[0]["requestId"].clone();
    let reply = client.call(tool, with).await;
    assert!(!reply.is_error(), "{tool}: {reply}");
}

/// What a client does with its secrets.
async fn use_all(gateway: &Gateway) {
    let client = ToolClient::http(gateway).await;
    let (argument, nested) = (canary("call-argument"), canary("call-nested"));
    run(&client, "echo", json!({ "note": argument, "deep": [{ "note": nested }] })).await;
    run(&client, "nothing", json!({ "note": canary("call-error") })).await;
    client
        .call("execute_tool", json!({ "server": "web", "tool": "x", "args": { "note": canary("call-error") } }))
        .await;
    let schema = json!({ "type": "object", "properties": { "who": { "type": "string" } } });
    let question = json!({ "message": "who?", "requestedSchema": schema });
    let content = json!({ "action": "accept", "content": { "who": canary("answer-text") } });
    answer(&client, "elicitation/create", question, "get_elicitations", "respond_to_elicitation", content).await;
    let prompt = json!({ "role": "user", "content": { "type": "text", "text": "say" } });
    let question = json!({ "messages": [prompt], "maxTokens": 9 });
    let said = json!({ "role": "assistant", "content": canary("answer-model"), "model": "m" });
    answer(&client, "sampling/createMessage", question, "get_sampling_requests", "respond_to_sampling", said).await;
    let url = format!("http://127.0.0.1:1/mcp?key={}", canary("added-query"));
    let given = json!({ "X-Api-Key": canary("added-header") });
    client.call("add_server", json!({ "name": "far", "url": url, "headers": given })).await;
    let (args, env) = (json!([SERVER, canary("added-argument")]), json!({ "PLACE": canary("added-variable") }));
    client.call("add_server", json!({ "name": "near", "command": "python3", "args": args, "env": env })).await;
    let mut all = post_headers();
    let bearer = format!("Bearer {}", canary("client-bearer"));
    let (cookie, proxy) = (format!("a={}", canary("client-cookie")), format!("Basic {}", canary("client-proxy")));
    all.extend(headers(&[("Authorization", &bearer), ("Cookie", &cookie), ("Proxy-Authorization", &proxy)]));
    let path = format!("/mcp?access_token={}", canary("client-query"));
    for body in [&b"{}"[..], br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, b"{"] {
        connect(gateway.address).await.post(&path, &all, body).await.expect("an answer");
    }
}

#[tokio::test]
async fn none_of_twenty_canaries_is_in_any_log_or_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let web = format!("http://127.0.0.1:1/mcp?key={}", canary("config-query"));
    let bearer = format!("Bearer {}", canary("config-bearer"));
    let servers = json!({ "mcpServers": {
        "it": { "command": "python3", "args": [SERVER, canary("config-argument")],
                "env": { "PLACE": canary("config-variable") } },
        "web": { "url": web,
                 "headers": { "Authorization": bearer, "X-Place": canary("config-header"), "X-User": canary("config-user") } },
    } });
    let file = folder.path().join("mcp.json");
    std::fs::write(&file, servers.to_string()).expect("written");
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--allow-stdio-spawn", "--log-level", "trace", "--config"]);
    command.arg(&file).arg("--log-file").arg(&log).env("LANDBRIDGE_OPERATOR_TOKEN", canary("operator"));
    let mut gateway = Gateway::launch(command, folder).await;
    use_all(&gateway).await;
    let mut shown = String::new();
    for page in ["/", "/waterfall", "/waterfall/json", "/waterfall/data", "/metrics", "/health", "/sessions"] {
        let bearer = format!("Bearer {}", canary("operator"));
        shown += &ask(gateway.address, "GET", page, &[("Authorization", &bearer)], "").await.text();
    }
    let pid = i32::try_from(gateway.pid()).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
    tokio::time::timeout(PATIENCE, gateway.child().wait()).await.expect("it ends").expect("it can be waited for");
    shown += &gateway.said();
    shown += &std::fs::read_to_string(&log).expect("the log");
    assert!(shown.contains("TRACE") && shown.contains("execute_tool"), "the deepest level is on");
    for way in WAYS {
        let lines: Vec<_> = shown.lines().filter(|line| line.contains(&canary(way))).take(3).collect();
        assert_eq!(lines, [""; 0], "{way}");
    }
}

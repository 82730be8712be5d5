//! Programs that are added over HTTP.

use serde_json::{Value, json};

use crate::keyed::{Keyed, server, tool};
use crate::world::{ALLOW, Client, World, get};

/// How many processes there are below one.
fn descendants(pid: u32) -> usize {
    let parent_of = |name: &str| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let all: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .expect("a list of processes")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some((name.parse().ok()?, parent_of(&name)?)))
        .collect();
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.len() - 1
}

fn adds(command: &str, args: &Value) -> Value {
    json!({ "name": "new", "command": command, "args": args })
}

#[tokio::test]
async fn an_administrator_must_ask_for_the_right_to_add_a_program() {
    let world = World::start(ALLOW, &[]).await;
    let got = world.tokens("carol", "mcp:read mcp:call").await;
    let client = Client::begin(world.at(), &got.access).await;
    let before = descendants(world.gateway.pid());
    let refused = client.call("add_server", adds("/bin/sh", &json!(["-c", "id"]))).await;
    assert_eq!(refused.head.status(), 403, "{}", refused.text());
    let challenge = refused.head.header("www-authenticate").unwrap_or_default();
    assert!(challenge.contains("insufficient_scope") && challenge.contains("mcp:admin"), "{challenge}");
    assert_eq!(descendants(world.gateway.pid()), before, "nothing was started");
}

#[tokio::test]
async fn administrators_add_no_programs_unless_the_operator_named_them() {
    let (gateway, keys) = Keyed::new(server(&[]), "", &["mcp:admin"]).await.start().await;
    let client = Client::begin(gateway.address, &keys[0]).await;
    tool(&client, "list_tools", json!({})).await;
    let before = descendants(gateway.pid());
    for args in [json!(["-c", "id"]), json!([])] {
        let refused = tool(&client, "add_server", adds("/bin/sh", &args)).await;
        let error = &refused["structuredContent"]["error"];
        assert!(refused["isError"] == true && error["code"] == "FORBIDDEN", "{refused}");
        assert!(error["message"].as_str().is_some_and(|why| why.contains("allow_commands")), "{refused}");
    }
    assert_eq!(descendants(gateway.pid()), before, "nothing was started");
}

#[tokio::test]
async fn a_program_that_the_operator_named_is_added_and_no_other() {
    let toml = format!("allow_commands = [\"/usr/bin/env python3 {} *\"]\n", crate::SERVER);
    let (gateway, keys) = Keyed::new(server(&[]), &toml, &["mcp:admin", "mcp:read mcp:call"]).await.start().await;
    let client = Client::begin(gateway.address, &keys[0]).await;
    tool(&client, "list_tools", json!({})).await;
    let before = descendants(gateway.pid());
    let good = json!(["python3", crate::SERVER, "any"]);
    let mut wrong = vec![
        adds("/bin/sh", &json!(["-c", "id"])),
        adds("/usr/bin/env", &json!(["sh", "-c", "id"])),
        adds("/usr/bin/env", &json!(["python3", "-c", "print(1)"])),
        adds("/usr/bin/env", &json!(["python3", crate::SERVER])),
        adds("/usr/bin/env", &json!(["python3", crate::SERVER, "--option"])),
        adds("env", &good),
    ];
    for (member, value) in [("env", json!({ "PYTHONSTARTUP": "/tmp/x" })), ("cwd", json!("/tmp"))] {
        let mut asked = adds("/usr/bin/env", &good);
        asked[member] = value;
        wrong.push(asked);
    }
    for asked in wrong {
        let refused = tool(&client, "add_server", asked.clone()).await;
        assert_eq!(refused["structuredContent"]["error"]["code"], "FORBIDDEN", "{asked}: {refused}");
    }
    assert_eq!(descendants(gateway.pid()), before, "nothing was started");
    let caller = Client::begin(gateway.address, &keys[1]).await;
    assert_eq!(caller.call("add_server", adds("/usr/bin/env", &good)).await.head.status(), 403);
    let added = tool(&client, "add_server", adds("/usr/bin/env", &good)).await;
    assert_ne!(added["isError"], true, "{added}");
    assert!(before < descendants(gateway.pid()));
    let called = tool(&client, "execute_tool", json!({ "server": "new", "tool": "plain" })).await;
    assert_eq!(called["content"][0]["text"], "plained", "{called}");
}

#[tokio::test]
async fn nobody_is_told_of_a_server_that_another_one_added() {
    let toml = format!("allow_commands = [\"/usr/bin/env python3 {} *\"]\n", crate::SERVER);
    let scopes = ["mcp:admin", "mcp:read mcp:call", "mcp:admin"];
    let (gateway, keys) = Keyed::new(server(&[]), &toml, &scopes).await.start().await;
    let hers = Client::begin(gateway.address, &keys[0]).await;
    let program = json!(["python3", crate::SERVER, "any"]);
    let added = tool(&hers, "add_server", adds("/usr/bin/env", &program)).await;
    assert_ne!(added["isError"], true, "{added}");
    let own = Client::begin_at(gateway.address, &keys[0], "/mcp/server/new").await;
    let answer = own.call("plain", json!({})).await;
    assert!(answer.text().contains("plained"), "it is hers: {}", answer.text());
    for key in &keys[1..] {
        let other = Client::begin(gateway.address, key).await;
        for (tool, arguments) in [
            ("list_servers", json!({})),
            ("list_tools", json!({})),
            ("get_logs", json!({})),
            ("execute_tool", json!({ "server": "nothing", "tool": "plain" })),
        ] {
            let told = other.call(tool, arguments).await.text();
            assert!(!told.contains("\"new\"") && !told.contains("\\\"new\\\""), "{tool}: {told}");
        }
        let bearer = format!("Bearer {key}");
        for path in ["/", "/mcp/server/nothing", "/mcp/nothing", "/health"] {
            let told = get(gateway.address, path, &[("Authorization", &bearer)]).await.text();
            assert!(!told.contains("\"new\""), "{path}: {told}");
        }
        // There is nothing of that name for them, and it is said as of any other name.
        let [known, unknown] = ["/mcp/server/new", "/mcp/server/now"].map(|path| path.to_owned());
        let [known, unknown] = [
            get(gateway.address, &known, &[("Authorization", &bearer)]).await,
            get(gateway.address, &unknown, &[("Authorization", &bearer)]).await,
        ];
        assert_eq!((known.head.status(), unknown.head.status()), (404, 404), "{}", known.text());
        assert_eq!(known.text().replace("new", "now"), unknown.text());
    }
}

//! Clients of 2026-07-28, in front of servers of both eras: they get from what is kept all that others get.

use std::time::Duration;

use lb_peers::harness::Gateway;
use lb_peers::raw::RawHttp;
use lb_peers::raw::http::modern_headers;
use serde_json::{Value, json};

use crate::client::{Client, modern};
use crate::gateway::{PATH, entry, serve, serve_file};
use crate::world::{World, descendants, throughout, until};

const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
const CHANGED: &str = "notifications/tools/list_changed";

/// The introduction and all lists.
async fn all(client: &mut Client) -> Vec<Value> {
    let mut all = vec![client.modern("server/discover", json!({})).await];
    for method in LISTS {
        all.push(client.modern(method, json!({})).await);
    }
    all
}

async fn names(client: &mut Client) -> Vec<String> {
    let list = client.modern("tools/list", json!({})).await;
    let rows = list["tools"].as_array().expect("rows").iter();
    rows.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
}

async fn echo(client: &mut Client, n: u64) {
    let params = json!({ "name": "echo", "arguments": { "n": n } });
    let result = client.modern("tools/call", params).await;
    assert_eq!(result["content"][0]["text"], format!(r#"{{"n": {n}}}"#), "{result}");
}

/// Starts the server once for a modern client, so that what it lists is kept.
async fn warm_up(world: &World, plan: &Value) -> Vec<Value> {
    let mut client = world.wrap(&[], plan.clone());
    let told = all(&mut client).await;
    until("it is kept", || !world.kept().is_empty()).await;
    client.close();
    client.end().await;
    told
}

#[tokio::test]
async fn a_second_start_introduces_and_lists_the_server_without_any_process() {
    for (plan, first_starts) in [(json!({ "modern": true }), 1), (json!({}), 2)] {
        let world = World::new();
        let want = warm_up(&world, &plan).await;
        let starts = world.starts();
        assert_eq!(starts, first_starts, "{plan}: in its own era at once, else after a try in the client's");
        for (method, told) in ["server/discover"].into_iter().chain(LISTS).zip(&want) {
            assert_eq!(told["resultType"], "complete", "{method}: {told}");
            assert!(told["ttlMs"].is_u64() && told["cacheScope"].is_string(), "{method}: {told}");
        }
        let mut client = world.wrap(&[], plan.clone());
        assert_eq!(all(&mut client).await, want, "{plan}");
        let pid = client.pid();
        throughout(Duration::from_secs(3), "nothing runs below it", || descendants(pid).is_empty()).await;
        assert_eq!(world.starts(), starts);
        echo(&mut client, 1).await;
        assert_eq!(world.starts(), starts + 1, "{plan}: the first request that needs it starts it, in the right era");
        // The server runs: what is kept was compared with what it says, and it is not asked for more.
        until("it was compared", || 2 * first_starts.min(1) <= world.noted("request tools/list").len()).await;
        let asked = world.noted("request ").len();
        assert_eq!(all(&mut client).await, want, "{plan}");
        echo(&mut client, 2).await;
        let now = world.noted("request ");
        let more: Vec<_> =
            now.iter().skip(asked).filter(|line| line.contains("list") || line.contains("discover")).collect();
        assert!(more.len() <= 4, "at most the rest of one comparison: {more:?}");
        let greetings = if plan["modern"] == true { world.starts() } else { 1 };
        assert_eq!(world.noted("request server/discover").len(), greetings, "{plan}: once at each start");
    }
}

#[tokio::test]
async fn a_modern_server_is_told_as_it_writes_itself() {
    let world = World::new();
    let plan = json!({ "modern": true, "tools": ["a", "b", "c"], "page": 2 });
    let mut direct = world.direct(plan.clone());
    let want = direct.modern("server/discover", json!({})).await;
    let resources = direct.modern("resources/list", json!({})).await;
    let mut client = world.wrap(&[], plan);
    assert_eq!(client.modern("server/discover", json!({})).await, want);
    assert_eq!(client.modern("resources/list", json!({})).await, resources);
    assert_eq!(names(&mut client).await, ["a", "b", "c"], "all pages");
    let page = client.modern("tools/list", json!({ "cursor": "2" })).await;
    assert_eq!(page["tools"].as_array().map(Vec::len), Some(1), "a cursor is the server's affair: {page}");
    let none = client.modern("prompts/list", json!({})).await;
    assert_eq!((&none["prompts"], &none["resultType"]), (&json!([]), &json!("complete")), "what it does not declare");
    assert!(world.noted("request prompts/list").is_empty());
}

#[tokio::test]
async fn a_list_after_a_call_that_changed_it_is_the_new_one() {
    for plan in [json!({ "modern": true }), json!({})] {
        let world = World::new();
        let mut client = world.wrap(&[], plan.clone());
        let before = names(&mut client).await;
        if plan["modern"] == true {
            until("the server is listened to", || !world.noted("request subscriptions/listen").is_empty()).await;
        }
        echo(&mut client, 0).await;
        client.modern("tools/call", json!({ "name": "add", "arguments": { "tool": "fresh", "times": 5 } })).await;
        let after = names(&mut client).await;
        assert_eq!(after.len(), before.len() + 1, "{plan}: {after:?}");
        let reads = world.noted("request tools/list").len();
        assert!(reads <= 3, "{plan}: five changes at once are looked at together: {reads} reads");
        until("it is kept", || {
            world.kept().iter().any(|file| std::fs::read_to_string(file).is_ok_and(|text| text.contains("fresh")))
        })
        .await;
    }
}

#[tokio::test]
async fn whoever_listens_is_told_of_real_changes_and_needs_no_process_for_it() {
    for plan in [json!({ "modern": true }), json!({})] {
        let world = World::new();
        warm_up(&world, &plan).await;
        let starts = world.starts();
        let mut client = world.wrap(&[], plan.clone());
        let wanted = json!({ "toolsListChanged": true, "promptsListChanged": true });
        let listen = client.ask_modern("subscriptions/listen", json!({ "notifications": wanted })).await;
        let said = client.find(|message| message["method"] == "notifications/subscriptions/acknowledged").await;
        assert_eq!(said["params"]["notifications"], json!({ "toolsListChanged": true }), "{plan}: what is declared");
        assert_eq!(said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);
        let pid = client.pid();
        throughout(Duration::from_secs(1), "nothing runs below it", || descendants(pid).is_empty()).await;
        assert_eq!(world.starts(), starts);
        echo(&mut client, 0).await;
        if plan["modern"] == true {
            until("the server is listened to", || 2 <= world.noted("request subscriptions/listen").len()).await;
            echo(&mut client, 1).await;
        }
        client.modern("tools/call", json!({ "name": "same" })).await;
        client.modern("tools/call", json!({ "name": "add", "arguments": { "tool": "fresh" } })).await;
        let changed = client.find(|message| message["method"] == CHANGED).await;
        assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen, "{plan}");
        let reads = world.noted("request tools/list").len();
        assert!(names(&mut client).await.contains(&"fresh".to_owned()), "{plan}");
        assert_eq!(world.noted("request tools/list").len(), reads, "it was read before it was told");
        echo(&mut client, 2).await;
        assert_eq!(client.heard(CHANGED), 0, "{plan}: once, and not for a change that is none");
        let params = json!({ "requestId": listen });
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
        client.modern("tools/call", json!({ "name": "add", "arguments": { "tool": "more" } })).await;
        assert!(names(&mut client).await.contains(&"more".to_owned()));
        assert_eq!(client.heard(CHANGED), 0, "{plan}: nobody listens any more");
    }
}

#[tokio::test]
async fn a_change_while_the_server_could_not_be_listened_to_is_seen_once_it_can_be_again() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({ "modern": true }));
    names(&mut client).await;
    until("the server is listened to", || !world.noted("request subscriptions/listen").is_empty()).await;
    until("it was compared", || !world.noted("request resources/list").is_empty()).await;
    echo(&mut client, 0).await;
    client.modern("tools/call", json!({ "name": "unlisten", "arguments": { "tool": "fresh" } })).await;
    until("it is listened to again", || 2 <= world.noted("request subscriptions/listen").len()).await;
    until_async("it is read anew", async || names(&mut client).await.contains(&"fresh".to_owned())).await;
}

#[tokio::test]
async fn what_is_old_is_told_at_once_and_asked_for_in_the_background() {
    let world = World::new();
    let plan = json!({ "modern": true, "announces": false, "ttl": 1500, "tools_file": world.file("tools") });
    std::fs::write(world.file("tools"), "one").expect("written");
    let mut client = world.wrap(&[], plan);
    assert_eq!(names(&mut client).await, ["one"]);
    until("it is kept", || !world.kept().is_empty()).await;
    std::fs::write(world.file("tools"), "one two").expect("written");
    let fresh = client.modern("tools/list", json!({})).await;
    assert_eq!((&fresh["ttlMs"], fresh["tools"].as_array().map(Vec::len)), (&json!(1500), Some(1)), "it counts");
    let mut stale = Value::Null;
    until_async("it is read anew", async || {
        let list = client.modern("tools/list", json!({})).await;
        let rows = list["tools"].as_array().map(Vec::len);
        if list["ttlMs"] == 0 && stale.is_null() {
            stale = list;
        }
        rows == Some(2)
    })
    .await;
    assert_eq!(stale["tools"].as_array().map(Vec::len), Some(1), "what was old was told, and not as if it were new");
}

/// Asks until it is so.
async fn until_async(what: &str, mut test: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !test().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), looking).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

#[tokio::test]
async fn an_idle_modern_server_rests_although_it_is_listened_to_and_a_hangup_wakes_it() {
    let world = World::new();
    let plan = json!({ "modern": true, "tools_file": world.file("tools") });
    std::fs::write(world.file("tools"), "echo").expect("written");
    let mut client = world.wrap(&["--idle-timeout", "0.5"], plan);
    echo(&mut client, 0).await;
    let pid = client.pid();
    until("the server is listened to", || !world.noted("request subscriptions/listen").is_empty()).await;
    until("nothing runs below it", || descendants(pid).is_empty()).await;
    assert_eq!(names(&mut client).await, ["echo"]);
    assert_eq!(world.starts(), 1, "lists need no process");
    std::fs::write(world.file("tools"), "echo two").expect("written");
    crate::world::signal(pid, rustix::process::Signal::HUP);
    until_async("it is read anew", async || names(&mut client).await.len() == 2).await;
    assert_eq!(world.starts(), 2);
}

#[tokio::test]
async fn clients_that_declare_other_things_are_asked_for_apart() {
    let world = World::new();
    let plan = json!({ "modern": true });
    warm_up(&world, &plan).await;
    let mut client = world.wrap(&[], plan);
    let mut params = modern(json!({}));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "sampling": {} });
    let answer = client.request("tools/list", params.clone()).await;
    assert!(answer["result"]["tools"].is_array(), "{answer}");
    assert_eq!(world.starts(), 2, "a server may list more for a client that can do more");
    client.modern("tools/list", json!({})).await;
    until("all of it is compared", || world.noted("request resources/list").len() == 3).await;
    let reads = world.noted("request tools/list").len();
    for _ in 0..3 {
        client.request("tools/list", params.clone()).await;
        client.modern("tools/list", json!({})).await;
    }
    assert_eq!(world.noted("request tools/list").len(), reads, "each of them is kept");
}

#[tokio::test]
async fn a_server_that_cannot_say_who_it_is_ends_it_with_1() {
    let world = World::new();
    let mut client = world.wrap(&["--init-timeout", "0.5"], json!({ "modern": true, "init_delay": 60 }));
    let answer = client.request_modern("server/discover", json!({})).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let (status, stderr) = client.end().await;
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("did not answer within 0.5 s"), "{stderr}");
}

/// A modern request to a gateway.
pub async fn post(gateway: &Gateway, method: &str, params: Value) -> Value {
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let name = params["name"].as_str().map(str::to_owned);
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": modern(params) }).to_string();
    let headers = modern_headers(method, name.as_deref());
    let response = http.post(PATH, &headers, request.as_bytes()).await.expect("an answer");
    let text = response.events().last().map_or_else(|| response.text(), |event| event.text());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn a_cached_server_of_a_gateway_is_introduced_and_listed_without_its_process() {
    for plan in [json!({ "modern": true }), json!({})] {
        let world = World::new();
        let command = world.command(plan.clone());
        let cached = json!({ "command": command[0], "args": command[1..], "cached": true });
        let mut want = Vec::new();
        for round in ["asked", "kept"] {
            let gateway = serve(&world, cached.clone()).await;
            let mut got = Vec::new();
            for method in ["server/discover"].into_iter().chain(LISTS) {
                got.push(post(&gateway, method, json!({})).await);
                assert!(got.iter().all(|answer| answer["result"].is_object()), "{round}: {got:?}");
            }
            if round == "asked" {
                until("it is kept", || !world.kept().is_empty()).await;
                want = got;
                continue;
            }
            assert_eq!(got, want, "{plan}");
            let pid = gateway.pid();
            throughout(Duration::from_secs(2), "nothing runs below it", || descendants(pid).is_empty()).await;
            let call = json!({ "name": "echo", "arguments": {} });
            let answer = post(&gateway, "tools/call", call).await;
            assert_eq!(answer["result"]["content"][0]["text"], "{}", "{answer}");
            assert!(!descendants(pid).is_empty());
        }
    }
}

#[tokio::test]
async fn a_cached_server_on_http_is_introduced_and_listed_while_it_is_down() {
    let world = World::new();
    let mut upstream = Gateway::serve(crate::LANDBRIDGE, json!({ "far": entry(&world, json!({})) })).await;
    let remote = json!({ "url": upstream.url("far"), "cached": true });
    let first = serve(&world, remote.clone()).await;
    let want = post(&first, "tools/list", json!({})).await;
    assert!(want["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{want}");
    until("it is kept", || !world.kept().is_empty()).await;
    drop(first);
    upstream.child().kill().await.expect("it is ours");
    let second = serve(&world, remote).await;
    assert_eq!(post(&second, "tools/list", json!({})).await, want);
    let hello = post(&second, "server/discover", json!({})).await;
    let info = &hello["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(info["name"], "scripted", "{hello}");
    let answer = post(&second, "tools/call", json!({ "name": "echo", "arguments": {} })).await;
    assert!(answer["error"]["message"].is_string(), "a call needs the server: {answer}");
}

#[tokio::test]
async fn a_listen_ends_when_its_server_is_redefined_so_that_the_client_listens_to_the_new_one() {
    let world = World::new();
    let cached = entry(&world, json!({ "cached": true }));
    let (gateway, file) = serve_file(&world, cached.clone()).await;
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let method = "subscriptions/listen";
    let params = modern(json!({ "notifications": { "toolsListChanged": true } }));
    let request = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
    http.send("POST", PATH, &modern_headers(method, None), request.as_bytes()).await.expect("sent");
    http.head().await.expect("an answer");
    let mut changed = cached;
    changed["timeout_ms"] = json!(299_000);
    let listening = async {
        while let Some(event) = http.event().await.expect("it can be read") {
            let Ok(said) = serde_json::from_str::<Value>(&event.text()) else { continue };
            if said["method"] == "notifications/subscriptions/acknowledged" {
                std::fs::write(&file, json!({ "mcpServers": { "it": changed } }).to_string()).expect("written");
                crate::world::signal(gateway.pid(), rustix::process::Signal::HUP);
            } else if said["id"] == 7 {
                return said;
            }
        }
        panic!("it ends without an answer");
    };
    let said = tokio::time::timeout(Duration::from_secs(30), listening).await.expect("it ends");
    assert_eq!(said["result"]["resultType"], "complete", "{said}");
    assert_eq!(said["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7, "{said}");
}

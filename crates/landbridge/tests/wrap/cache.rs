//! What is told without the server.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::world::{World, descendants, throughout, until};

const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

#[tokio::test]
async fn a_second_start_introduces_and_lists_the_server_without_any_process() {
    let world = World::new();
    world.warm_up(json!({})).await;
    let mut direct = world.direct(json!({}));
    let want = (direct.hello().await, direct.result("tools/list", json!({})).await);
    let starts = world.starts();
    let mut client = world.wrap(&[], json!({}));
    let got = (client.hello().await, client.result("tools/list", json!({})).await);
    assert_eq!(got, want, "whole objects, as the server writes them");
    let pid = client.pid();
    throughout(Duration::from_secs(5), "nothing runs below it", || descendants(pid).is_empty()).await;
    assert_eq!(world.starts(), starts);
    assert_eq!(client.tool("echo", json!({ "a": 1 })).await, r#"{"a": 1}"#);
    assert_eq!(world.starts(), starts + 1, "the first request that needs it starts it");
    assert!(!descendants(pid).is_empty());
}

#[tokio::test]
async fn kept_lists_take_well_under_a_millisecond() {
    let world = World::new();
    world.warm_up(json!({})).await;
    let (starts, asked) = (world.starts(), world.noted("request ").len());
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    let pid = client.pid();
    let mut rounds = Vec::new();
    for _ in 0..5 {
        let mut times = Vec::new();
        for n in 0..200 {
            let start = Instant::now();
            client.result(LISTS[n % 4], json!({})).await;
            times.push(start.elapsed());
        }
        times.sort();
        rounds.push(times[198]);
    }
    assert_eq!((world.starts(), world.noted("request ").len()), (starts, asked), "the server was not asked");
    assert!(descendants(pid).is_empty(), "nor was anything started");
    // Ten times what is promised. A machine that is busy with other tests holds up some rounds; a slow answer, all.
    assert!(rounds.iter().min() < Some(&Duration::from_millis(10)), "p99 of each round: {rounds:?}");
}

#[tokio::test]
async fn a_list_of_several_pages_is_kept_whole() {
    // Regression: an earlier wrapper kept the first page only.
    let world = World::new();
    let plan = json!({ "tools": ["a", "b", "c", "d", "e"], "page": 2 });
    let mut client = world.wrap(&[], plan.clone());
    client.hello().await;
    let names = |list: &serde_json::Value| {
        let rows = list["tools"].as_array().expect("rows").iter();
        rows.map(|row| row["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    for round in ["asked for", "kept"] {
        let list = client.result("tools/list", json!({})).await;
        assert_eq!(names(&list), ["a", "b", "c", "d", "e"], "{round}");
        assert!(list.get("nextCursor").is_none(), "{list}");
        assert_eq!(list["_meta"], json!({ "from": "server" }), "other members stay");
        assert_eq!(list["tools"][0]["_meta"], json!({ "n": 1.0 }));
    }
    let page = client.result("tools/list", json!({ "cursor": "2" })).await;
    assert_eq!(names(&page), ["c", "d"], "a cursor is the server's affair");
}

#[tokio::test]
async fn each_of_the_four_lists_is_kept_with_all_its_pages() {
    let world = World::new();
    let plan = json!({
        "tools": ["a://0", "a://1", "a://2", "a://3", "a://4"], "rows": 5, "page": 2,
        "capabilities": { "tools": {}, "prompts": {}, "resources": {} },
    });
    world.warm_up(plan.clone()).await;
    let mut client = world.wrap(&[], plan);
    client.hello().await;
    for (method, member) in LISTS.into_iter().zip(["tools", "prompts", "resources", "resourceTemplates"]) {
        let list = client.result(method, json!({})).await;
        let names: Vec<_> = list[member].as_array().expect("rows").iter().map(|row| row["name"].clone()).collect();
        assert_eq!(names, ["a://0", "a://1", "a://2", "a://3", "a://4"], "{method}");
        assert!(list.get("nextCursor").is_none(), "{list}");
        let reads = world.noted(&format!("request {method}")).len();
        assert!(3 <= reads && reads.is_multiple_of(3), "{method} has three pages: {reads}");
    }
    assert_eq!(world.starts(), 1, "the second start asks for nothing");
}

#[tokio::test]
async fn only_what_the_server_declares_is_asked_for_and_the_rest_is_empty() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({ "capabilities": { "tools": {} } }));
    client.hello().await;
    assert_eq!(client.result("prompts/list", json!({})).await, json!({ "prompts": [] }));
    assert_eq!(client.result("resources/list", json!({})).await, json!({ "resources": [] }));
    let templates = client.result("resources/templates/list", json!({})).await;
    assert_eq!(templates, json!({ "resourceTemplates": [] }));
    client.result("tools/list", json!({})).await;
    assert_eq!(world.noted("request ").iter().filter(|line| line.contains("/list")).count(), 1);
}

#[tokio::test]
async fn a_list_that_does_not_come_is_empty_and_kept_by_nobody() {
    let world = World::new();
    let mut client = world.wrap(&["--list-timeout", "0.3"], json!({ "hang": ["resources/list"] }));
    client.hello().await;
    let tools = client.result("tools/list", json!({})).await;
    assert!(!tools["tools"].as_array().expect("rows").is_empty());
    assert_eq!(client.result("resources/list", json!({})).await, json!({ "resources": [] }));
    client.close();
    let (status, stderr) = client.end().await;
    assert!(status.success());
    assert!(stderr.contains("resources/list: no answer within 0.3 s"), "{stderr}");
    assert!(world.kept().is_empty(), "the next start asks again");
}

#[tokio::test]
async fn a_list_that_could_not_be_read_is_asked_for_again_by_the_next_who_wants_it() {
    let world = World::new();
    let plan = json!({ "broken": ["resources/list"], "repaired": world.file("repaired") });
    let mut client = world.wrap(&[], plan);
    client.hello().await;
    client.result("tools/list", json!({})).await;
    assert_eq!(client.result("resources/list", json!({})).await, json!({ "resources": [] }));
    assert!(world.kept().is_empty(), "half of it is not kept");
    std::fs::write(world.file("repaired"), "").expect("written");
    let list = client.result("resources/list", json!({})).await;
    assert_eq!(list["resources"][0]["uri"], "a://b", "{list}");
    until("it is kept", || !world.kept().is_empty()).await;
}

#[tokio::test]
async fn what_could_not_be_compared_stays_old_and_is_asked_for_again() {
    let world = World::new();
    let (tools, repaired) = (world.file("tools"), world.file("repaired"));
    let plan = json!({ "tools_file": tools, "broken": ["tools/list"], "repaired": repaired });
    std::fs::write(&repaired, "").expect("written");
    std::fs::write(&tools, "echo").expect("written");
    world.warm_up(plan.clone()).await;
    std::fs::remove_file(&repaired).expect("removed");
    std::fs::write(&tools, "echo two").expect("written");
    let [file] = world.kept().try_into().expect("one file");
    let checked = || {
        let text = std::fs::read_to_string(&file).expect("text");
        let kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        kept["kept"][0]["checked"].as_u64().expect("seconds")
    };
    let (now, text) = (checked(), std::fs::read_to_string(&file).expect("text"));
    let old = now - 3600;
    std::fs::write(&file, text.replace(&format!("\"checked\":{now}"), &format!("\"checked\":{old}"))).expect("written");
    let mut client = world.wrap(&[], plan);
    client.hello().await;
    let reads = world.noted("request tools/list").len();
    client.tool("echo", json!({})).await;
    let start = Instant::now();
    // Once by the comparison, and as that fails, once more by whoever wants the list.
    while world.noted("request tools/list").len() < reads + 2 {
        assert!(start.elapsed() < Duration::from_secs(30), "it is not asked again");
        let list = client.result("tools/list", json!({})).await;
        assert_eq!(list["tools"].as_array().expect("rows").len(), 1, "what was kept is told: {list}");
    }
    assert_eq!(checked(), old, "and is as old as before");
    std::fs::write(&repaired, "").expect("written");
    let list = client.result("tools/list", json!({})).await;
    assert_eq!(list["tools"].as_array().expect("rows").len(), 2, "{list}");
}

#[tokio::test]
async fn what_is_kept_is_for_this_user_alone_and_holds_no_secret() {
    let world = World::new();
    world.warm_up(json!({ "secret": "hunter2-in-an-argument" })).await;
    let [file] = world.kept().try_into().expect("one file");
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(file.parent().expect("a folder")), 0o700);
    let text = std::fs::read_to_string(&file).expect("text");
    assert!(!text.contains("hunter2") && !file.to_string_lossy().contains("hunter2"), "{text}");
}

#[tokio::test]
async fn a_broken_file_is_as_good_as_none() {
    let world = World::new();
    world.warm_up(json!({})).await;
    let [file] = world.kept().try_into().expect("one file");
    let good = std::fs::read_to_string(&file).expect("text");
    let other_format = good.replacen("\"format\":1", "\"format\":0", 1);
    assert_ne!(other_format, good);
    let half: String = good.chars().take(good.len() / 2).collect();
    for (n, bad) in ["", "{", "[]", &half, &other_format].into_iter().enumerate() {
        std::fs::write(&file, bad).expect("written");
        let before = world.starts();
        let mut client = world.wrap(&[], json!({}));
        assert_eq!(client.hello().await["serverInfo"]["name"], "scripted", "{n}");
        assert_eq!(world.starts(), before + 1, "{n}");
    }
}

#[tokio::test]
async fn a_server_with_other_arguments_or_another_client_is_asked_anew() {
    let world = World::new();
    world.warm_up(json!({})).await;
    let mut other = world.wrap(&[], json!({ "tools": ["other"] }));
    other.hello().await;
    assert_eq!(other.result("tools/list", json!({})).await["tools"][0]["name"], "other");
    assert_eq!(world.starts(), 2);
    // A server may list more for a client that can do more.
    let mut client = world.wrap(&[], json!({}));
    client.hello_with(json!({ "sampling": {} }), "2025-06-18").await;
    assert_eq!(world.starts(), 3);
    let mut older = world.wrap(&[], json!({}));
    let result = older.hello_with(json!({ "elicitation": {}, "roots": { "listChanged": true } }), "2024-11-05").await;
    assert_eq!(result["protocolVersion"], "2024-11-05", "each client has its own revision");
    assert_eq!(world.starts(), 3, "and a good guess is told at once");
}

#[tokio::test]
async fn refresh_forgets_what_was_kept_and_no_cache_leaves_it_alone() {
    let world = World::new();
    world.warm_up(json!({})).await;
    let mut client = world.wrap(&["--refresh"], json!({}));
    client.hello().await;
    assert_eq!(world.starts(), 2, "--refresh asks the server");
    client.close();
    client.end().await;
    let [file] = world.kept().try_into().expect("one file");
    std::fs::remove_file(&file).expect("removed");
    let mut client = world.wrap(&["--no-cache"], json!({}));
    client.hello().await;
    client.result("tools/list", json!({})).await;
    client.result("resources/list", json!({})).await;
    client.close();
    client.end().await;
    assert_eq!(world.starts(), 3);
    assert!(world.kept().is_empty(), "--no-cache writes nothing");
}

/// Makes what is kept look as if it had been checked so long ago.
fn age(file: &std::path::Path, seconds: u64) {
    let text = std::fs::read_to_string(file).expect("text");
    let kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let checked = kept["kept"][0]["checked"].as_u64().expect("seconds");
    let old = text.replace(&format!("\"checked\":{checked}"), &format!("\"checked\":{}", checked - seconds));
    std::fs::write(file, old).expect("written");
}

/// Something that is so old is told at once, and asked for again.
async fn is_asked_for_again(options: &[&str], seconds: u64) {
    let world = World::new();
    let plan = json!({ "tools_file": world.file("tools") });
    std::fs::write(world.file("tools"), "one").expect("written");
    world.warm_up(plan.clone()).await;
    std::fs::write(world.file("tools"), "one two").expect("written");
    let [file] = world.kept().try_into().expect("one file");
    age(&file, seconds);
    let mut client = world.wrap(options, plan);
    client.hello().await;
    client.find(|message| message["method"] == "notifications/tools/list_changed").await;
    let list = client.result("tools/list", json!({})).await;
    assert_eq!(list["tools"].as_array().expect("rows").len(), 2, "{list}");
    assert_eq!(world.starts(), 2);
    until("it is kept", || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("two"))).await;
}

#[tokio::test]
async fn what_is_old_is_told_at_once_and_asked_for_in_the_background() {
    is_asked_for_again(&[], 2 * 86_400).await;
}

#[tokio::test]
async fn how_old_is_too_old_can_be_said() {
    is_asked_for_again(&["--max-age", "600"], 11 * 60).await;
    // The same age is nothing where more is allowed, and nobody is asked.
    let world = World::new();
    world.warm_up(json!({})).await;
    let [file] = world.kept().try_into().expect("one file");
    age(&file, 11 * 60);
    let mut client = world.wrap(&["--max-age", "3600"], json!({}));
    client.hello().await;
    client.result("tools/list", json!({})).await;
    throughout(Duration::from_secs(1), "nothing is started", || world.starts() == 1).await;
}

//! How what is kept stays right.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::Client;
use crate::world::{World, descendants, signal, until};

const CHANGED: &str = "notifications/tools/list_changed";

async fn names(client: &mut Client) -> Vec<String> {
    let list = client.result("tools/list", json!({})).await;
    let rows = list["tools"].as_array().expect("rows").iter();
    rows.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
}

fn is_changed(message: &Value) -> bool {
    message["method"] == CHANGED
}

#[tokio::test]
async fn a_list_after_the_word_that_it_changed_is_the_new_one() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    let before = names(&mut client).await;
    client.tool("add", json!({ "tool": "fresh", "times": 5 })).await;
    // Even before the word: the server said so before it answered.
    let after = names(&mut client).await;
    assert_eq!(after.len(), before.len() + 1, "{after:?}");
    client.find(is_changed).await;
    assert_eq!(names(&mut client).await, after);
    let reads = world.noted("request tools/list").len();
    assert!(reads <= 3, "five changes at once are looked at together: {reads} reads");
    until("it is kept", || {
        world.kept().iter().any(|file| std::fs::read_to_string(file).is_ok_and(|text| text.contains("fresh")))
    })
    .await;
}

#[tokio::test]
async fn a_change_of_resources_is_one_of_their_templates_too() {
    let world = World::new();
    let capabilities = json!({ "tools": {}, "resources": { "listChanged": true } });
    let mut client = world.wrap(&[], json!({ "rows": 1, "capabilities": capabilities }));
    client.hello().await;
    for (want, wait) in [(1, false), (2, true), (3, false)] {
        if want != 1 {
            client.tool("grow", json!({})).await;
        }
        if wait {
            client.find(|message| message["method"] == "notifications/resources/list_changed").await;
        }
        for (method, member) in [("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")] {
            let list = client.result(method, json!({})).await;
            assert_eq!(list[member].as_array().map(Vec::len), Some(want), "{method}: {list}");
        }
    }
}

#[tokio::test]
async fn a_change_that_is_none_is_not_told() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    names(&mut client).await;
    until("lists are read", || !world.kept().is_empty()).await;
    let reads = world.noted("request tools/list").len();
    client.tool("same", json!({})).await;
    until("the server is asked", || reads < world.noted("request tools/list").len()).await;
    client.tool("add", json!({ "tool": "fresh" })).await;
    client.find(is_changed).await;
    // Everything that could have been told before has come before.
    client.tool("echo", json!({})).await;
    assert_eq!(client.heard(CHANGED), 0, "only the second one was a change");
}

#[tokio::test]
async fn a_hangup_reads_the_lists_anew_whether_the_server_runs_or_not() {
    let world = World::new();
    let plan = json!({ "tools_file": world.file("tools") });
    std::fs::write(world.file("tools"), "one").expect("written");
    world.warm_up(plan.clone()).await;
    let mut client = world.wrap(&[], plan);
    client.hello().await;
    for (n, tools) in ["one two", "one two three"].into_iter().enumerate() {
        std::fs::write(world.file("tools"), tools).expect("written");
        assert_eq!(names(&mut client).await.len(), n + 1, "still what is kept");
        signal(client.pid(), Signal::HUP);
        client.find(is_changed).await;
        assert_eq!(names(&mut client).await.len(), n + 2);
        assert_eq!(world.starts(), 2);
    }
}

#[tokio::test]
async fn every_start_compares_what_was_told_with_what_is() {
    let world = World::new();
    let plan = json!({ "tools_file": world.file("tools") });
    std::fs::write(world.file("tools"), "echo").expect("written");
    world.warm_up(plan.clone()).await;
    std::fs::write(world.file("tools"), "echo two").expect("written");
    let mut client = world.wrap(&[], plan);
    client.hello().await;
    assert_eq!(names(&mut client).await, ["echo"], "what is kept is told at once");
    client.tool("echo", json!({})).await;
    client.find(is_changed).await;
    assert_eq!(names(&mut client).await, ["echo", "two"]);
    // And once more after a restart.
    std::fs::write(world.file("tools"), "echo three").expect("written");
    let pid = client.pid();
    signal(world.server(), Signal::KILL);
    until("all of it is gone", || descendants(pid).is_empty()).await;
    client.tool("echo", json!({})).await;
    client.find(is_changed).await;
    assert_eq!(names(&mut client).await, ["echo", "three"]);
    tokio::time::timeout(Duration::from_millis(500), client.find(is_changed)).await.expect_err("told once");
}

#[tokio::test]
async fn a_server_that_can_do_other_things_now_is_introduced_with_them_next_time() {
    let world = World::new();
    world.warm_up(json!({})).await;
    let [file] = world.kept().try_into().expect("one file");
    let text = std::fs::read_to_string(&file).expect("text");
    std::fs::write(&file, text.replace("\"logging\": {}", "\"completions\": {}")).expect("written");
    let mut client = world.wrap(&[], json!({}));
    assert!(client.hello().await["capabilities"].get("completions").is_some());
    client.tool("echo", json!({})).await;
    until("it is kept", || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("logging"))).await;
    let mut client = world.wrap(&[], json!({}));
    let result = client.hello().await;
    assert!(result["capabilities"].get("logging").is_some(), "{result}");
    assert!(result["capabilities"].get("completions").is_none(), "{result}");
}

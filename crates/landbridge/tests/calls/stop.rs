//! A stop while calls run: each of them is answered.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::client::{Behind, Client, LEGACY, MODERN, Server, with_token};

fn terminate(pid: u32) {
    let killed = std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status();
    assert!(killed.expect("kill runs").success());
}

fn sleep(ms: u64) -> Value {
    json!({ "name": "sleep", "arguments": { "ms": ms } })
}

fn check(answer: &Value) {
    let error = &answer["error"];
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!("shutdown")), "{answer}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("shutting down")), "{answer}");
}

#[tokio::test]
async fn over_http_what_ends_in_time_ends_and_the_rest_is_told() {
    for version in [LEGACY, MODERN] {
        let server = Server::fixture(Behind::Stdio).await;
        let mut gateway = server.gateway().await;
        let mut client = Client::http(gateway.address, version, json!({})).await;
        let (mut short, mut plain, mut streamed) = (client.again().await, client.again().await, client.again().await);
        let ids = [
            short.send("tools/call", sleep(3_000)).await,
            plain.send("tools/call", sleep(60_000)).await,
            streamed.send("tools/call", with_token("sleep", json!({ "ms": 60_000 }))).await,
        ];
        client.await_counts("sleep", [3, 0, 0]).await;
        let begun = Instant::now();
        terminate(gateway.pid());
        let good = timeout(Duration::from_secs(30), short.rest(&ids[0])).await.expect("in time");
        assert!(good.last().is_some_and(|answer| answer.get("result").is_some()), "{version}: {good:?}");
        for (client, id) in [(&mut plain, &ids[1]), (&mut streamed, &ids[2])] {
            let said = timeout(Duration::from_secs(50), client.rest(id)).await.expect("an answer");
            check(said.last().expect("an answer"));
        }
        let told = begun.elapsed();
        assert!(Duration::from_secs(9) < told, "{version}: cut off after {told:?}");
        let ended = timeout(Duration::from_secs(50), gateway.child().wait()).await.expect("it ends");
        assert_eq!(ended.expect("a status").code(), Some(0), "{version}: {}", gateway.said());
        assert!(gateway.said().contains("waiting up to 10 s for 3 calls"), "{version}: {}", gateway.said());
        println!("{version}: told after {told:?}, ended after {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn on_stdio_the_rest_is_told_too() {
    let server = Server::fixture(Behind::Stdio).await;
    let mut client = Client::stdio(&server, LEGACY, json!({})).await;
    let id = client.send("tools/call", sleep(60_000)).await;
    client.await_counts("sleep", [1, 0, 0]).await;
    terminate(client.process().pid().expect("it runs"));
    let said = timeout(Duration::from_secs(50), client.rest(&id)).await.expect("an answer");
    check(said.last().expect("an answer"));
}

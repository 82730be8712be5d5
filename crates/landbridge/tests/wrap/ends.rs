//! How it ends, and what it leaves behind.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::world::{World, descendants, is_alive, signal, until};

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_ends_it_with_1() {
    let world = World::new();
    let mut client = world.wrap(&["--init-timeout", "1"], json!({ "init_delay": 60 }));
    let start = Instant::now();
    let answer = client.request("initialize", hello()).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let server = world.server();
    let (status, stderr) = client.end().await;
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("did not answer within 1 s"), "{stderr}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    until("the server is gone", || !is_alive(server)).await;
}

/// Nothing was once said of what it had written meanwhile.
#[tokio::test]
async fn a_program_that_is_no_server_is_quoted() {
    let says = "echo 'Welcome to my server!'; echo 'Version 3'; while read line; do :; done";
    for (says, want) in [
        (
            says,
            "did not answer within 1 s; it wrote 2 lines on stdout, and none is a message of MCP; the first: \"Welcome",
        ),
        ("echo bye", "which is no message of MCP: \"bye\""),
    ] {
        let world = World::new();
        let mut client =
            world.wrap_command(&["--init-timeout", "1", "--no-cache"], &["sh", "-c", says].map(str::to_owned));
        let answer = client.request("initialize", hello()).await;
        let told = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(told.contains(want), "{answer}");
    }
}

#[tokio::test]
async fn a_signal_ends_it_while_the_server_has_not_said_who_it_is() {
    for how in [Signal::TERM, Signal::INT] {
        let world = World::new();
        let mut client = world.wrap(&[], json!({ "init_delay": 60 }));
        client.ask("initialize", hello()).await;
        until("the server is asked", || !world.noted("request initialize").is_empty()).await;
        let server = world.server();
        let start = Instant::now();
        signal(client.pid(), how);
        let (status, stderr) = client.end().await;
        assert_eq!(status.code(), Some(0), "{how:?}: {stderr}");
        // Calls that are under way would have 10 s.
        assert!(start.elapsed() < Duration::from_secs(8), "{how:?}: {:?}", start.elapsed());
        until("the server is gone", || !is_alive(server)).await;
    }
}

#[tokio::test]
async fn the_end_of_stdin_ends_it_while_the_server_has_not_said_who_it_is() {
    for (modern, ignore_term) in [(false, false), (true, false), (false, true)] {
        let world = World::new();
        let plan = json!({ "init_delay": 60, "modern": modern, "ignore_term": ignore_term });
        let mut client = world.wrap(&[], plan);
        if modern {
            client.ask_modern("server/discover", json!({})).await;
            until("the server is asked", || !world.noted("request server/discover").is_empty()).await;
        } else {
            client.ask("initialize", hello()).await;
            until("the server is asked", || !world.noted("request initialize").is_empty()).await;
        }
        let server = world.server();
        let start = Instant::now();
        client.close();
        let (status, stderr) = client.end().await;
        let took = start.elapsed();
        assert_eq!(status.code(), Some(0), "{stderr}");
        // 2 s to answer, and 5 s for a process that will not go; calls that are under way would have 10 s more.
        assert!(took < Duration::from_secs(9), "{took:?}");
        assert!(!is_alive(server));
    }
}

#[tokio::test]
async fn a_request_that_was_piped_in_is_answered_after_the_end_of_stdin() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({ "init_delay": 0.5 }));
    let id = client.ask("initialize", hello()).await;
    client.close();
    assert_eq!(client.answer(&id).await["result"]["serverInfo"]["name"], "scripted");
    assert!(client.end().await.0.success());
}

#[tokio::test]
async fn a_signal_ends_it_while_a_call_waits_for_the_server_to_start() {
    let world = World::new();
    let plan = json!({ "init_delay_from": 2 });
    world.warm_up(plan.clone()).await;
    let mut client = world.wrap(&[], plan);
    client.hello().await;
    let id = client.ask("tools/call", json!({ "name": "echo" })).await;
    until("the server is asked", || 2 <= world.noted("request initialize").len()).await;
    let start = Instant::now();
    signal(client.pid(), Signal::TERM);
    let answer = client.answer(&id).await;
    assert_eq!(answer["error"]["data"]["reason"], "stopping", "{answer}");
    let (status, stderr) = client.end().await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

fn hello() -> serde_json::Value {
    json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } })
}

#[tokio::test]
async fn wrong_usage_is_2_and_a_program_that_is_not_there_is_1() {
    let world = World::new();
    let run = |args: &[&str]| {
        let args: Vec<String> = ["wrap"].iter().chain(args).map(|arg| (*arg).to_owned()).collect();
        crate::client::Client::start(crate::LANDBRIDGE, &args, world.folder(), &[])
    };
    for (args, code, says) in [
        (&[][..], 2, "COMMAND"),
        (&["--bogus", "cat"], 2, "--bogus"),
        (&["--init-timeout", "0", "cat"], 2, "more than 0"),
        (&["--init-timeout", "-1", "cat"], 2, ""),
        (&["--idle-timeout", "soon", "cat"], 2, "seconds"),
        (&["--version"], 0, ""),
        (&["-V"], 0, ""),
        (&["--help"], 0, ""),
        (&["/no/such/program"], 1, "cannot find the program"),
        (&["--", "no-such-program-at-all"], 1, "cannot find the program"),
    ] {
        let (status, stderr) = run(args).end().await;
        assert_eq!(status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}

#[tokio::test]
async fn options_of_the_server_are_the_servers() {
    let world = World::new();
    let mut command = world.command(json!({}));
    command.extend(["--refresh", "--help", "--", "-x"].map(str::to_owned));
    for separator in [&[][..], &["--"]] {
        let mut client = world.wrap_command(separator, &command);
        assert_eq!(client.hello().await["serverInfo"]["name"], "scripted");
        client.close();
        assert!(client.end().await.0.success());
    }
}

#[tokio::test]
async fn the_end_of_stdin_and_signals_leave_no_process() {
    for how in [None, Some(Signal::TERM), Some(Signal::INT), Some(Signal::KILL)] {
        let world = World::new();
        let mut client = world.wrap(&[], json!({}));
        client.hello().await;
        // A tree such as npm makes: the server, a shell, and what that started.
        let shell: u32 = client.tool("tree", json!({})).await.parse().expect("a process id");
        let server = world.server();
        until("the shell has a child", || !descendants(shell).is_empty()).await;
        let mut all = descendants(shell);
        all.extend([shell, server]);
        match how {
            None => client.close(),
            Some(how) => signal(client.pid(), how),
        }
        let (status, stderr) = client.end().await;
        if how != Some(Signal::KILL) {
            assert_eq!(status.code(), Some(0), "{how:?}: {stderr}");
        }
        until("all are gone", || all.iter().all(|pid| !is_alive(*pid))).await;
    }
}

#[tokio::test]
async fn a_server_that_ignores_everything_is_killed() {
    let world = World::new();
    let mut client = world.wrap(&[], json!({ "ignore_term": true }));
    client.hello().await;
    let server = world.server();
    let start = Instant::now();
    client.close();
    let (status, stderr) = client.end().await;
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(!is_alive(server));
    let took = start.elapsed();
    // 2 s to go by itself, 3 s after it was told to.
    assert!(Duration::from_secs(4) < took && took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test]
async fn a_server_that_went_by_itself_is_not_killed_again_at_the_end() {
    // Regression: an earlier wrapper kept the group of a process that had ended, and an unknown one stood for its own.
    let world = World::new();
    let mut client = world.wrap(&[], json!({}));
    client.hello().await;
    let answer = client.request("tools/call", json!({ "name": "die" })).await;
    assert_eq!(answer["error"]["code"], -32603);
    let mut bystander = tokio::process::Command::new("sleep").arg("600").kill_on_drop(true).spawn().expect("it starts");
    client.close();
    let (status, stderr) = client.end().await;
    assert_eq!(status.code(), Some(0), "it did not end itself: {stderr}");
    assert!(bystander.try_wait().expect("a status").is_none(), "nor others");
    bystander.kill().await.expect("it is ours");
}

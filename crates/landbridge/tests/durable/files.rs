//! Where state is kept: what lies there, who may read it, and what the settings say.

use std::process::Stdio;

use lb_peers::harness::Gateway;
use lb_peers::tools::{Settings, ToolClient};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::Command;

use crate::world::{Desk, End, KEY, Keep, LANDBRIDGE, PATIENCE, STRICT, World, holds, mode, one};

const WORDS: &str = "Zq7-nobody-else-reads-this";

/// Ids and texts are sealed, and what is kept is read again all the same.
async fn state_is_sealed(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let mut desk = world.desk().await;
    let session = desk.client.session_id().expect("a session");
    let set = desk.ok("set_timer", json!({ "duration_ms": 3_600_000, "message": WORDS })).await.json();
    desk.ok("set_timer", json!({ "duration_ms": 1, "message": WORDS })).await;
    desk.promoted("one", "slow", json!({ "ms": 300, "words": WORDS }), None).await;
    world.session_is("the task has ended", |session| session["workingTasks"] == 0).await;
    world.end(End::Stop).await;
    let bytes = world.kept_bytes();
    assert!(!bytes.is_empty());
    for clear in [WORDS, &session, "timer_expired", "tool-client"] {
        assert!(!holds(&bytes, clear), "{clear:?} can be read by whoever has the file");
    }
    if keep == Keep::Disk {
        assert_eq!(mode(&world.state()), 0o700);
        for file in ["state.redb", "key"] {
            assert_eq!(mode(&world.state().join(file)), 0o600, "{file}");
        }
    }
    world.begin().await;
    let timer = desk.ok("get_timer", json!({ "timer_id": set["timerId"] })).await.json();
    assert_eq!((&timer["message"], &timer["status"]), (&json!(WORDS), &json!("active")), "{timer}");
}

#[tokio::test]
async fn nothing_that_is_kept_can_be_read_without_the_key_on_disk() {
    state_is_sealed(Keep::Disk).await;
}

#[tokio::test]
async fn nothing_that_is_kept_can_be_read_without_the_key_on_valkey() {
    state_is_sealed(Keep::Valkey).await;
}

#[tokio::test]
async fn a_folder_in_use_is_left_alone_and_it_is_said_that_sessions_end_with_the_process() {
    let mut world = World::start(Keep::Disk, json!({}), &["--log-format", "json"]).await;
    let first = ToolClient::at(world.address(), Settings::default()).await;
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
    command.env("XDG_STATE_HOME", world.folder.path()).stdin(Stdio::null());
    let second = Gateway::launch(command, tempfile::tempdir().expect("a folder")).await;
    let said = second.said();
    let line = said.lines().find(|line| line.contains("state_in_memory")).unwrap_or_else(|| panic!("not said: {said}"));
    assert!(line.contains("sessions are kept in memory and end with this process"), "{line}");
    let client = ToolClient::http(&second).await;
    assert_eq!(client.call("list_timers", json!({})).await.status, 200);
    assert!(!world.said().contains("state_in_memory"), "{}", world.said());
    drop(second);
    world.restart(End::Stop).await;
    assert_eq!(first.call("list_timers", json!({})).await.status, 200, "the first is not disturbed");
    assert_eq!(
        ToolClient::join(world.address(), &client.session_id().expect("one"), Settings::default())
            .call("list_timers", json!({}))
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn with_none_nothing_is_written_and_sessions_end_with_the_process() {
    let mut world = World::start(Keep::Disk, json!({}), &["--data", "none"]).await;
    let client = ToolClient::at(world.address(), Settings::default()).await;
    assert_eq!(client.call("list_timers", json!({})).await.status, 200);
    world.restart(End::Stop).await;
    assert_eq!(client.call("list_timers", json!({})).await.status, 404);
    assert!(!world.state().exists(), "nothing is written");
    let other = world.folder.path().join("elsewhere");
    world.end(End::Stop).await;
    world.flags(&["--data", &other.to_string_lossy()]);
    world.begin().await;
    let client = ToolClient::at(world.address(), Settings::default()).await;
    world.restart(End::Stop).await;
    assert_eq!(client.call("list_timers", json!({})).await.status, 200, "a folder of one's own");
    assert!(other.join("state.redb").exists() && !world.state().exists());
}

/// Each with the words that the complaint must have.
#[tokio::test]
async fn settings_of_the_store_are_checked_before_anything_is_served() {
    const TYPE: &str = "MCP_CONFIG_STORAGE_TYPE";
    const URL: &str = "MCP_CONFIG_STORAGE_VALKEY_URL";
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[(TYPE, "oracle")], TYPE),
        (&[(TYPE, "valkey")], TYPE),
        (&[(TYPE, "valkey"), (URL, "ftp://127.0.0.1:1")], URL),
        (&[(TYPE, "valkey"), (URL, "redis://127.0.0.1:1")], "LANDBRIDGE_KEY"),
        (&[(TYPE, "valkey"), (URL, "redis://127.0.0.1:1"), ("LANDBRIDGE_KEY", "short")], "LANDBRIDGE_KEY"),
        (&[("LANDBRIDGE_DURABILITY", "often")], "LANDBRIDGE_DURABILITY"),
        (&[("LANDBRIDGE_SESSION_TTL", "never")], "LANDBRIDGE_SESSION_TTL"),
    ];
    for (variables, word) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(LANDBRIDGE);
        command.args(["serve", "--listen", "127.0.0.1:0"]).env("XDG_STATE_HOME", folder.path());
        command.envs(variables.iter().copied()).stdin(Stdio::null()).kill_on_drop(true);
        let ended = tokio::time::timeout(PATIENCE, command.output()).await;
        let output = ended.unwrap_or_else(|_| panic!("{variables:?} is served")).expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{variables:?}: {said}");
        assert!(said.contains(word), "{variables:?}: {said}");
        assert!(!folder.path().join("landbridge").exists(), "{variables:?}: nothing is written");
    }
}

/// The variables alone are enough, and mean what the flags mean.
#[tokio::test]
async fn variables_say_where_state_is_kept() {
    let mut world = World::start(Keep::Valkey, one(), STRICT).await;
    let valkey = world.valkey.take().expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    world.end(End::Stop).await;
    let by_variables = |kind: &str| {
        // Without the server in hand, the command names no store.
        let mut command = world.command();
        command.env("MCP_CONFIG_STORAGE_TYPE", kind).env("MCP_CONFIG_STORAGE_VALKEY_URL", valkey.url());
        command.env("MCP_CONFIG_STORAGE_SESSION_TTL", "60").env("LANDBRIDGE_KEY", KEY);
        command.env("XDG_STATE_HOME", folder.path());
        command
    };
    let launch = async |kind: &str| Gateway::launch(by_variables(kind), tempfile::tempdir().expect("a folder")).await;
    let stop = async |mut gateway: Gateway| {
        let pid = i32::try_from(gateway.pid()).ok().and_then(Pid::from_raw).expect("it runs");
        kill_process(pid, Signal::TERM).expect("it is ours");
        let status = gateway.child().wait().await.expect("it ends");
        assert!(status.success(), "{status}: {}", gateway.said());
    };
    let gateway = launch("valkey").await;
    let mut desk = Desk::new(ToolClient::http(&gateway).await);
    let set = desk.ok("set_timer", json!({ "duration_ms": 3_600_000, "message": WORDS })).await.json();
    stop(gateway).await;
    let gateway = launch("valkey").await;
    desk.ok("get_timer", json!({ "timer_id": set["timerId"] })).await;
    assert!(!folder.path().join("landbridge/state.redb").exists(), "on the server, and not in a folder");
    stop(gateway).await;
    let gateway = launch("memory").await;
    assert_eq!(desk.client.call("list_timers", json!({})).await.status, 404, "memory has none of it");
    stop(gateway).await;
}

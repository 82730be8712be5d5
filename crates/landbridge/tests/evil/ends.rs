//! The end of the gateway, on every way out: what it does to its children, and that none is left.

use std::path::Path;
use std::time::{Duration, Instant};

use lb_peers::harness::{Gateway, config};
use lb_peers::raw::RawStdio;
use lb_peers::raw::handshake::Era;
use lb_peers::raw::http::initialize_request;
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use tokio::process::Command;

use crate::desk::{Client, LANDBRIDGE, child, evil, mark};
use crate::{procs, signals};

/// Servers, each with a child and a grandchild in a session of its own, neither of which ends by itself.
const LINGERING: usize = 20;

/// A gateway with servers that ignore SIGTERM and the end of their input, all of them started and struck.
async fn lingering(mark: &str, count: usize) -> (Gateway, Vec<Client>) {
    let servers: Map<String, Value> =
        (0..count).map(|number| (format!("s{number}"), child("ignore-term", Era::Legacy, mark))).collect();
    let gateway = Gateway::serve(LANDBRIDGE, Value::Object(servers)).await;
    let mut clients = Vec::new();
    for number in 0..count {
        let mut client = Client::open(&gateway, &format!("s{number}"), Era::Legacy).await;
        let answer = client.call("strike", json!({})).await;
        assert!(answer.text().is_some_and(|text| text.starts_with("pid ")), "{answer:?}");
        clients.push(client);
    }
    (gateway, clients)
}

#[tokio::test]
async fn kill_nine_leaves_nothing() {
    let mark = mark("kill");
    let (mut gateway, _clients) = lingering(&mark, LINGERING).await;
    let started = procs::marked(&mark);
    // The supervisor, the child and the grandchild that went into a session of its own.
    assert_eq!(started.len(), 3 * LINGERING, "{started:#?}");
    signals::send(gateway.pid(), Signal::KILL);
    assert_eq!(signals::ended(&mut gateway, Duration::from_secs(5)).await, None);
    procs::gone(Duration::from_secs(5), || procs::marked(&mark)).await;
}

/// Killing the supervisor is as good as killing the child: the gateway notices and cleans up.
#[tokio::test]
async fn a_killed_supervisor_takes_its_child_along() {
    let mark = mark("supervisor");
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": child("hang", Era::Legacy, &mark) })).await;
    let mut client = Client::open(&gateway, "it", Era::Legacy).await;
    client.calm("before").await;
    let started = procs::marked(&mark);
    let supervisor = started.iter().find(|process| process.parent == gateway.pid()).expect("a supervisor");
    signals::send(supervisor.pid, Signal::KILL);
    procs::until(Duration::from_secs(5), "all of them end", || {
        started.iter().all(|process| !procs::exists(process.pid))
    })
    .await;
    client.calm("after").await;
}

#[tokio::test]
async fn a_second_signal_ends_everything_at_once() {
    for (first, second) in [(Signal::INT, Signal::INT), (Signal::TERM, Signal::INT)] {
        let mark = mark("second");
        let (mut gateway, _clients) = lingering(&mark, 2).await;
        signals::send(gateway.pid(), first);
        procs::until(Duration::from_secs(5), "it has heard the first", || gateway.said().contains("once more")).await;
        let start = Instant::now();
        signals::send(gateway.pid(), second);
        assert_eq!(signals::ended(&mut gateway, Duration::from_secs(5)).await, Some(130));
        assert!(start.elapsed() < Duration::from_secs(1), "it took {:?}", start.elapsed());
        procs::gone(Duration::from_secs(5), || procs::marked(&mark)).await;
    }
}

/// A shell that writes down the end of its server's input, every SIGTERM, and that it still runs; it ends only by force.
fn stubborn(log: &Path, mark: &str) -> Value {
    let note = |what: &str| format!("echo {what} $(date +%s%N) >> '{}'", log.display());
    let script = format!(
        "trap '{}' TERM; '{}' --fault hang; {}; while :; do sleep 0.1; done",
        note("term").replace('\'', "'\\''"),
        evil(),
        note("eof")
    );
    json!({ "command": "bash", "args": ["-c", script], "env": { "EVIL_MARK": mark } })
}

/// When the stubborn server noticed what.
fn noticed(log: &Path, what: &str) -> Vec<Duration> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let times = text.lines().filter_map(|line| line.strip_prefix(what)?.trim().parse().ok());
    times.map(Duration::from_nanos).collect()
}

fn since_epoch() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock")
}

/// Input closed at once, SIGTERM after 2 s, SIGKILL 3 s later.
fn check_steps(log: &Path, from: Duration, to: Duration) {
    let (eof, term) = (noticed(log, "eof"), noticed(log, "term"));
    let ([eof], [term]) = (eof.as_slice(), term.as_slice()) else { panic!("eof {eof:?}, term {term:?}") };
    let second = Duration::from_secs(1);
    let [eof, term, end] = [*eof - from, *term - from, to - from];
    assert!(eof < second, "the input is closed first: {eof:?}");
    assert!(2 * second <= term && term < 4 * second, "SIGTERM comes 2 s later: {term:?}");
    assert!(term + Duration::from_millis(2500) <= end && end < 8 * second, "SIGKILL comes 3 s later: {end:?} {term:?}");
}

#[tokio::test]
async fn signals_end_children_step_by_step() {
    let mut tasks = tokio::task::JoinSet::new();
    for signal in [Signal::INT, Signal::TERM] {
        tasks.spawn(async move {
            let (folder, mark) = (tempfile::tempdir().expect("a folder"), mark(&format!("steps-{signal:?}")));
            let log = folder.path().join("log");
            let servers = json!({ "stubborn": stubborn(&log, &mark), "good": child("hang", Era::Legacy, &mark) });
            let mut gateway = Gateway::serve(LANDBRIDGE, servers).await;
            for server in ["stubborn", "good"] {
                Client::open(&gateway, server, Era::Legacy).await.calm("before").await;
            }
            let is_good = |p: &procs::Process| p.parent != gateway.pid() && p.command.ends_with("--era legacy");
            let good = procs::marked(&mark).into_iter().find(is_good).expect("a good child");
            let start = since_epoch();
            signals::send(gateway.pid(), signal);
            procs::until(Duration::from_secs(2), "a good child ends with its input", || !procs::exists(good.pid)).await;
            assert_eq!(signals::ended(&mut gateway, Duration::from_secs(15)).await, Some(0), "{}", gateway.said());
            check_steps(&log, start, since_epoch());
            procs::gone(Duration::from_millis(500), || procs::marked(&mark)).await;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("both signals do the same");
    }
}

/// Ending a session ends its child in the same steps, and nobody waits for them.
#[tokio::test]
async fn ending_a_session_ends_its_child_step_by_step() {
    let (folder, mark) = (tempfile::tempdir().expect("a folder"), mark("delete"));
    let log = folder.path().join("log");
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "stubborn": stubborn(&log, &mark) })).await;
    let mut client = Client::open(&gateway, "stubborn", Era::Legacy).await;
    client.calm("before").await;
    let start = since_epoch();
    client.end().await;
    assert!(since_epoch() - start < Duration::from_secs(1), "the client waited {:?}", since_epoch() - start);
    procs::gone(Duration::from_secs(10), || procs::marked(&mark)).await;
    check_steps(&log, start, since_epoch());
}

/// What is under way when the signal comes is still answered.
#[tokio::test]
async fn calls_in_flight_are_answered_before_the_end() {
    for era in [Era::Legacy, Era::Modern] {
        let mark = mark("flight");
        let mut gateway = Gateway::serve(LANDBRIDGE, json!({ "it": child("slow", Era::Legacy, &mark) })).await;
        let mut client = Client::open(&gateway, "it", era).await;
        client.calm("before").await;
        let id = client.send_call("strike", json!({ "message": "in flight" }), "").await;
        let twin = Client::open(&gateway, "it", Era::Legacy).await;
        signals::send(gateway.pid(), Signal::TERM);
        let answer = client.read_answer(id).await;
        assert_eq!(answer.text().as_deref(), Some("in flight"), "{era:?}: {answer:?}");
        assert_eq!(signals::ended(&mut gateway, Duration::from_secs(15)).await, Some(0), "{}", gateway.said());
        drop(twin);
        procs::gone(Duration::from_millis(500), || procs::marked(&mark)).await;
    }
}

/// A call that hangs, a stream that is open and a child that will not go: the gateway ends all the same.
#[tokio::test]
async fn nothing_holds_up_the_end_for_long() {
    let mark = mark("held");
    let mut gateway = Gateway::serve(LANDBRIDGE, json!({ "it": child("ignore-term,hang", Era::Legacy, &mark) })).await;
    let mut client = Client::open(&gateway, "it", Era::Legacy).await;
    let _stream = client.listen(&gateway).await;
    client.call("strike", json!({})).await;
    client.send_call("strike", json!({ "fault": "hang" }), "").await;
    let mut modern = Client::open(&gateway, "it", Era::Modern).await;
    modern.send_call("strike", json!({ "fault": "hang" }), "").await;
    let start = Instant::now();
    signals::stop(&mut gateway, Duration::from_secs(20)).await;
    assert!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
    procs::gone(Duration::from_millis(500), || procs::marked(&mark)).await;
}

/// `landbridge stdio` in front of one server.
fn stdio(servers: &Value) -> (tempfile::TempDir, RawStdio) {
    let (folder, file) = config(servers);
    let mut command = Command::new(LANDBRIDGE);
    command.args(["stdio", "--surface", "server", "--config"]).arg(file);
    let mut client = RawStdio::spawn(command).expect("the gateway starts");
    client.patience = Duration::from_secs(20);
    (folder, client)
}

async fn first_call(client: &mut RawStdio, tool: &str) -> String {
    let welcome = client.ask(&initialize_request("0", "2025-11-25")).await.expect("an answer");
    assert!(welcome.contains("protocolVersion"), "{welcome}");
    client.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await.expect("it reads");
    let call =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#);
    client.ask(&call).await.expect("an answer")
}

#[tokio::test]
async fn on_stdio_the_end_of_input_is_the_end() {
    for (fault, tool, at_most) in [("hang", "calm", 2), ("ignore-term", "strike", 8)] {
        let mark = mark(&format!("stdin-{fault}"));
        let (_folder, mut client) = stdio(&json!({ "it": child(fault, Era::Legacy, &mark) }));
        first_call(&mut client, tool).await;
        assert!(!procs::marked(&mark).is_empty());
        let start = Instant::now();
        client.close_stdin();
        assert_eq!(client.wait().await.expect("it ends").code(), Some(0), "{fault}");
        assert!(start.elapsed() < Duration::from_secs(at_most), "{fault}: it took {:?}", start.elapsed());
        while let Some(line) = client.stderr_line().await.expect("its stderr ends") {
            assert!(!line.contains("outlived"), "{fault}: {line}");
        }
        procs::gone(Duration::from_millis(500), || procs::marked(&mark)).await;
    }
}

/// What was asked before the input ended is still answered.
#[tokio::test]
async fn on_stdio_the_last_answer_comes_after_the_end_of_input() {
    let (_folder, mut client) = stdio(&json!({ "it": child("slow", Era::Legacy, &mark("last")) }));
    first_call(&mut client, "calm").await;
    let call = br#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"strike","arguments":{"message":"slowly"}}}"#;
    client.send(call).await.expect("it reads");
    client.close_stdin();
    let answer = client.text().await.expect("an answer");
    assert!(answer.contains("slowly"), "{answer}");
    assert_eq!(client.wait().await.expect("it ends").code(), Some(0));
}

#[tokio::test]
async fn on_stdio_signals_and_kill_leave_nothing() {
    let mut tasks = tokio::task::JoinSet::new();
    for (signal, code) in [(Signal::TERM, Some(0)), (Signal::INT, Some(0)), (Signal::KILL, None)] {
        tasks.spawn(async move {
            let mark = mark(&format!("stdio-{signal:?}"));
            let (_folder, mut client) = stdio(&json!({ "it": child("ignore-term", Era::Legacy, &mark) }));
            first_call(&mut client, "strike").await;
            signals::send(client.pid().expect("it runs"), signal);
            assert_eq!(client.wait().await.expect("it ends").code(), code, "{signal:?}");
            procs::gone(Duration::from_secs(5), || procs::marked(&mark)).await;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("every signal leaves nothing");
    }
}

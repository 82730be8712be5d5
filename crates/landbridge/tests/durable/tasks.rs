//! Tasks: what ended has ended for good, and what ran when the process died has failed.

use std::time::{Duration, Instant};

use lb_peers::harness::{HttpPeer, peer};
use serde_json::{Value, json};

use crate::world::{Desk, End, Keep, LANDBRIDGE, PATIENCE, STRICT, World, one, script};

fn is_idle(session: &Value) -> bool {
    session["workingTasks"] == 0
}

async fn result(desk: &mut Desk, task: &str) -> String {
    let reply = desk.ok("get_task_result", json!({ "task_id": task, "timeout_ms": 10_000 })).await;
    reply.text().to_owned()
}

/// The task ends while nobody looks; its end and its result are read from the next process.
async fn results_are_kept(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let mut desk = world.desk().await;
    let task = desk.promoted("one", "slow", json!({ "ms": 600 }), None).await;
    world.session_is("the task has ended", is_idle).await;
    assert_eq!(desk.of("task_completed").len(), 0, "nobody was told");
    for how in [End::Stop, End::Kill, End::Stop] {
        world.restart(how).await;
        let row = desk.task(&task).await;
        assert_eq!((&row["status"], &row["toolName"]), (&json!("completed"), &json!("slow")), "{how:?}: {row}");
        assert!(row["result"].to_string().contains("slow"), "{how:?}: {row}");
        for _ in 0..2 {
            assert_eq!(result(&mut desk, &task).await, "slow", "{how:?}: as often as asked");
        }
        desk.drain().await;
    }
    for kind in ["task_created", "task_completed"] {
        assert_eq!(desk.about(kind, &json!(task)).len(), 1, "{kind} is told once: {:#?}", desk.told);
    }
    assert_eq!(desk.of("task_failed"), [Value::Null; 0]);
}

#[tokio::test]
async fn the_end_of_a_task_is_told_once_and_its_result_kept_over_restarts_on_disk() {
    results_are_kept(Keep::Disk).await;
}

#[tokio::test]
async fn the_end_of_a_task_is_told_once_and_its_result_kept_over_restarts_on_valkey() {
    results_are_kept(Keep::Valkey).await;
}

/// A server that lives on and ends the call later: nothing that it says then changes the task.
async fn running_tasks_fail(keep: Keep, how: End) {
    let far = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &["--era", "legacy"]).await;
    let flags = [STRICT, &["--drain-timeout", "200ms"]].concat();
    let mut world = World::start(keep, json!({ "one": script(), "far": { "url": far.url() } }), &flags).await;
    let mut desk = world.desk().await;
    let cancelled = desk.promoted("one", "hold", json!({}), None).await;
    desk.ok("cancel_task", json!({ "task_id": cancelled })).await;
    let local = desk.promoted("one", "hold", json!({}), None).await;
    let remote = desk.promoted("far", "sleep", json!({ "ms": 1_500 }), None).await;
    world.restart(how).await;

    for task in [&local, &remote] {
        let row = desk.task(task).await;
        assert_eq!(row["status"], "failed", "{row}");
        assert!(row["error"].to_string().contains("Node lost"), "{row}");
        let refused = desk.call("get_task_result", json!({ "task_id": task })).await;
        assert!(refused.is_error() && refused.text().contains("Node lost"), "{refused}");
        assert!(desk.call("cancel_task", json!({ "task_id": task })).await.is_error(), "it has ended");
    }
    let start = Instant::now();
    loop {
        let counts = desk.ok("execute_tool", json!({ "server": "far", "tool": "counters" })).await;
        let sleep = &counts.structured()["sleep"];
        if sleep["finished"] == 1 || sleep["cancelled"] == 1 {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{counts}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.restart(End::Stop).await;
    assert_eq!(desk.task(&remote).await["status"], "failed", "a late result changes nothing");
    assert_eq!(desk.task(&cancelled).await["status"], "cancelled");
    desk.drain().await;
    for task in [&local, &remote] {
        let told = desk.about("task_failed", &json!(task));
        assert_eq!(told.len(), 1, "{:#?}", desk.told);
        assert!(told[0]["data"]["error"].to_string().contains("Node lost"), "{told:?}");
    }
    assert_eq!(desk.about("task_cancelled", &json!(cancelled)).len(), 1, "{:#?}", desk.told);
    assert_eq!(desk.lost_nodes(), usize::from(how == End::Kill), "{:#?}", desk.of("events_dropped"));

    // The next ones are cancelled as ever: the server is told.
    let next = desk.promoted("one", "hold", json!({}), None).await;
    assert_eq!(desk.ok("list_tasks", json!({})).await.json()[0]["taskId"], next.as_str());
    desk.ok("cancel_task", json!({ "task_id": next })).await;
    let start = Instant::now();
    while desk.execute("cancelled", json!({})).await.text() != "1" {
        assert!(start.elapsed() < PATIENCE, "the server is told");
    }
}

#[tokio::test]
async fn tasks_that_ran_when_the_process_was_killed_have_failed_once_on_disk() {
    running_tasks_fail(Keep::Disk, End::Kill).await;
}

#[tokio::test]
async fn tasks_that_ran_when_the_process_was_killed_have_failed_once_on_valkey() {
    running_tasks_fail(Keep::Valkey, End::Kill).await;
}

#[tokio::test]
async fn tasks_that_ran_when_the_process_was_stopped_have_failed_once_on_disk() {
    running_tasks_fail(Keep::Disk, End::Stop).await;
}

#[tokio::test]
async fn tasks_that_ran_when_the_process_was_stopped_have_failed_once_on_valkey() {
    running_tasks_fail(Keep::Valkey, End::Stop).await;
}

/// What `list_tasks` says of every task, newest first.
async fn rows(desk: &mut Desk) -> Value {
    desk.ok("list_tasks", json!({ "include_completed": true })).await.json()
}

/// One task in each state that is an end, and the same after every restart.
async fn states_stay(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let mut desk = world.desk().await;
    let failed = desk.promoted("one", "hold", json!({}), None).await;
    let crash = json!({ "server": "one", "tool": "crash", "args": { "code": 3 } });
    assert!(desk.call("execute_tool", crash).await.is_error());
    let expired = desk.promoted("one", "hold", json!({}), Some(1_000)).await;
    let completed = desk.promoted("one", "slow", json!({ "ms": 300 }), None).await;
    let cancelled = desk.promoted("one", "hold", json!({}), None).await;
    desk.ok("cancel_task", json!({ "task_id": cancelled })).await;
    world.session_is("all have ended", is_idle).await;
    let ends = [(&failed, "failed"), (&expired, "expired"), (&completed, "completed"), (&cancelled, "cancelled")];
    let before = rows(&mut desk).await;
    assert_eq!(before.as_array().map(Vec::len), Some(4), "{before}");
    for how in [End::Stop, End::Kill] {
        world.restart(how).await;
        assert_eq!(rows(&mut desk).await, before, "{how:?}: nothing of them changes");
        for (task, status) in ends {
            assert_eq!(desk.task(task).await["status"], status, "{how:?}");
        }
    }
    // As before the restart: a call that takes too long becomes a task, and who waits for it gets its result.
    let task = desk.promoted("one", "slow", json!({ "ms": 800 }), None).await;
    let soon = desk.ok("get_task_result", json!({ "task_id": task, "timeout_ms": 100 })).await;
    assert_eq!(soon.json()["status"], "working", "{soon}");
    assert_eq!((result(&mut desk, &task).await, result(&mut desk, &task).await), ("slow".into(), "slow".into()));
    desk.drain().await;
    for (task, status) in ends {
        let kind = format!("task_{status}");
        assert_eq!(desk.about(&kind, &json!(task)).len(), 1, "{kind}: {:#?}", desk.told);
        assert_eq!(desk.about("task_created", &json!(task)).len(), 1, "{kind}: {:#?}", desk.told);
    }
}

#[tokio::test]
async fn every_end_of_a_task_is_the_same_after_restarts_on_disk() {
    states_stay(Keep::Disk).await;
}

#[tokio::test]
async fn every_end_of_a_task_is_the_same_after_restarts_on_valkey() {
    states_stay(Keep::Valkey).await;
}

/// Ten minutes by default and thirty at most; a task that expired before the restart is told after it, and kept from
/// the time on at which it ended.
async fn times_to_live_stay(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let mut desk = world.desk().await;
    let default = desk.promoted("one", "slow", json!({ "ms": 200 }), None).await;
    let greedy = desk.promoted("one", "slow", json!({ "ms": 200 }), Some(99_999_999)).await;
    let short = desk.promoted("one", "hold", json!({}), Some(1_000)).await;
    world.session_is("all have ended", is_idle).await;
    world.restart(End::Stop).await;
    let mut ended = Vec::new();
    for (task, ttl, status) in
        [(&default, 600_000, "completed"), (&greedy, 1_800_000, "completed"), (&short, 1_000, "expired")]
    {
        let row = desk.task(task).await;
        assert_eq!((&row["ttl"], &row["status"]), (&json!(ttl), &json!(status)), "{row}");
        ended.push(row["lastUpdatedAt"].clone());
    }
    world.restart(End::Kill).await;
    for (task, ended) in [&default, &greedy, &short].into_iter().zip(ended) {
        assert_eq!(desk.task(task).await["lastUpdatedAt"], ended, "kept from its end on, not from the restart");
    }
    desk.drain().await;
    assert_eq!(desk.about("task_expired", &json!(short)).len(), 1, "{:#?}", desk.told);

    let start = Instant::now();
    let next = desk.promoted("one", "hold", json!({}), Some(1_000)).await;
    while desk.task(&next).await["status"] == "working" {
        // Ten times what is promised.
        assert!(start.elapsed() < Duration::from_secs(2), "it expires within a tenth of a second");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(Duration::from_secs(1) <= start.elapsed(), "{:?}", start.elapsed());
    assert_eq!(desk.task(&next).await["status"], "expired");
}

#[tokio::test]
async fn the_time_a_task_has_is_the_same_after_restarts_on_disk() {
    times_to_live_stay(Keep::Disk).await;
}

#[tokio::test]
async fn the_time_a_task_has_is_the_same_after_restarts_on_valkey() {
    times_to_live_stay(Keep::Valkey).await;
}

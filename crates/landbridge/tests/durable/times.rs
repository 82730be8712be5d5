//! Time that passes while no process runs.

use serde_json::json;

use crate::world::{End, Keep, STRICT, World, one};

/// What ended is kept for five minutes from its end on, whichever process counts them.
async fn retention_goes_on(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let mut desk = world.desk().await;
    let task = desk.promoted("one", "slow", json!({ "ms": 200 }), None).await;
    let next =
        desk.ok("set_timer", json!({ "duration_ms": 500_000, "message": "tea" })).await.json()["timerId"].clone();
    let fired = desk.ok("set_timer", json!({ "duration_ms": 1, "message": "now" })).await.json()["timerId"].clone();
    desk.until("task_completed", 1).await;
    desk.until("timer_expired", 1).await;
    for (ahead, is_there) in [("+240s", true), ("+360s", false)] {
        world.end(End::Stop).await;
        world.put_clock_forward(ahead);
        world.begin().await;
        let found = desk.call("get_task", json!({ "task_id": task })).await;
        assert_eq!(!found.is_error(), is_there, "{ahead}: {found}");
        let found = desk.call("get_timer", json!({ "timer_id": fired })).await;
        assert_eq!(!found.is_error(), is_there, "{ahead}: {found}");
        let row = desk.ok("get_timer", json!({ "timer_id": next })).await.json();
        assert_eq!(row["status"], "active", "{ahead}: it has its time: {row}");
    }
    world.end(End::Stop).await;
    world.put_clock_forward("+540s");
    world.begin().await;
    desk.until("timer_expired", 2).await;
    assert_eq!(desk.about("timer_expired", &next).len(), 1, "overdue, and told once: {:#?}", desk.told);
}

/// With the clock of `libfaketime`.
mod peer_faketime {
    use super::retention_goes_on;
    use crate::world::Keep;

    #[tokio::test]
    async fn what_ended_is_kept_for_five_minutes_whether_or_not_a_process_runs_on_disk() {
        retention_goes_on(Keep::Disk).await;
    }

    #[tokio::test]
    async fn what_ended_is_kept_for_five_minutes_whether_or_not_a_process_runs_on_valkey() {
        retention_goes_on(Keep::Valkey).await;
    }
}

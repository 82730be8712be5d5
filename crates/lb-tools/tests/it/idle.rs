//! Sessions that nobody uses.

use serde_json::json;

use crate::world::{Plan, World, minutes, pass, seconds};

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_ends_after_thirty_minutes() {
    let world = World::new();
    let client = world.client().await;
    pass(minutes(29)).await;
    assert_eq!(client.call("list_timers", json!({})).await.status, 200);
    pass(minutes(29)).await;
    assert_eq!(client.call("list_timers", json!({})).await.status, 200, "use moves the end");
    pass(minutes(31) + seconds(1)).await;
    let gone = client.call("list_timers", json!({})).await;
    assert_eq!((gone.status, &gone.response["error"]["code"]), (404, &json!(-32001)));
    assert_eq!(world.gateway.sessions(), 0);
    assert_eq!((world.one.open(), world.two.open()), (0, 0), "its connections are closed");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_listens_stays_until_a_day_has_passed() {
    let world = World::new();
    let client = world.client().await;
    let listening = client.listen();
    pass(minutes(23 * 60)).await;
    assert_eq!(world.gateway.sessions(), 1, "not a day yet");
    pass(minutes(62)).await;
    assert_eq!(world.gateway.sessions(), 0, "a day without any request");
    drop(listening);
}

/// With a shorter time than usual: a wait and a task are over before half an hour is.
#[tokio::test(start_paused = true)]
async fn a_session_in_which_something_goes_on_is_not_idle() {
    for what in ["nothing", "a wait", "a task", "a question"] {
        let mut plan = Plan::default();
        plan.setup.limits.idle_after = minutes(5);
        let world = World::planned(plan);
        let client = world.client().await;
        let mut waiting = None;
        match what {
            "nothing" => {}
            "a wait" => waiting = Some(client.begin("await_activity", json!({ "timeout_ms": 540_000 })).await),
            "a task" => drop(client.task(json!({ "task_ttl_ms": 540_000 })).await),
            _ => world.one.elicit("q1"),
        }
        pass(minutes(8)).await;
        assert_eq!(world.gateway.sessions(), usize::from(what != "nothing"), "{what}");
        pass(minutes(9)).await;
        assert_eq!(world.gateway.sessions(), 0, "{what} is over");
        drop(waiting);
    }
}

//! Sessions that nobody uses.

use serde_json::json;

use crate::script::text;
use crate::world::{World, minutes, pass, seconds};

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
async fn a_session_that_listens_waits_works_or_is_asked_stays_until_a_day_has_passed() {
    for what in ["listens", "waits", "works", "is asked"] {
        let world = World::new();
        let client = world.client().await;
        let mut listening = None;
        let mut waiting = None;
        match what {
            "listens" => listening = Some(client.listen()),
            "waits" => waiting = Some(client.begin("await_activity", json!({ "timeout_ms": 900_000 })).await),
            "works" => drop(client.task(json!({ "task_ttl_ms": 1_800_000 })).await),
            _ => {
                pass(minutes(25)).await;
                world.one.elicit("q1");
            }
        }
        // A wait or a task lasts less than half an hour; what follows it counts anew only if the session was in use.
        pass(minutes(if listening.is_some() { 60 } else { 29 }) + seconds(30)).await;
        assert_eq!(world.gateway.sessions(), 1, "a session that {what}");
        if listening.is_some() {
            pass(minutes(22 * 60)).await;
            assert_eq!(world.gateway.sessions(), 1, "not a day yet");
            pass(minutes(62)).await;
            assert_eq!(world.gateway.sessions(), 0, "a day without any request");
        }
        drop(waiting);
    }
}

#[tokio::test(start_paused = true)]
async fn a_working_task_keeps_its_session_beyond_thirty_minutes() {
    let world = World::new();
    let client = world.client().await;
    let task = client.task(json!({})).await;
    let call = world.one.call(1).await;
    // Questions hold up the end of the task, so that it works when nobody has used the session for half an hour.
    for question in ["q1", "q2", "q3", "q4"] {
        world.one.elicit(question);
        pass(minutes(7)).await;
    }
    world.one.elicit("q5");
    pass(minutes(4)).await;
    assert_eq!(world.gateway.sessions(), 1, "q5 is open");
    world.one.answer(&call, text("late"));
    assert_eq!(client.task_row(&task).await["status"], "expired");
}

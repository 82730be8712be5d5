//! Events: told once, whichever process tells them.

use std::collections::HashSet;

use serde_json::json;

use crate::world::{End, Keep, STRICT, World, one};

/// More notifications than one reply has room for: some are told before the process ends, the others by the next.
async fn untold_events_come_once(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let mut desk = world.desk().await;
    let mut from = 0;
    for (how, gaps) in [(End::Stop, 0), (End::Kill, 1), (End::Stop, 1)] {
        desk.execute("changed", json!({})).await;
        desk.execute("burst", json!({ "from": from, "count": 80 })).await;
        let told = desk.numbers().len() as u64;
        assert!(from < told && told < from + 80, "{how:?}: some are told and some wait: {told}");
        from += 80;
        world.restart(how).await;
        desk.drain().await;
        assert_eq!(desk.numbers(), (0..from).collect::<Vec<_>>(), "{how:?}: each once, in order");
        // A gap is told with the event that follows it, which is here that the server is connected.
        desk.execute("echo", json!({})).await;
        assert_eq!(desk.lost_nodes(), gaps, "{how:?}: {:#?}", desk.of("events_dropped"));
        assert_eq!(desk.ok("get_notifications", json!({})).await.json(), json!([]), "{how:?}");
    }
    let changed =
        desk.of("notification").iter().filter(|e| e["data"]["method"] == "notifications/tools/list_changed").count();
    assert_eq!(changed, 3, "a list that changed is told once each time");
    let ids: Vec<_> = desk.told.iter().filter_map(|event| event["id"].as_str()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "no id twice");
}

#[tokio::test]
async fn events_that_nobody_was_told_of_come_once_after_a_restart_on_disk() {
    untold_events_come_once(Keep::Disk).await;
}

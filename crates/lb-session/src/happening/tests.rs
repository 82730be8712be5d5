use std::collections::BTreeSet;

use lb_wire::Text;

use super::*;

const ID: &str = "01JZ0000000000000000000001";
const MINUTE: Duration = Duration::from_secs(60);
const OTHER: &str = "01JZ0000000000000000000002";

fn id() -> Ulid {
    Ulid::parse(ID).expect("an id")
}

fn tool() -> Text {
    Text::from_static("read \"it\"")
}

fn reconnected(blip: bool, forced: bool) -> Happening {
    Happening::ServerReconnected(Box::new(Reconnected {
        attempts: 3,
        blip,
        forced,
        capabilities: Raw::from_static(r#"{"tools":{}}"#),
        tools: 4,
        resources: 5,
        prompts: 6,
        tasks_failed: 7,
        elicitations_lost: 8,
        sampling_lost: 9,
    }))
}

/// An event, its type and what it says.
type Told = (Happening, &'static str, &'static str);

fn of_tasks() -> Vec<Told> {
    let (minute, raw) = (MINUTE, Raw::from_static);
    vec![
        (
            Happening::TaskCreated { task: id(), tool: tool(), args: raw(r#"{"a":1}"#), ttl: minute },
            "task_created",
            r#"{"taskId":"<id>","toolName":"read \"it\"","args":{"a":1},"ttl":60000}"#,
        ),
        (
            Happening::TaskCompleted { task: id(), tool: tool(), result: Some(raw(r#"{"content":[]}"#)) },
            "task_completed",
            r#"{"taskId":"<id>","toolName":"read \"it\"","result":{"content":[]}}"#,
        ),
        (
            Happening::TaskCompleted { task: id(), tool: tool(), result: None },
            "task_completed",
            r#"{"taskId":"<id>","toolName":"read \"it\"","resultOmitted":true}"#,
        ),
        (
            Happening::TaskFailed { task: id(), tool: tool(), error: "gone".into(), reason: Some("disconnect") },
            "task_failed",
            r#"{"taskId":"<id>","toolName":"read \"it\"","error":"gone","reason":"disconnect"}"#,
        ),
        (
            Happening::TaskFailed { task: id(), tool: tool(), error: "gone".into(), reason: None },
            "task_failed",
            r#"{"taskId":"<id>","toolName":"read \"it\"","error":"gone"}"#,
        ),
        (
            Happening::TaskCancelled { task: id(), tool: tool() },
            "task_cancelled",
            r#"{"taskId":"<id>","toolName":"read \"it\""}"#,
        ),
        (
            Happening::TaskExpired { task: id(), tool: tool(), ttl: minute },
            "task_expired",
            r#"{"taskId":"<id>","toolName":"read \"it\"","ttl":60000}"#,
        ),
    ]
}

fn of_requests_and_timers() -> Vec<Told> {
    let raw = Raw::from_static;
    vec![
        (
            Happening::ElicitationRequest { request: id(), params: raw(r#"{"message":"who?"}"#) },
            "elicitation_request",
            r#"{"requestId":"<id>","params":{"message":"who?"}}"#,
        ),
        (
            Happening::ElicitationExpired { request: id(), reason: "late".into(), cause: Cause::Timeout },
            "elicitation_expired",
            r#"{"requestId":"<id>","reason":"late","cause":"timeout"}"#,
        ),
        (
            Happening::SamplingRequest { request: id(), params: raw(r#"{"maxTokens":1}"#) },
            "sampling_request",
            r#"{"requestId":"<id>","params":{"maxTokens":1}}"#,
        ),
        (
            Happening::SamplingExpired { request: id(), reason: "gone".into(), cause: Cause::ServerCancelled },
            "sampling_expired",
            r#"{"requestId":"<id>","reason":"gone","cause":"server_cancelled"}"#,
        ),
        (
            Happening::Notification { method: "notifications/x".into(), params: Some(raw("[1]")), count: 1 },
            "notification",
            r#"{"method":"notifications/x","params":[1],"timestamp":"1970-01-01T00:01:00.000Z"}"#,
        ),
        (
            Happening::Notification { method: "notifications/x".into(), params: None, count: 3 },
            "notification",
            r#"{"method":"notifications/x","count":3,"timestamp":"1970-01-01T00:01:00.000Z"}"#,
        ),
        (
            Happening::TimerExpired { timer: id(), message: "tea".into(), fired: 2, interval: true },
            "timer_expired",
            r#"{"timerId":"<id>","message":"tea","fireCount":2,"interval":true}"#,
        ),
        (
            Happening::EventsDropped {
                count: 2,
                first: id(),
                last: Ulid::parse(OTHER).expect("an id"),
                node_lost: false,
            },
            "events_dropped",
            r#"{"count":2,"firstLostId":"<id>","lastLostId":"<other>"}"#,
        ),
    ]
}

fn listed(capabilities: Raw) -> Box<Listed> {
    Box::new(Listed { capabilities, tools: 1, resources: 0, prompts: 0 })
}

fn of_servers() -> Vec<Told> {
    let raw = Raw::from_static;
    vec![
        (
            Happening::ServerConnected(listed(raw(r#"{"tools":{}}"#))),
            "server_connected",
            r#"{"name":"files","capabilities":{"tools":{}}}"#,
        ),
        (
            Happening::ServerDisconnected { intentional: false, reason: Some("eof".into()) },
            "server_disconnected",
            r#"{"name":"files","wasIntentional":false,"reason":"eof"}"#,
        ),
        (
            Happening::ServerReconnecting { attempt: 2, next_retry: Duration::from_millis(1_500), error: "eof".into() },
            "server_reconnecting",
            r#"{"name":"files","attempt":2,"nextRetryMs":1500,"error":"eof"}"#,
        ),
        (
            reconnected(false, true),
            "server_reconnected",
            r#"{"name":"files","attemptsTaken":3,"type":"restart","capabilities":{"tools":{}},"forced":true,"refreshedTools":4,"refreshedResources":5,"refreshedPrompts":6,"invalidatedTasks":7,"invalidatedElicitations":8,"invalidatedSampling":9}"#,
        ),
        (
            reconnected(true, false),
            "server_reconnected",
            r#"{"name":"files","attemptsTaken":3,"type":"network_blip","capabilities":{"tools":{}},"refreshedTools":4,"refreshedResources":5,"refreshedPrompts":6,"invalidatedTasks":7,"invalidatedElicitations":8,"invalidatedSampling":9}"#,
        ),
        (
            Happening::ServerAdded {
                target: raw(r#""npx""#),
                transport: "stdio",
                by: Some("me".into()),
                updated: true,
            },
            "server_added",
            r#"{"name":"files","command":"npx","type":"stdio","addedBy":"me","updated":true}"#,
        ),
        (
            Happening::ServerAdded { target: raw(r#""http://a""#), transport: "http", by: None, updated: false },
            "server_added",
            r#"{"name":"files","url":"http://a","type":"http"}"#,
        ),
        (Happening::ServerRemoved { by: Some("me".into()) }, "server_removed", r#"{"name":"files","removedBy":"me"}"#),
        (
            Happening::ServerHealthDegraded { failures: 3, last_error: "slow".into() },
            "server_health_degraded",
            r#"{"name":"files","consecutiveFailures":3,"lastError":"slow"}"#,
        ),
        (Happening::ServerHealthRestored, "server_health_restored", r#"{"name":"files"}"#),
        (
            Happening::ServerProcessCrashed { exit_code: Some(-1), signal: None },
            "server_process_crashed",
            r#"{"name":"files","exitCode":-1,"signal":null}"#,
        ),
        (
            Happening::ServerProcessCrashed { exit_code: None, signal: Some("SIGKILL".into()) },
            "server_process_crashed",
            r#"{"name":"files","exitCode":null,"signal":"SIGKILL"}"#,
        ),
        (
            Happening::ServerRestartFailed { error: "no".into(), attempts: 5 },
            "server_restart_failed",
            r#"{"name":"files","error":"no","attempts":5}"#,
        ),
    ]
}

/// Every type, its name and what it says, word for word.
#[test]
fn every_event_says_what_clients_expect() {
    let mut kinds = BTreeSet::new();
    for (what, kind, data) in of_tasks().into_iter().chain(of_requests_and_timers()).chain(of_servers()) {
        assert_eq!(what.kind(), kind);
        let data = data.replace("<id>", ID).replace("<other>", OTHER);
        assert_eq!(what.data("files", MINUTE).as_str(), data, "{kind}");
        kinds.insert(kind);
    }
    assert_eq!(kinds.len(), 22);
}

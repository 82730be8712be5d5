//! The resource of our own: diagrams of how tasks, requests and calls behave.

use std::sync::LazyLock;

use lb_wire::Raw;
use lb_wire::compose::{Object, array};

/// Where it is.
pub(crate) const URI: &str = "landbridge://diagrams";
const MIME: &str = "application/json";

/// The result of `resources/list`.
pub(crate) fn listed() -> Raw {
    let row = Object::new()
        .text("uri", URI)
        .text("name", "diagrams")
        .text("description", "Mermaid diagrams of tasks, pending requests and calls, as landbridge handles them")
        .text("mimeType", MIME)
        .finish();
    Object::new().raw("resources", &array(std::iter::once(&row))).finish()
}

/// The result of `resources/read`; `None` for any other URI.
pub(crate) fn read(uri: &str) -> Option<Raw> {
    static CONTENTS: LazyLock<Raw> = LazyLock::new(|| {
        let content = Object::new().text("uri", URI).text("mimeType", MIME).text("text", all().as_str()).finish();
        Object::new().raw("contents", &array(std::iter::once(&content))).finish()
    });
    (uri == URI).then(|| CONTENTS.clone())
}

fn all() -> Raw {
    let rows: Vec<Raw> = DIAGRAMS
        .iter()
        .map(|(name, description, mermaid)| {
            Object::new().text("name", name).text("description", description).text("mermaid", mermaid).finish()
        })
        .collect();
    Object::new().raw("diagrams", &array(rows.iter())).finish()
}

/// Name, description and text of each.
const DIAGRAMS: [(&str, &str, &str); 5] = [
    (
        "proxy_task_states",
        "What becomes of a call that goes on in the background",
        "stateDiagram-v2
    [*] --> working: timeout, patience over, input needed, or caller gone
    working --> working: progress updates statusMessage
    working --> completed: the server answered, isError included
    working --> failed: protocol error, server disconnected or removed
    working --> cancelled: cancel_task, or the session ended
    working --> expired: ttl over (10 min, at most 30)
    completed --> [*]: forgotten after 5 min
    failed --> [*]: forgotten after 5 min
    cancelled --> [*]: forgotten after 5 min
    expired --> [*]: forgotten after 5 min",
    ),
    (
        "pending_elicitation_states",
        "What becomes of a server's question to the user",
        "stateDiagram-v2
    [*] --> pending: elicitation/create
    pending --> pending: content does not fit requestedSchema
    pending --> accepted: respond_to_elicitation accept
    pending --> declined: respond_to_elicitation decline
    pending --> cancelled: respond_to_elicitation cancel, cancel_elicitation_request
    pending --> expired: 10 min without an answer, server is told cancel
    pending --> rejected: server gone, removed, or took it back
    accepted --> [*]
    declined --> [*]
    cancelled --> [*]
    expired --> [*]
    rejected --> [*]",
    ),
    (
        "pending_sampling_states",
        "What becomes of a server's request for text from a model",
        "stateDiagram-v2
    [*] --> pending: sampling/createMessage
    pending --> completed: respond_to_sampling
    pending --> cancelled: cancel_sampling_request, server gets error -1
    pending --> expired: 10 min without an answer, server gets error -32001
    pending --> rejected: server gone, removed, or took it back
    completed --> [*]
    cancelled --> [*]
    expired --> [*]
    rejected --> [*]",
    ),
    (
        "tool_call_lifecycle",
        "The way of one execute_tool call",
        "sequenceDiagram
    participant C as Client
    participant L as landbridge
    participant S as Server
    C->>L: execute_tool
    L->>S: tools/call
    alt the server answers in time
        S-->>L: result
        L-->>C: result, then the context block
    else it takes longer than timeout_ms
        L-->>C: taskId, timeout true
        S-->>L: result
        L->>L: task_completed event
        C->>L: get_task_result
        L-->>C: result
    else it needs input from a model or user
        S->>L: elicitation/create
        L-->>C: taskId, waiting_for_input true
        C->>L: respond_to_elicitation
        L-->>S: answer
        S-->>L: result
        L-->>C: result, in the reply to respond_to_elicitation
    else the client cancels
        C->>L: notifications/cancelled
        L->>S: notifications/cancelled
    end",
    ),
    (
        "entity_relationships",
        "What a session remembers",
        "erDiagram
    PRINCIPAL ||--o{ SESSION : has
    PRINCIPAL ||--o{ SERVER : defines
    SESSION ||--o{ CONNECTION : opens
    SERVER ||--o{ CONNECTION : serves
    SESSION ||--o{ EVENT : logs
    SESSION ||--o{ TIMER : sets
    CONNECTION ||--o{ TASK : runs
    CONNECTION ||--o{ ELICITATION : asks
    CONNECTION ||--o{ SAMPLING_REQUEST : asks
    CONNECTION ||--o{ SUBSCRIPTION : keeps
    CONNECTION ||--o{ LOG_ROW : writes
    TASK ||--o{ EVENT : causes
    ELICITATION ||--o{ EVENT : causes
    SAMPLING_REQUEST ||--o{ EVENT : causes
    TIMER ||--o{ EVENT : causes",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_diagrams_are_read_where_they_are_listed() {
        let listed: serde_json::Value = listed().read().unwrap();
        let uri = listed["resources"][0]["uri"].as_str().unwrap();
        let read: serde_json::Value = read(uri).unwrap().read().unwrap();
        let text: serde_json::Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
        let rows = text["diagrams"].as_array().unwrap();
        let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        let want = ["proxy_task_states", "pending_elicitation_states", "pending_sampling_states"];
        assert_eq!(names, [&want[..], &["tool_call_lifecycle", "entity_relationships"]].concat());
        assert!(rows.iter().all(|row| row["mermaid"].as_str().unwrap().lines().count() > 5));
        assert!(super::read("landbridge://other").is_none());
    }
}

//! Questions of servers: nobody is left to take the answer when the process that was asked has ended.

use std::time::Instant;

use serde_json::{Value, json};

use crate::world::{Desk, End, Keep, PATIENCE, STRICT, World, one};

/// One kind of question, and the words for it.
struct Kind {
    tool: &'static str,
    /// Its name in events and in the counts of what waits.
    name: &'static str,
    list: &'static str,
    answer: &'static str,
}

const ELICIT: Kind =
    Kind { tool: "elicit", name: "elicitation", list: "get_elicitations", answer: "respond_to_elicitation" };
const SAMPLE: Kind =
    Kind { tool: "sample", name: "sampling", list: "get_sampling_requests", answer: "respond_to_sampling" };

impl Kind {
    fn reply(&self, request: &Value, word: &str) -> Value {
        match self.name {
            "elicitation" => json!({ "request_id": request, "action": "accept", "content": { "name": word } }),
            _ => json!({ "request_id": request, "role": "assistant", "content": word, "model": "m" }),
        }
    }

    /// Has the server ask while somebody waits for activity; gives the request and the task that waits for it.
    async fn ask(&self, desk: &mut Desk) -> (Value, Value) {
        let request = format!("{}_request", self.name);
        let known = desk.of(&request).len();
        let waiting = desk.client.start("await_activity", json!({ "timeout_ms": 20_000 })).await;
        let reply = desk.ok("execute_tool", json!({ "server": "one", "tool": self.tool })).await;
        let task = reply.objects().find_map(|(_, body)| body["task"]["taskId"].as_str().map(str::to_owned));
        desk.wait(waiting).await;
        desk.until(&request, known + 1).await;
        let rows = desk.ok(self.list, json!({})).await.json();
        assert_eq!(rows.as_array().map(Vec::len), Some(1), "{rows}");
        let id = rows[0]["requestId"].clone();
        assert_eq!(desk.about(&request, &id).len(), 1, "{:#?}", desk.told);
        (id, json!(task.unwrap_or_else(|| panic!("no task: {reply}"))))
    }

    /// How many questions every reply says are open, whatever was asked for.
    async fn open(&self, desk: &mut Desk) -> u64 {
        let mut told = Vec::new();
        for tool in ["list_servers", "list_tools", "list_tasks", "list_timers", "get_logs", self.list] {
            let reply = desk.ok(tool, json!({})).await;
            let count = reply.context().and_then(|context| context["pending_client"][self.name].as_u64());
            told.push(count.unwrap_or(0));
        }
        assert!(told.windows(2).all(|two| two[0] == two[1]), "every reply says the same: {told:?}");
        told[0]
    }
}

async fn questions_expire(keep: Keep, kind: Kind, how: End) {
    let flags = [STRICT, &["--drain-timeout", "200ms"]].concat();
    let mut world = World::start(keep, one(), &flags).await;
    let mut desk = world.desk().await;
    let (request, task) = kind.ask(&mut desk).await;
    assert_eq!(kind.open(&mut desk).await, 1, "every reply says so");
    world.restart(how).await;

    assert_eq!(desk.ok(kind.list, json!({})).await.json(), json!([]), "nobody asks any more");
    assert_eq!(kind.open(&mut desk).await, 0);
    let late = desk.call(kind.answer, kind.reply(&request, "late")).await;
    assert_eq!(late.code(), "REQUEST_NOT_FOUND", "{late}");
    desk.drain().await;
    let expired = desk.about(&format!("{}_expired", kind.name), &request);
    assert_eq!(expired.len(), 1, "{:#?}", desk.told);
    assert_eq!(expired[0]["data"]["cause"], "node_lost", "{expired:?}");
    assert_eq!(desk.about("task_failed", &task).len(), 1, "{:#?}", desk.told);

    // The next question is answered as ever.
    let (request, task) = kind.ask(&mut desk).await;
    assert_eq!(kind.open(&mut desk).await, 1);
    if kind.name == "elicitation" {
        let wrong = json!({ "request_id": request, "action": "accept", "content": { "name": 5 } });
        assert!(desk.call(kind.answer, wrong).await.is_error(), "not what was asked for");
        assert_eq!(kind.open(&mut desk).await, 1, "it still waits");
    }
    desk.ok(kind.answer, kind.reply(&request, "Ada Lovelace")).await;
    let result = desk.ok("get_task_result", json!({ "task_id": task, "timeout_ms": 10_000 })).await;
    assert!(result.text().contains("Ada Lovelace"), "{result}");
    let start = Instant::now();
    while kind.open(&mut desk).await != 0 {
        assert!(start.elapsed() < PATIENCE, "it is answered");
    }
    world.restart(End::Stop).await;
    desk.drain().await;
    assert_eq!(desk.of(&format!("{}_expired", kind.name)).len(), 1, "an answered one does not: {:#?}", desk.told);
    if kind.name == "elicitation" {
        for action in ["decline", "cancel"] {
            let (request, task) = kind.ask(&mut desk).await;
            desk.ok(kind.answer, json!({ "request_id": request, "action": action })).await;
            let result = desk.ok("get_task_result", json!({ "task_id": task, "timeout_ms": 10_000 })).await;
            assert!(result.text().contains(action), "{result}");
        }
    }
}

#[tokio::test]
async fn an_elicitation_expires_with_its_process_and_the_next_is_answered_on_disk() {
    questions_expire(Keep::Disk, ELICIT, End::Kill).await;
}

#[tokio::test]
async fn an_elicitation_expires_with_its_process_and_the_next_is_answered_on_valkey() {
    questions_expire(Keep::Valkey, ELICIT, End::Kill).await;
}

#[tokio::test]
async fn a_sampling_request_expires_with_its_process_and_the_next_is_answered_on_disk() {
    questions_expire(Keep::Disk, SAMPLE, End::Stop).await;
}

#[tokio::test]
async fn a_sampling_request_expires_with_its_process_and_the_next_is_answered_on_valkey() {
    questions_expire(Keep::Valkey, SAMPLE, End::Stop).await;
}

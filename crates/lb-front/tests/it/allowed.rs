//! What a token may not do is not done, whatever the session may.

use std::sync::Arc;

use bytes::Bytes;
use lb_exchange::{Aim, Mount, Principal, Rights, ServerName, Verdict, Visitor};
use lb_front::{Headers, Reply};
use lb_testkit::result;
use serde_json::{Value, json};

use crate::desk::*;

/// A token that may read everything, call what begins with `may`, and never gets to what begins with `never`.
#[derive(Debug)]
struct Reader;

impl Rights for Reader {
    fn decide(&self, method: &str, aim: Aim<'_>) -> Verdict {
        let (server, tool) = match aim {
            Aim::Own { tool } => ("", tool),
            Aim::Server { server, tool } => (server, tool),
        };
        match (method, tool) {
            ("tools/call", Some(tool)) if tool.starts_with("never") => Verdict::Deny,
            ("tools/call", Some(tool)) if tool.starts_with("may") => Verdict::Allow,
            ("tools/call", _) if server.is_empty() => Verdict::StepUp("mcp:call".into()),
            ("tools/call", _) => Verdict::StepUp(format!("server:{server}")),
            ("odd/method", _) => Verdict::StepUp("mcp:odd".into()),
            _ => Verdict::Allow,
        }
    }

    fn is_admin(&self) -> bool {
        false
    }
}

/// A token that may nothing.
#[derive(Debug)]
struct Nothing;

impl Rights for Nothing {
    fn decide(&self, _: &str, _: Aim<'_>) -> Verdict {
        Verdict::StepUp("mcp:read".into())
    }

    fn is_admin(&self) -> bool {
        false
    }
}

fn ann(rights: Option<Arc<dyn Rights>>) -> Visitor {
    Visitor { client: Some("editor".into()), rights, ..Visitor::of(Principal::named("ann")) }
}

fn reader() -> Visitor {
    ann(Some(Arc::new(Reader)))
}

fn server() -> Mount {
    Mount::Server(ServerName::parse("one").expect("a name"))
}

/// The id and the scopes of a refusal, and its body.
fn forbidden(reply: Reply) -> (Option<String>, Option<String>, Value) {
    let Reply::Forbidden { id, scopes, body } = reply else { panic!("{reply:?}") };
    let id = id.map(|id| id.to_raw().as_str().to_owned());
    (id, scopes, serde_json::from_slice(&body).expect("JSON"))
}

fn modern(id: u64, tool: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(id, "tools/call", json!({ "name": tool, "_meta": meta })).to_string()
}

#[tokio::test(start_paused = true)]
async fn a_call_without_the_scope_is_refused_before_anything_is_done_and_says_what_it_needs() {
    let middle = middle();
    middle.on("work", |_, _| async { result(&json!({})) });
    for (mount, scope) in [(Mount::Default, "mcp:call"), (server(), "server:one")] {
        let client = Client { visitor: reader(), mount, ..Client::new(front(&middle)) };
        let headers = Headers {
            version: Some(b"2026-07-28"),
            method: Some(b"tools/call"),
            name: Some(b"work"),
            ..client.headers()
        };
        let reply = client.post_with(headers, &modern(6, "work")).await;
        assert_eq!(forbidden(reply).1.as_deref(), Some(scope), "a modern client");
        let client = client.seat("2025-11-25", json!({})).await;
        let (id, scopes, body) = forbidden(client.call(7, "work").await);
        assert_eq!((id.as_deref(), scopes.as_deref()), (Some("7"), Some(scope)));
        assert_eq!((&body["id"], &body["error"]["data"]["scope"]), (&json!(7), &json!(scope)), "{body}");
        let (_, scopes, body) = forbidden(client.call(8, "never_this").await);
        assert_eq!((scopes, &body["error"]["data"]["reason"]), (None, &json!("access_denied")));
        assert_eq!(json_of(client.call(9, "may_this").await).0, 200);
    }
    assert_eq!(middle.log().iter().filter(|line| line.starts_with("open work")).count(), 0, "{:?}", middle.log());
}

#[tokio::test(start_paused = true)]
async fn rights_are_those_of_the_request_and_never_of_the_session() {
    let client = Client::seated_as(front(&middle()), reader(), "2025-11-25", json!({})).await;
    forbidden(client.call(1, "work").await);
    let more = Client { visitor: ann(None), ..client.clone() };
    assert_eq!(json_of(more.call(2, "work").await).0, 200, "another token of the same client");
    forbidden(client.call(3, "work").await);
    let stranger = Client { visitor: Visitor { client: Some("shell".into()), ..reader() }, ..client };
    assert_eq!(code_of(stranger.call(4, "work").await), (404, -32001), "whose it is comes before what it may do");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_may_nothing_opens_neither_session_nor_stream() {
    let middle = middle();
    let nothing = ann(Some(Arc::new(Nothing)));
    let client = Client { visitor: nothing.clone(), ..Client::new(front(&middle)) };
    forbidden(client.post(&request(1, "initialize", json!({ "protocolVersion": "2025-11-25" }))).await);
    assert_eq!(middle.seats(), 0);
    let seated = Client::seated_as(front(&middle), reader(), "2025-11-25", json!({})).await;
    let lesser = Client { visitor: nothing, ..seated.clone() };
    assert_eq!(forbidden(lesser.get(None)).1.as_deref(), Some("mcp:read"));
    forbidden(lesser.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await);
    forbidden(lesser.post(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).await);
    stream_of(seated.get(None));
    assert_eq!(json_of(lesser.front.delete(&lesser.request(lesser.headers()))).0, 200, "it may end what is its own");
}

#[tokio::test(start_paused = true)]
async fn of_a_batch_with_one_call_too_many_nothing_is_done() {
    let middle = middle();
    middle.on("may_work", |_, _| async { result(&json!({})) });
    let client = Client { visitor: reader(), mount: server(), ..Client::new(front(&middle)) };
    let client = client.seat("2025-03-26", json!({})).await;
    let batch = json!([tool_call(1, "may_work"), tool_call(2, "work"), request(3, "odd/method", json!({}))]);
    let (id, scopes, _) = forbidden(client.post(&batch).await);
    assert_eq!((id, scopes.as_deref()), (None, Some("server:one mcp:odd")));
    assert!(!middle.log().iter().any(|line| line.starts_with("open")), "{:?}", middle.log());
}

#[tokio::test(start_paused = true)]
async fn a_list_of_tools_leaves_out_what_may_never_be_called() {
    let middle = middle();
    middle.on("tools/list", |_, _| async {
        let tool = |name: &str| json!({ "name": name, "n": 1.5 });
        result(&json!({ "tools": [tool("may_a"), tool("never_b"), tool("c")], "nextCursor": "x" }))
    });
    let client = Client { visitor: reader(), mount: server(), ..Client::new(front(&middle)) };
    let client = client.seat("2025-11-25", json!({})).await;
    let list = request(1, "tools/list", json!({}));
    let (_, body) = json_of(client.post(&list).await);
    let names: Vec<&str> =
        body["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!((names, &body["result"]["nextCursor"]), (vec!["may_a", "c"], &json!("x")), "more scopes allow the last");
    let (_, all) = json_of(Client { visitor: ann(None), ..client }.post(&list).await);
    assert_eq!(all["result"]["tools"].as_array().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn on_a_connection_a_refusal_is_an_error() {
    let middle = middle();
    let mut connection = front(&middle).connection(reader(), Mount::Default);
    let mut say = async |line: Value| {
        connection.take_line(Bytes::from(line.to_string()));
        let outgoing = connection.next_line().await.expect("a line");
        serde_json::from_slice::<Value>(outgoing.line.as_bytes()).unwrap()
    };
    say(request(0, "initialize", json!({ "protocolVersion": "2025-03-26" }))).await;
    let refused = say(tool_call(1, "work")).await;
    assert_eq!((&refused["id"], &refused["error"]["data"]["scope"]), (&json!(1), &json!("mcp:call")), "{refused}");
    assert_eq!(say(tool_call(2, "may_work")).await["result"]["method"], "tools/call");
    let refused = say(json!([tool_call(3, "may_work"), tool_call(4, "work")])).await;
    assert_eq!(refused["error"]["data"]["scope"], "mcp:call", "{refused}");
}

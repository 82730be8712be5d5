//! Calls to modern servers.

use lb_exchange::Resume;
use lb_wire::param::ToolParams;
use serde_json::json;

use super::script::Script;
use super::*;

#[tokio::test]
async fn the_headers_repeat_what_the_body_says() {
    let rows: [(&str, Value, Option<&str>); 6] = [
        ("tools/call", json!({"name": "plain"}), Some("plain")),
        ("tools/call", json!({"name": "größe"}), Some("=?base64?Z3LDtsOfZQ==?=")),
        ("tools/call", json!({"name": "a\"b"}), Some("a\"b")),
        ("resources/read", json!({"uri": "file:///a b"}), Some("file:///a b")),
        ("tasks/get", json!({"taskId": "t-1"}), Some("t-1")),
        ("tools/list", json!({"name": "ignored"}), None),
    ];
    let mut server = Script::start().await;
    let connection = modern(&mut server).await;
    for (method, params, name) in rows {
        let (got, ()) = tokio::join!(end(connection.call(call(MODERN, method, &params), None)), async {
            let asked = server.next().await;
            assert_eq!(asked.header("mcp-method"), Some(method));
            assert_eq!(asked.header("mcp-name"), name, "{method} {params}");
            assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
            assert_eq!(asked.header("mcp-session-id"), None);
            assert_eq!(asked.connection, 1);
            asked.json(&asked.result(&json!({"resultType": "complete"}))).await;
        });
        assert_eq!(got, r#"result {"resultType":"complete"}"#);
    }
}

#[tokio::test]
async fn mirrored_arguments_come_from_the_client_or_from_the_list() {
    let mut server = Script::start().await;
    let connection = modern(&mut server).await;
    let params = json!({"name": "t", "arguments": {"region": "eu"}});
    let mut modern_call = call(MODERN, "tools/call", &params);
    modern_call.headers = Some(vec![("region".to_owned(), "as sent".into()), ("other".to_owned(), "kept".into())]);
    let (_, ()) = tokio::join!(end(connection.call(modern_call, None)), async {
        let asked = server.next().await;
        assert_eq!(asked.header("mcp-param-region"), Some("as sent"));
        assert_eq!(asked.header("mcp-param-other"), Some("kept"));
        asked.json(&asked.result(&json!({}))).await;
    });
    let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    let list = json!({"tools": [{"name": "t", "inputSchema": schema}]}).to_string();
    connection.intake().lists.set_params(Arc::new(ToolParams::from_tools_list(list.as_bytes())));
    for revision in [LEGACY, MODERN] {
        let (_, ()) = tokio::join!(end(connection.call(call(revision, "tools/call", &params), None)), async {
            let asked = server.next().await;
            assert_eq!(asked.header("mcp-param-region"), Some("eu"));
            asked.json(&asked.result(&json!({}))).await;
        });
    }
    assert!(connection.intake().lists.params().is_some());
    // A server that wants other headers has another list by now.
    let (_, ()) = tokio::join!(end(connection.call(call(LEGACY, "tools/call", &params), None)), async {
        let asked = server.next().await;
        let error = json!({"jsonrpc": "2.0", "id": asked.body["id"], "error": {"code": -32020, "message": "m"}});
        asked.respond("400 Bad Request", &[("content-type", "application/json")], &error.to_string()).await;
    });
    assert!(connection.intake().lists.params().is_none());
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection_and_says_nothing() {
    let mut server = Script::start().await;
    let connection = modern(&mut server).await;
    for streaming in [false, true] {
        let mut exchange = connection.call(call(MODERN, "tools/call", &json!({"name": "t"})), None);
        let asked = tokio::select! {
            _ = exchange.step() => panic!("no step yet"),
            asked = server.next() => asked,
        };
        if streaming {
            asked.stream().await;
            asked.event(None, &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})).await;
            assert!(step(&mut exchange).await.starts_with("note notifications/message"));
        }
        drop(exchange);
        server.closed(asked.connection).await;
    }
    let (_, asked) = tokio::join!(connection.request("tools/list", None), async {
        let asked = server.next().await;
        asked.json(&asked.result(&json!({}))).await;
        asked
    });
    assert_eq!(asked.body["method"], "tools/list", "nothing was said in between");
}

#[tokio::test]
async fn errors_pass_with_any_status() {
    for (status, code) in [("400 Bad Request", -32020), ("404 Not Found", -32601), ("200 OK", -32602)] {
        let mut server = Script::start().await;
        let connection = modern(&mut server).await;
        let (got, ()) =
            tokio::join!(end(connection.call(call(MODERN, "tools/call", &json!({"name": "t"})), None)), async {
                let asked = server.next().await;
                let error = json!({"jsonrpc": "2.0", "id": asked.body["id"], "error": {"code": code, "message": "m"}});
                asked.respond(status, &[("content-type", "application/json")], &error.to_string()).await;
            });
        assert_eq!(got, format!("error {code}  \"m\""));
    }
}

#[tokio::test]
async fn input_required_is_asked_of_legacy_clients_and_passes_to_modern_ones() {
    let result = json!({
        "resultType": "input_required",
        "inputRequests": {
            "k\"1": {"method": "elicitation/create", "params": {"message": "?"}},
            "k2": {"method": "roots/list"},
        },
        "requestState": "S",
    });
    for (revision, want) in [(LEGACY, 2), (MODERN, 0)] {
        let mut server = Script::start().await;
        let connection = modern(&mut server).await;
        let client = async {
            let mut exchange = connection.call(call(revision, "tools/call", &json!({"name": "t"})), None);
            let mut asks = Vec::new();
            loop {
                match exchange.step().await {
                    Step::Ask(ask) => asks.push(ask),
                    Step::End(end) => break (asks, end),
                    step => panic!("{step:?}"),
                }
            }
        };
        let ((asks, end), ()) = tokio::join!(client, async {
            let asked = server.next().await;
            asked.json(&asked.result(&result)).await;
        });
        assert_eq!(asks.len(), want, "{revision}");
        assert!(matches!(end.outcome, Outcome::Result(raw) if value(&raw) == result));
        if let Some(ask) = asks.first() {
            assert_eq!((&*ask.key.0, &*ask.method), ("k\"1", "elicitation/create"));
            let Resume::Replay { state: Some(state) } = &ask.resume else { panic!("{ask:?}") };
            assert_eq!(state.as_str(), "\"S\"");
        }
    }
}

#[tokio::test]
async fn a_listen_outlives_the_streams_that_carry_it() {
    let mut server = Script::start().await;
    let connection = modern(&mut server).await;
    let key = "io.modelcontextprotocol/subscriptionId";
    let note = |method: &str, id: &Value| json!({"jsonrpc": "2.0", "method": method, "params": {"_meta": {key: id}}});
    let ack = "notifications/subscriptions/acknowledged";
    let changed = "notifications/tools/list_changed";
    let client = async {
        let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]});
        let mut exchange =
            connection.call(call(MODERN, "subscriptions/listen", &json!({"notifications": filter})), None);
        let meta = format!(r#""_meta":{{"{key}":"c"}}"#);
        for want in [ack, changed, changed] {
            assert_eq!(step(&mut exchange).await, format!("note {want} {{{meta}}}"));
        }
        let updated = format!(r#"note notifications/resources/updated {{"uri":"file:///a",{meta}}}"#);
        assert_eq!(step(&mut exchange).await, updated);
        assert_eq!(step(&mut exchange).await, format!(r#"result {{{meta}}}"#));
    };
    let ((), ()) = tokio::join!(client, async {
        let first = server.next().await;
        let id = &first.body["id"];
        first.stream().await;
        first.event(None, &note(ack, id)).await;
        first.event(None, &note(changed, id)).await;
        first.hang_up().await;
        let second = server.next().await;
        assert_eq!(second.body, first.body);
        second.stream().await;
        second.event(None, &note(ack, id)).await;
        second.event(None, &json!({"jsonrpc": "2.0", "id": id, "result": {"_meta": {key: id}}})).await;
        second.finish().await;
    });
}

//! What a server's answer to the first request says about its era.

use serde_json::json;

use super::script::Script;
use super::*;
use crate::error::{ConnectError, EraError};

/// One scripted answer: status, media type, body. `ID` in the body is the id of the request.
type Row = (&'static str, &'static str, &'static str);

async fn verdict(era: Revision, row: Row) -> String {
    let mut server = Script::start().await;
    let endpoint = endpoint(&server);
    let connect = async {
        if era == LEGACY {
            HttpConnection::legacy(endpoint, hello(), Feed::default()).await
        } else {
            HttpConnection::modern(endpoint, None, Feed::default()).await
        }
    };
    let (got, ()) = tokio::join!(connect, async {
        let asked = server.next().await;
        let body = row.2.replace("ID", &asked.body["id"].to_string());
        asked.respond(row.0, &[("content-type", row.1)], &body).await;
    });
    match got.map(|(connection, _)| drop(connection)) {
        Ok(()) => "yes".to_owned(),
        Err(EraError::WrongEra(error) | EraError::NoPost(error)) => format!("no: {error}"),
        Err(EraError::Failed(error)) => format!("unknown: {error}"),
    }
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const SSE: &str = "text/event-stream";

#[tokio::test]
async fn what_every_answer_says() {
    let anything: &[(Row, &str)] = &[
        (("400 Bad Request", TEXT, "no session"), "no: the server answers HTTP 400: no session"),
        (("404 Not Found", TEXT, "gone"), "no: "),
        (("405 Method Not Allowed", TEXT, ""), "no: the server answers HTTP 405"),
        (("422 Unprocessable Entity", TEXT, "what"), "no: "),
        (("400 Bad Request", JSON, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"m"}}"#), "no: "),
        (("400 Bad Request", JSON, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"m"}}"#), "no: "),
        (("404 Not Found", JSON, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"m"}}"#), "no: "),
        (
            ("200 OK", JSON, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"m"}}"#),
            "no: the server refused",
        ),
        (("200 OK", SSE, "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"error\":{\"code\":1,\"message\":\"m\"}}\n\n"), "no: "),
        (("200 OK", JSON, r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#), "no: "),
        (("200 OK", "text/html", "<html>"), "no: "),
        (("202 Accepted", TEXT, ""), "no: "),
        (
            (
                "400 Bad Request",
                JSON,
                r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","supportedVersions":["2026-07-28"]}}"#,
            ),
            "no: ",
        ),
        (("401 Unauthorized", TEXT, ""), "unknown: the server answers HTTP 401: authorization required"),
        (("403 Forbidden", JSON, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"m"}}"#), "unknown: "),
        (("429 Too Many Requests", TEXT, ""), "unknown: "),
        (("500 Internal Server Error", TEXT, "oops"), "unknown: the server answers HTTP 500: oops"),
        (
            ("503 Service Unavailable", JSON, r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"m"}}"#),
            "unknown: ",
        ),
        (("301 Moved Permanently", TEXT, ""), "unknown: "),
    ];
    for (row, want) in anything {
        for era in [LEGACY, MODERN] {
            let got = verdict(era, *row).await;
            assert!(got.starts_with(want), "{era} {row:?}: {got}");
        }
    }
}

#[tokio::test]
async fn what_only_one_era_says() {
    let welcome = r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
    let odd = r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2026-07-28","capabilities":{}}}"#;
    let discovered = r#"{"jsonrpc":"2.0","id":ID,"result":{"supportedVersions":["2025-11-25","2026-07-28"]}}"#;
    let legacy_only = r#"{"jsonrpc":"2.0","id":ID,"result":{"supportedVersions":["2025-11-25"]}}"#;
    let unsupported =
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"m","data":{"supported":["2027-01-01"]}}}"#;
    let dual = r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"m","data":{"supported":["2025-11-25"]}}}"#;
    let header = r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32020,"message":"m"}}"#;
    let rows: &[(Revision, Row, &str)] = &[
        (LEGACY, ("200 OK", JSON, welcome), "yes"),
        (MODERN, ("200 OK", JSON, welcome), "no: "),
        (LEGACY, ("200 OK", JSON, odd), "no: "),
        (MODERN, ("200 OK", JSON, discovered), "yes"),
        (LEGACY, ("200 OK", JSON, discovered), "no: "),
        (MODERN, ("200 OK", JSON, legacy_only), "no: "),
        (MODERN, ("400 Bad Request", JSON, unsupported), "unknown: "),
        (MODERN, ("400 Bad Request", JSON, dual), "no: "),
        (MODERN, ("400 Bad Request", JSON, header), "no: "),
    ];
    for (era, row, want) in rows {
        let got = verdict(*era, *row).await;
        assert!(got.starts_with(want), "{era} {row:?}: {got}");
    }
}

#[tokio::test]
async fn a_server_that_names_our_revision_as_it_refuses_it_is_asked_once_more() {
    for (second, want) in [
        (json!({"result": {"supportedVersions": ["2026-07-28"]}}), true),
        (json!({"error": {"code": -32022, "message": "m", "data": {"supported": ["2026-07-28"]}}}), false),
    ] {
        let mut server = Script::start().await;
        let endpoint = endpoint(&server);
        let (got, ()) = tokio::join!(HttpConnection::modern(endpoint, None, Feed::default()), async {
            let error = json!({"code": -32022, "message": "m", "data": {"supported": ["2025-11-25", "2026-07-28"]}});
            for (status, mut answer) in [
                ("400 Bad Request", json!({"error": error})),
                (if want { "200 OK" } else { "400 Bad Request" }, second),
            ] {
                let asked = server.next().await;
                assert_eq!((&asked.body["method"], asked.method.as_str()), (&json!("server/discover"), "POST"));
                answer["jsonrpc"] = json!("2.0");
                answer["id"] = asked.body["id"].clone();
                asked.respond(status, &[("content-type", JSON)], &answer.to_string()).await;
            }
        });
        assert_eq!(got.is_ok(), want);
    }
}

#[tokio::test]
async fn a_welcome_may_come_as_an_event_among_others() {
    let mut server = Script::start().await;
    let endpoint = endpoint(&server);
    let (got, ()) = tokio::join!(HttpConnection::legacy(endpoint, hello(), Feed::default()), async {
        let asked = server.next().await;
        asked.stream().await;
        asked.piece("id: 1\ndata:\n\n").await;
        asked.event(None, &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})).await;
        let result = json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": {"protocolVersion": "2025-11-25"}});
        asked.event(Some("2"), &result).await;
        asked.finish().await;
    });
    let (_connection, welcome) = got.unwrap();
    assert_eq!(value(&welcome), json!({"protocolVersion": "2025-11-25"}));
}

#[tokio::test]
async fn a_server_that_hangs_up_proves_nothing() {
    let mut server = Script::start().await;
    let endpoint = endpoint(&server);
    let (got, ()) = tokio::join!(HttpConnection::modern(endpoint, None, Feed::default()), async {
        server.next().await.hang_up().await;
    });
    assert!(matches!(got.err().unwrap(), EraError::Failed(ConnectError::Unreachable { .. })));
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_after_30_s_or_its_own_time() {
    for (given, passes) in [(None, 31), (Some(std::time::Duration::from_secs(2)), 3)] {
        let mut server = Script::start().await;
        let endpoint = Endpoint::new("it", &server.url(), &[], Tasks::default()).unwrap();
        let endpoint = match given {
            Some(time) => endpoint.answering_within(time),
            None => endpoint,
        };
        let connect = HttpConnection::legacy(Arc::new(endpoint), hello(), Feed::default());
        let (got, ()) = tokio::join!(connect, async {
            let _asked = server.next().await;
            tokio::time::pause();
            tokio::time::advance(std::time::Duration::from_secs(passes)).await;
            tokio::time::resume();
        });
        let EraError::Failed(ConnectError::Timeout(after)) = got.err().unwrap() else { panic!("another error") };
        assert_eq!(after, given.unwrap_or(std::time::Duration::from_secs(30)));
    }
}

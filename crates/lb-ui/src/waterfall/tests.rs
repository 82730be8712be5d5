//! What is at which path, and what it looks like.

use std::time::Duration;

use lb_gateway::Kind;
use lb_wire::Raw;
use serde_json::{Value, json};

use super::*;

fn at(ms: u64) -> Moment {
    Moment { up: Duration::from_millis(ms), unix: Duration::from_millis(1_767_225_600_000 + ms) }
}

fn waterfall(tracker: &Tracker) -> Waterfall {
    Waterfall::new(tracker.clone(), Arc::new(|| at(9_000)))
}

fn json_at(waterfall: &Waterfall, query: Option<&str>) -> Value {
    let page = waterfall.page("/waterfall/json", query).unwrap();
    assert_eq!((page.status, page.content_type), (200, "application/json"));
    serde_json::from_slice(&page.body).unwrap()
}

#[test]
fn the_json_has_the_shape_that_was_promised() {
    let tracker = Tracker::new(true);
    let args = Raw::from_static(r#"{"path":"/tmp"}"#);
    let done = tracker.begin("aa11bb22cc33", Kind::BackendTool, "read", Some("files"), Some(&args), at(0));
    done.completed(Some("1 text block".into()), at(12).plus(Duration::from_micros(345)));
    tracker.begin("dd44ee55ff66", Kind::PromptGet, "greet", None, None, at(50)).failed("no such prompt", at(51));
    let _running = tracker.begin("dd44ee55ff66", Kind::ToolCall, "slow", None, None, at(60));
    let types = json!({
        "tool_call": 1, "resource_read": 0, "prompt_get": 1, "backend_tool": 1, "backend_resource": 0,
        "backend_prompt": 0, "codemode_search": 0, "codemode_execute": 0,
    });
    let want = json!({
        "stats": {
            "totalRequests": 3,
            "sessionCount": 2,
            "byStatus": { "pending": 1, "completed": 1, "failed": 1, "timeout": 0 },
            "byType": types,
        },
        "sessions": {
            "aa11bb22cc33": [{
                "requestId": "1", "sessionId": "aa11bb22cc33", "type": "backend_tool", "name": "read",
                "server": "files", "args": "{\"path\":\"/tmp\"}", "status": "completed",
                "startedAt": "2026-01-01T00:00:00.000Z", "endedAt": "2026-01-01T00:00:00.012Z",
                "durationMs": 12.345, "resultSummary": "1 text block",
            }],
            "dd44ee55ff66": [
                {
                    "requestId": "2", "sessionId": "dd44ee55ff66", "type": "prompt_get", "name": "greet",
                    "status": "failed", "startedAt": "2026-01-01T00:00:00.050Z",
                    "endedAt": "2026-01-01T00:00:00.051Z", "durationMs": 1.0, "error": "no such prompt",
                },
                {
                    "requestId": "3", "sessionId": "dd44ee55ff66", "type": "tool_call", "name": "slow",
                    "status": "pending", "startedAt": "2026-01-01T00:00:00.060Z",
                },
            ],
        },
        "generatedAt": "2026-01-01T00:00:09.000Z",
    });
    assert_eq!(json_at(&waterfall(&tracker), None), want);
}

#[test]
fn one_session_can_be_asked_for() {
    let tracker = Tracker::new(false);
    for session in ["aa", "bb", "bb"] {
        tracker.begin(session, Kind::ToolCall, "t", None, None, at(0)).completed(None, at(1));
    }
    let waterfall = waterfall(&tracker);
    for (query, want) in [
        (None, 3),
        (Some(""), 3),
        (Some("session="), 3),
        (Some("session=aa"), 1),
        (Some("x=1&session=bb"), 2),
        (Some("session=%00"), 0),
        (Some("xsession=aa"), 3),
    ] {
        let json = json_at(&waterfall, query);
        assert_eq!(json["stats"]["totalRequests"], want, "query {query:?}");
    }
}

#[test]
fn only_its_own_paths_are_answered() {
    let waterfall = waterfall(&Tracker::new(false));
    for (path, want) in [
        ("/waterfall", true),
        ("/waterfall/", true),
        ("/waterfall/json", true),
        ("/waterfall/json/", false),
        ("/waterfalls", false),
        ("/waterfall//", false),
        ("/", false),
        ("", false),
    ] {
        assert_eq!(waterfall.page(path, None).is_some(), want, "path {path:?}");
    }
}

#[test]
fn the_page_holds_one_script_and_one_style_and_its_policy_names_their_hashes() {
    let page = waterfall(&Tracker::new(false)).page("/waterfall", None).unwrap();
    let html = std::str::from_utf8(&page.body).unwrap();
    for (open, close) in [("<script>", "</script>"), ("<style>", "</style>")] {
        assert_eq!((html.matches(open).count(), html.matches(close).count()), (1, 1), "{open}");
        let inside = html.split_once(open).unwrap().1.split_once(close).unwrap().0;
        let hash = format!("'sha256-{}'", STANDARD.encode(Sha256::digest(inside)));
        assert!(page.content_security_policy.contains(&hash), "{open} {}", page.content_security_policy);
    }
    for refused in ["unsafe-inline", "unsafe-eval", "unsafe-hashes", "*"] {
        assert!(!page.content_security_policy.contains(refused), "{refused}");
    }
    for refused in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " onclick=", " style="] {
        assert!(!html.contains(refused), "{refused} in the page");
    }
}

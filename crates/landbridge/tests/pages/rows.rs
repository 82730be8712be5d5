//! What the waterfall is filled with.

use std::time::Duration;

use lb_gateway::{Kind, Moment, Tracked, Tracker};
use lb_wire::Raw;
use serde_json::json;

use crate::browser::now;

/// Texts that try to be more than texts. Each one sets `__pwned` or opens a dialog if it is run.
const HOSTILE: &[&str] = &[
    "<script>window.__pwned=1</script>",
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror=\"window.__pwned=1\">",
    "'><svg onload=alert(1)>",
    "<img src=x onerror=alert(1)>",
    "<iframe srcdoc=\"<script>parent.__pwned=1</script>\"></iframe>",
    "javascript:window.__pwned=1",
    "<a href=\"javascript:alert(1)\">click</a>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<style>@import 'http://127.0.0.1:9/x';*{display:none!important}</style>",
    "</style><script>alert(1)</script>",
    "--></title></textarea><script>alert(1)</script><!--",
    "<link rel=stylesheet href=http://127.0.0.1:9/x>",
    "<meta http-equiv=refresh content=\"0;url=javascript:alert(1)\">",
    "<base href=http://127.0.0.1:9/>",
    "<form action=http://127.0.0.1:9/><button autofocus>x</button></form>",
    "<object data=javascript:alert(1)>",
    "<math><mtext></mtext><script>alert(1)</script></math>",
    "<template><script>alert(1)</script></template>",
    "{{constructor.constructor('alert(1)')()}}",
    "${window.__pwned=1}",
    "`;window.__pwned=1;//",
    "\\\";window.__pwned=1;//",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "line\u{2028}separator\u{2029}alert(1)",
    "right \u{202e}tfel ot\u{202c} \u{200f}mark",
    "nul\u{0}byte\u{7f}\u{1b}[31m",
    "__proto__",
    "constructor",
    "\u{feff}bom \u{d7ff}\u{e000}\u{10ffff}",
];

/// Hostile texts in every field, one row for each and one session for some.
pub fn hostile(tracker: &Tracker) -> Vec<Tracked> {
    let long = "<script>window.__pwned=1</script>".repeat(320);
    let mut running = Vec::new();
    for (at, text) in HOSTILE.iter().copied().chain([long.as_str()]).enumerate() {
        let session = if at % 4 == 0 { text } else { "0a1b2c3d4e5f" };
        let args = Raw::value(&json!({ text: text, "list": [text] }));
        let row = tracker.begin(session, Kind::ALL[at % 8], text, Some(text), Some(&args), now());
        match at % 3 {
            0 => row.failed(text, now()),
            1 => row.completed(Some(text.into()), now()),
            _ => running.push(row),
        }
    }
    running
}

/// Two sessions such as people have them.
pub fn ordinary(tracker: &Tracker) -> Vec<Tracked> {
    let origin = now();
    let past = |ms: u64| Moment { up: origin.up, unix: origin.unix.saturating_sub(Duration::from_millis(9_000 - ms)) };
    let row = |session: &str, kind, name: &str, server, args: Option<Raw>, from: u64| {
        let mut began = past(from);
        // Only differences count on this clock.
        began.up = Duration::from_millis(from);
        tracker.begin(session, kind, name, server, args.as_ref(), began)
    };
    let at = |ms: u64| Moment { up: Duration::from_millis(ms), ..origin };
    let (one, two) = ("0a1b2c3d4e5f", "9f8e7d6c5b4a");
    let text = |path: &str| Some(Raw::value(&json!({ "path": path, "api_key": "abc" })));
    row(two, Kind::ToolCall, "list_servers", None, None, 0).completed(Some("3 servers".into()), at(4));
    row(two, Kind::BackendPrompt, "review_code", Some("github"), None, 150).completed(None, at(410));
    row(two, Kind::CodemodeSearch, "files by name", None, None, 900).completed(Some("4 tools".into()), at(1_020));
    row(two, Kind::CodemodeExecute, "rename and commit", None, None, 1_400).completed(Some("ok".into()), at(4_300));
    row(two, Kind::BackendTool, "create_pull_request", Some("github"), text("landbridge"), 4_500)
        .failed("the server answered -32000: the branch has no commits of its own", at(5_900));
    row(one, Kind::BackendTool, "list_directory", Some("files"), text("/srv"), 300).completed(None, at(312));
    row(one, Kind::BackendTool, "read_text_file", Some("files"), text("/srv/notes.md"), 700)
        .completed(Some("1 text block, 2.1 kB".into()), at(733));
    row(one, Kind::BackendResource, "file:///srv/projects/landbridge/docs/ARCHITECTURE.md", Some("files"), None, 1_600)
        .completed(None, at(2_250));
    row(one, Kind::ResourceRead, "landbridge://servers", None, None, 2_900).completed(None, at(2_901));
    row(one, Kind::PromptGet, "explain_gateway", None, None, 3_200).completed(None, at(3_290));
    row(one, Kind::BackendTool, "search", Some("web"), text("mcp gateway"), 3_800).completed(None, at(6_100));
    let mut promoted = row(one, Kind::BackendTool, "run_long_analysis", Some("data"), None, 4_200);
    promoted.promoted(at(7_200));
    row(one, Kind::BackendTool, "fetch", Some("web"), text("https://example.com"), 6_300)
        .failed("the server took longer than 1 s", at(7_300));
    let pending = row(one, Kind::BackendTool, "query_database", Some("data"), text("select 1"), 7_600);
    vec![promoted, pending]
}

/// As many rows as are kept.
pub fn thousand(tracker: &Tracker) -> Vec<Tracked> {
    for n in 0..1_000_u64 {
        let began =
            Moment { up: Duration::from_millis(n * 10), unix: now().unix - Duration::from_millis(10_000 - n * 10) };
        let row = tracker.begin(
            &format!("session{}", n / 100),
            Kind::BackendTool,
            &format!("tool{n}"),
            Some("files"),
            None,
            began,
        );
        row.completed(None, began.plus(Duration::from_millis(n % 700)));
    }
    Vec::new()
}

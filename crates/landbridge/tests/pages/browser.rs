//! A gateway with a waterfall, and a browser that looks at it.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lb_exchange::Tasks;
use lb_front::Front;
use lb_gateway::{Kind, Moment, Tracked, Tracker};
use lb_http::{Page, Pages, Settings};
use lb_peers::installed;
use lb_session::streams::SharedStreams;
use lb_testkit::ScriptedMiddle;
use lb_ui::Waterfall;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;

/// How long one look may take; a browser starts slowly on a busy machine.
const LOOK_MAX: Duration = Duration::from_secs(90);
/// Where Debian puts the browser.
const BROWSER: &str = "/usr/bin/chromium-headless-shell";

/// Does one of the functions of `browser.mjs`, over rows that were filled in; those that still run are held meanwhile.
pub async fn browse(step: &str, fill: impl FnOnce(&Tracker) -> Vec<Tracked>) {
    let tracker = Tracker::new(true);
    let mut running = fill(&tracker);
    let tasks = Tasks::default();
    let url = serve(&tracker, &tasks).await;
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("waterfall");
    std::fs::create_dir_all(&pictures).expect("a folder for pictures");
    assert!(std::path::Path::new(BROWSER).exists(), "{BROWSER} is not there: run `cargo xtask peers`");
    let expected: Vec<_> = tracker.snapshot(None).into_iter().map(|row| row.name).collect();
    let mut browser = Command::new(installed::node())
        .arg(format!("{}/tests/pages/browser.mjs", env!("CARGO_MANIFEST_DIR")))
        .arg(installed::file("playwright", "node_modules/playwright-core/index.mjs"))
        .args([BROWSER, step, &url])
        .arg(&pictures)
        .env("EXPECTED", serde_json::to_string(&expected).expect("names are JSON"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("node starts");
    let mut lines = BufReader::new(browser.stdout.take().expect("stdout is piped")).lines();
    let look = async {
        while let Some(line) = lines.next_line().await.expect("text") {
            eprintln!("{line}");
            obey(&line, &tracker, &mut running);
        }
        browser.wait().await.expect("the browser's end")
    };
    let ended = tokio::time::timeout(LOOK_MAX, look).await.expect("the browser is done in time");
    assert!(ended.success(), "{step}: {ended}; what went wrong is on stderr");
}

/// A line such as `begin NAME`, `end` or `fail` changes the rows, everything else is for people.
fn obey(line: &str, tracker: &Tracker, running: &mut Vec<Tracked>) {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("begin", name) => {
            running.push(tracker.begin("0a1b2c3d4e5f", Kind::BackendTool, name, Some("files"), None, now()));
        }
        ("end", _) => running.pop().expect("something runs").completed(Some("1 text block".into()), now()),
        ("fail", error) => running.pop().expect("something runs").failed(error, now()),
        _ => {}
    }
}

async fn serve(tracker: &Tracker, tasks: &Tasks) -> String {
    let waterfall = Waterfall::new(tracker.clone(), Arc::new(now));
    let source = move |path: &str, query: Option<&str>| {
        let page = waterfall.page(path, query)?;
        let lb_ui::Page { status, content_type, body, content_security_policy } = page;
        Some(Page { status, content_type, body, content_security_policy })
    };
    let pages = Pages { path: Waterfall::PATH, source: Arc::new(source) };
    let settings = Settings { pages: vec![pages], ..Settings::default() };
    let middle = ScriptedMiddle::new(|| Arc::new(SharedStreams::default()));
    let front = Arc::new(Front::new(middle, lb_front::Settings::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/waterfall", listener.local_addr().expect("an address"));
    tasks.spawn(lb_http::serve(listener, front, settings, tasks.clone(), std::future::pending()));
    url
}

/// The time, with a clock that started when it was first asked.
pub fn now() -> Moment {
    static STARTED: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let up = STARTED.get_or_init(Instant::now).elapsed();
    Moment { up, unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() }
}

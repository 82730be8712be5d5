//! Bad lines on stdin.

use std::collections::BTreeMap;
use std::time::Duration;

use lb_peers::harness::{config, peer};
use lb_peers::raw::RawStdio;
use lb_peers::raw::http::initialize_request;
use lb_soak::malformed::judge::{Kind, answer, id_of};
use lb_testkit::generate::Rng;
use serde_json::json;
use tokio::process::Command;

use crate::world::{LANDBRIDGE, PATIENCE, assert_calm, rss};

const SEED: u64 = 0x571D;
const LINE_BYTES_MAX: usize = 16 << 20;

/// `landbridge stdio` with the fixture as its child.
struct Desk {
    stdio: RawStdio,
    _folder: tempfile::TempDir,
}

impl Desk {
    async fn open(version: &str) -> Self {
        let mut desk = Self::unopened();
        desk.stdio.patience = PATIENCE;
        let hello = desk.stdio.ask(&initialize_request("\"hello\"", version)).await.expect("an answer");
        assert!(hello.contains(&format!(r#""protocolVersion":"{version}""#)), "{hello}");
        desk.stdio.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await.expect("sent");
        desk
    }

    fn unopened() -> Self {
        let (folder, file) = config(&json!({ "it": { "command": peer(LANDBRIDGE, "fixture") } }));
        let mut command = Command::new(LANDBRIDGE);
        command.args(["stdio", "--surface", "server", "--config"]).arg(file);
        Self { stdio: RawStdio::spawn(command).expect("it starts"), _folder: folder }
    }

    /// Every line up to the answer to a ping, without it.
    async fn until_ping(&mut self, n: u64) -> Vec<String> {
        let ping = format!(r#"{{"jsonrpc":"2.0","id":"ping-{n}","method":"ping"}}"#);
        self.stdio.send(ping.as_bytes()).await.expect("it still reads");
        let want = format!(r#"{{"jsonrpc":"2.0","id":"ping-{n}","result":{{}}}}"#);
        let mut lines = Vec::new();
        loop {
            match self.stdio.text().await {
                Ok(line) if line == want => return lines,
                Ok(line) => lines.push(line),
                Err(error) => panic!("{error} instead of the answer to a ping; before it {lines:?}"),
            }
        }
    }

    /// A call to the child is answered.
    async fn works(&mut self) {
        let call = r#"{"jsonrpc":"2.0","id":"good","method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"}}}"#;
        self.stdio.send(call.as_bytes()).await.expect("it still reads");
        let want = r#"{"jsonrpc":"2.0","id":"good","result":{"content":[{"type":"text","text":"hi"}]}}"#;
        loop {
            let line = self.stdio.text().await.expect("a good call is answered");
            if line == want {
                return;
            }
            assert!(line.contains("\"method\":"), "another answer: {line}");
        }
    }

    /// Ends stdin, and checks how the process ends.
    async fn end(mut self) {
        self.works().await;
        self.stdio.close_stdin();
        self.gone().await;
    }

    async fn gone(&mut self) {
        while self.stdio.line().await.expect("stdout ends").is_some() {}
        let status = self.stdio.wait().await.expect("it ends");
        let mut said = String::new();
        while let Some(line) = self.stdio.stderr_line().await.expect("stderr ends") {
            said.push_str(&line);
        }
        assert_calm(&said);
        assert_eq!(status.code(), Some(0), "stderr: {said}");
    }
}

/// A server that cannot read a line cannot say whose it was. The caller once waited for its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_cannot_read_is_answered_under_its_own_id() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let odd = [r#""\ud800""#, "1e400", r#"{"\udc00":1}"#, &deep];
    let call = |id: &str, message: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":"echo","arguments":{{"message":{message}}}}}}}"#
        )
    };
    let refused = |line: &str, id: &str| {
        let want = format!(r#"{{"jsonrpc":"2.0","id":"{id}","error":{{"code":-32700,"#);
        assert!(line.starts_with(&want), "{line}");
    };
    let mut desk = Desk::open("2025-11-25").await;
    for message in odd {
        refused(&desk.stdio.ask(&call("odd", message)).await.expect("an answer"), "odd");
        desk.works().await;
    }
    // Several at once, and good ones between them, which are all answered as ever.
    let messages: Vec<&str> = (0..40).map(|n| if n % 3 == 0 { odd[n % 4] } else { r#""hi""# }).collect();
    for (n, message) in messages.iter().enumerate() {
        desk.stdio.send(call(&n.to_string(), message).as_bytes()).await.expect("sent");
    }
    let mut answers = BTreeMap::new();
    for _ in &messages {
        let line = desk.stdio.text().await.expect("an answer");
        answers.insert(id_of(line.as_bytes()).expect("an id"), line);
    }
    for (n, message) in messages.iter().enumerate() {
        let line = answers.get(&format!("\"{n}\"")).unwrap_or_else(|| panic!("no answer to {n}: {answers:?}"));
        match *message {
            r#""hi""# => assert!(line.ends_with(r#""result":{"content":[{"type":"text","text":"hi"}]}}"#), "{line}"),
            _ => refused(line, &n.to_string()),
        }
    }
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_with_carriage_returns_and_empty_lines_are_taken() {
    let mut desk = Desk::open("2025-11-25").await;
    desk.stdio.send_raw(b"\n\r\n  \r\n\t\n\n").await.expect("sent");
    assert!(desk.until_ping(1).await.is_empty());
    let crlf = desk.stdio.ask("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\r").await.expect("an answer");
    assert_eq!(crlf, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    // Two messages on one line are one bad line; a line in two pieces is a good one.
    let twice = desk.stdio.ask(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}{"jsonrpc":"2.0","id":4,"method":"ping"}"#);
    assert!(twice.await.expect("an answer").contains("-32700"));
    desk.stdio.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":5,").await.expect("sent");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let pieces = desk.stdio.ask("\"method\":\"ping\"}").await.expect("an answer");
    assert_eq!(pieces, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_over_sixteen_mebibytes_is_refused_with_its_id() {
    let mut desk = Desk::open("2025-11-25").await;
    let pid = desk.stdio.pid().expect("it runs");
    for (n, over) in [(1, 1), (2, 1 << 20), (3, 48 << 20)] {
        let start = format!(r#"{{"jsonrpc":"2.0","id":"long-{n}","method":"ping","params":{{"x":""#);
        let mut line = start.into_bytes();
        line.resize(LINE_BYTES_MAX + over, b'x');
        desk.stdio.send(&line).await.expect("it reads on");
        let lines = desk.until_ping(n).await;
        assert_eq!(lines.len(), 1, "{lines:?}");
        let want = format!(r#"{{"jsonrpc":"2.0","id":"long-{n}","error":{{"code":-32600,"#);
        assert!(lines[0].starts_with(&want), "{lines:?}");
    }
    // The longest that fits is a good one.
    let mut line = br#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#.to_vec();
    line.resize(LINE_BYTES_MAX, b' ');
    let fits = desk.stdio.ask(&String::from_utf8(line).expect("text")).await.expect("an answer");
    assert_eq!(fits, r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
    let resident = rss(pid);
    assert!(resident < 128 * 1024, "{resident} KiB for lines of at most 16 MiB");
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_that_ends_anywhere_ends_the_process_well() {
    let hello = initialize_request("1", "2025-11-25");
    let call =
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"}}}"#;
    let whole = format!("{hello}\n{call}\n");
    for end in [0, 1, hello.len() / 2, hello.len(), hello.len() + 1, hello.len() + 40, whole.len() - 1, whole.len()] {
        let mut desk = Desk::unopened();
        desk.stdio.patience = PATIENCE;
        desk.stdio.send_raw(&whole.as_bytes()[..end]).await.expect("sent");
        desk.stdio.close_stdin();
        desk.gone().await;
    }
    for garbage in [vec![0; 100_000], vec![0xff; 100_000], b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth".to_vec()] {
        let mut desk = Desk::unopened();
        desk.stdio.patience = PATIENCE;
        desk.stdio.send_raw(&garbage).await.expect("sent");
        desk.stdio.close_stdin();
        desk.gone().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binary_garbage_is_answered_line_by_line() {
    let mut desk = Desk::open("2025-11-25").await;
    let mut rng = Rng::new(SEED);
    let garbage: Vec<u8> = (0..200_000).map(|_| rng.byte()).collect();
    let bad = garbage.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
    desk.stdio.send(&garbage).await.expect("it reads on");
    let lines = desk.until_ping(1).await;
    assert_eq!(lines.len(), bad);
    assert!(lines.iter().all(|line| answer(line.as_bytes(), None) == Ok(Kind::Error)));
    desk.end().await;
}

//! Clients that send many calls at once and keep every byte that came back.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use lb_peers::raw::RawHttp;
use lb_peers::raw::http::{Response, initialize_request, modern_headers};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::task::JoinSet;

use crate::case::{Era, Request};
use crate::json;

/// Connections of one HTTP client.
const CONNECTIONS: usize = 24;
/// Requests that are in flight at once on stdio.
const LINES: usize = 128;
/// How long any one answer may take; generous, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(40);

/// What came back for one call.
#[derive(Debug, Default)]
pub struct Answer {
    /// The id as written.
    pub id: Vec<u8>,
    /// The `result` or `error` as written.
    pub body: Vec<u8>,
    pub is_error: bool,
    /// Whether it came in a frame that ends with the line.
    pub is_line: bool,
    /// Notifications that came on the stream of this call: method and params as written.
    pub notes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Answer {
    /// Takes in one message; true when it was the response.
    fn take(&mut self, message: &[u8]) -> bool {
        let members = json::members(message);
        let find = |name: &[u8]| members.iter().find(|(found, _)| *found == name).map(|(_, value)| value.to_vec());
        if let Some(method) = find(b"method") {
            self.notes.push((method, find(b"params").unwrap_or_default()));
            return false;
        }
        self.is_error = find(b"error").is_some();
        self.id = find(b"id").unwrap_or_default();
        self.body = find(b"result").or_else(|| find(b"error")).unwrap_or_default();
        true
    }
}

/// Sends the calls to `path` over several connections, in one session where the era has sessions, and gives the answers
/// in the order of the requests.
pub async fn over_http(address: SocketAddr, path: &str, era: Era, requests: &Arc<Vec<Request>>) -> Vec<Answer> {
    let session = match era {
        Era::Legacy => {
            let mut http = connect(address).await;
            Some(http.initialize(path, "2025-11-25").await.expect("a session").headers())
        }
        Era::Modern => None,
    };
    let mut lanes = JoinSet::new();
    for lane in 0..CONNECTIONS {
        let (requests, path, session) = (requests.clone(), path.to_owned(), session.clone());
        lanes.spawn(async move {
            let mut http = connect(address).await;
            let mut answers = Vec::new();
            for case in (lane..requests.len()).step_by(CONNECTIONS) {
                let request = &requests[case];
                let modern = || modern_headers("tools/call", Some(&request.tool));
                let headers = session.clone().unwrap_or_else(modern);
                http.send("POST", &path, &headers, &request.message).await.expect("sent");
                answers.push((case, read(&mut http).await));
            }
            answers
        });
    }
    let mut answers: Vec<_> = lanes.join_all().await.into_iter().flatten().collect();
    answers.sort_by_key(|(case, _)| *case);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

async fn connect(address: SocketAddr) -> RawHttp {
    let mut http = RawHttp::connect(address).await.expect("the gateway listens");
    http.patience = PATIENCE;
    http
}

/// Reads one whole response.
async fn read(http: &mut RawHttp) -> Answer {
    let head = http.head().await.expect("a head");
    let (body, complete) = http.body().await.expect("a body");
    let response = Response { head, body, complete };
    assert!(response.complete && response.head.status() == 200, "{}: {}", response.head.start, response.text());
    let mut answer = Answer { is_line: response.head.is_sse(), ..Answer::default() };
    if !answer.is_line {
        assert!(answer.take(&response.body), "a response: {}", json::show(&response.body));
        return answer;
    }
    let mut answered = false;
    for event in response.events() {
        let data = event.data.unwrap_or_default();
        if !data.is_empty() {
            assert!(!answered, "nothing comes after the response: {}", json::show(&event.raw));
            assert!(!data.contains(&b'\n'), "a message is one data line: {}", json::show(&event.raw));
            answered = answer.take(&data);
        }
    }
    assert!(answered, "the stream has a response: {}", json::show(&response.body));
    answer
}

/// What came back on stdout.
pub struct Lines {
    /// In the order of the requests.
    pub answers: Vec<Answer>,
    /// Notifications, in the order in which they came.
    pub notes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Starts a gateway on stdio and sends the calls as lines, many at a time.
pub async fn over_stdio(mut gateway: Command, era: Era, requests: &[Request]) -> Lines {
    gateway.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
    let mut child = gateway.spawn().expect("the gateway starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    if era == Era::Legacy {
        stdin.write_all((initialize_request("0", "2025-11-25") + "\n").as_bytes()).await.expect("sent");
        line(&mut stdout).await;
        stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await.expect("sent");
    }
    let case_of: HashMap<&[u8], usize> = requests.iter().enumerate().map(|(n, r)| (r.id.as_slice(), n)).collect();
    let mut answers: Vec<Option<Answer>> = requests.iter().map(|_| None).collect();
    let mut notes = Vec::new();
    for batch in requests.chunks(LINES) {
        let bytes: Vec<u8> = batch.iter().flat_map(|request| [&request.message[..], b"\n"].concat()).collect();
        let write = async { stdin.write_all(&bytes).await.expect("sent") };
        let read = async {
            for _ in batch {
                let mut answer = Answer { is_line: true, ..Answer::default() };
                while !answer.take(&line(&mut stdout).await) {}
                notes.append(&mut answer.notes);
                let case = case_of.get(answer.id.as_slice());
                let case = *case.unwrap_or_else(|| panic!("an id that nobody sent: {}", json::show(&answer.id)));
                assert!(answers[case].replace(answer).is_none(), "case {case} is answered twice");
            }
        };
        tokio::join!(write, read);
    }
    drop(stdin);
    assert_eq!(rest(&mut stdout).await, b"", "nothing comes after the last answer");
    let status =
        tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends with its input").expect("waited for");
    assert!(status.success(), "{status}");
    Lines { answers: answers.into_iter().map(|answer| answer.expect("every case is answered")).collect(), notes }
}

async fn line(stdout: &mut BufReader<ChildStdout>) -> Vec<u8> {
    let mut line = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stdout.read_until(b'\n', &mut line)).await;
    read.expect("a line comes in time").expect("stdout can be read");
    assert_eq!(line.pop(), Some(b'\n'), "stdout stays open");
    line
}

async fn rest(stdout: &mut BufReader<ChildStdout>) -> Vec<u8> {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stdout.read_to_end(&mut rest)).await;
    read.expect("stdout ends in time").expect("stdout can be read");
    rest
}

//! The gateway as a child: lines out, lines in, replies told apart by id.

use std::collections::BTreeMap;
use std::process::Stdio as Pipe;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::{Inbox, lock};
use crate::harness;

type Waiting = Arc<Mutex<BTreeMap<u64, oneshot::Sender<Value>>>>;

/// A running child, killed when dropped.
pub(super) struct Stdio {
    child: Child,
    stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    waiting: Waiting,
    stderr: Arc<Mutex<String>>,
    _readers: JoinSet<()>,
    _folder: tempfile::TempDir,
}

impl Stdio {
    /// Starts `binary stdio` and reads what it writes.
    pub(super) fn start(binary: &str, servers: Option<&Value>, args: &[&str], inbox: &Arc<Inbox>) -> Self {
        let mut command = Command::new(binary);
        command.arg("stdio").args(args);
        let folder = match servers {
            Some(servers) => {
                let (folder, file) = harness::config(servers);
                command.arg("--config").arg(file);
                folder
            }
            None => tempfile::tempdir().expect("a folder"),
        };
        // State of its own, and not that of whoever runs this.
        command.env("XDG_STATE_HOME", folder.path());
        command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the gateway's binary starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let (waiting, stderr) = (Waiting::default(), Arc::new(Mutex::new(String::new())));
        let mut readers = JoinSet::new();
        readers.spawn(read(stdout, waiting.clone(), inbox.clone()));
        let said = stderr.clone();
        readers.spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                lock(&said).push_str(&(line + "\n"));
            }
        });
        let stdin = tokio::sync::Mutex::new(stdin);
        Self { child, stdin, waiting, stderr, _readers: readers, _folder: folder }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub(super) fn said(&self) -> String {
        lock(&self.stderr).clone()
    }

    /// Sends a request; its response, or nothing when the child ends first.
    pub(super) async fn send(&self, id: u64, message: &Value) -> oneshot::Receiver<Value> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.waiting).insert(id, sender);
        self.write(message).await;
        receiver
    }

    pub(super) async fn write(&self, message: &Value) {
        let mut stdin = self.stdin.lock().await;
        let pipe = stdin.as_mut().expect("the input is open");
        pipe.write_all(format!("{message}\n").as_bytes()).await.expect("the child reads");
        pipe.flush().await.expect("the child reads");
    }

    pub(super) async fn close(&self) {
        *self.stdin.lock().await = None;
    }
}

async fn read(stdout: ChildStdout, waiting: Waiting, inbox: Arc<Inbox>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} on stdout: {line}"));
        if message.get("method").is_some() {
            inbox.put(message);
            continue;
        }
        let sender = message["id"].as_u64().and_then(|id| lock(&waiting).remove(&id));
        // Nobody waits for the reply of a call that was forgotten.
        sender.and_then(|sender| sender.send(message).err());
    }
    lock(&waiting).clear();
}

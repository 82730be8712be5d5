//! A session over the stdin and stdout of a child process.
use super::Waiters;
use crate::rpc::{Call, INITIALIZED, Msg, classify, initialize_params};
use anyhow::{Context, Result, anyhow};
use std::{
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::{Mutex as AsyncMutex, oneshot},
    time::timeout,
};

/// A child process spoken to over newline-delimited JSON-RPC; shared by all workers.
pub struct StdioSession {
    stdin: AsyncMutex<ChildStdin>,
    waiters: Waiters,
    next_id: AtomicU64,
    deadline: Duration,
    child: Mutex<Child>,
    pub pid: i32,
}

impl StdioSession {
    /// Spawns without a handshake.
    pub fn spawn(argv: &[String], deadline: Duration, quiet: bool) -> Result<Arc<Self>> {
        let (cmd, args) = argv.split_first().context("empty command")?;
        let mut child = Command::new(cmd)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if quiet { Stdio::null() } else { Stdio::inherit() })
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {cmd}"))?;
        let pid = child.id().context("child has gone")? as i32;
        let stdin = child.stdin.take().context("no stdin")?;
        let out = child.stdout.take().context("no stdout")?;
        let waiters: Waiters = Default::default();
        let me = Arc::new(StdioSession {
            stdin: AsyncMutex::new(stdin),
            waiters: waiters.clone(),
            next_id: AtomicU64::new(1),
            deadline,
            child: Mutex::new(child),
            pid,
        });
        let back = Arc::downgrade(&me);
        tokio::spawn(async move {
            let mut r = BufReader::with_capacity(64 << 10, out);
            let mut line = Vec::new();
            loop {
                line.clear();
                match r.read_until(b'\n', &mut line).await {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
                match classify(&line) {
                    Ok(Msg::Reply { id: Some(id), result }) => {
                        if let Some(w) = waiters.lock().unwrap().remove(&id) {
                            let _ = w.send(result);
                        }
                    }
                    Ok(Msg::Ask { id, method }) => {
                        let Some(s) = back.upgrade() else { break };
                        let a = if method == "ping" {
                            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}")
                        } else {
                            format!(
                                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32601,\"message\":\"no\"}}}}"
                            )
                        };
                        let _ = s.write(&a).await;
                    }
                    _ => {}
                }
            }
            // The child's output has ended: nobody will be answered any more.
            waiters.lock().unwrap().clear();
        });
        Ok(me)
    }

    pub async fn open(argv: &[String], version: &str, deadline: Duration, quiet: bool) -> Result<Arc<Self>> {
        let s = Self::spawn(argv, deadline, quiet)?;
        s.initialize(version).await?;
        s.initialized().await?;
        Ok(s)
    }

    pub async fn initialize(&self, version: &str) -> Result<String> {
        self.request(&Call::new("initialize", initialize_params(version), false)).await
    }

    pub async fn initialized(&self) -> Result<()> {
        self.write(INITIALIZED).await
    }

    async fn write(&self, line: &str) -> Result<()> {
        let mut b = Vec::with_capacity(line.len() + 1);
        b.extend_from_slice(line.as_bytes());
        b.push(b'\n');
        let mut w = self.stdin.lock().await;
        w.write_all(&b).await?;
        w.flush().await?;
        Ok(())
    }

    pub async fn request(&self, call: &Call) -> Result<String> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (tx, rx) = oneshot::channel();
        self.waiters.lock().unwrap().insert(id, tx);
        let r = timeout(self.deadline, async {
            self.write(&call.body(id)).await?;
            rx.await.map_err(|_| anyhow!("the process closed its output"))?
        })
        .await;
        r.unwrap_or_else(|_| {
            self.waiters.lock().unwrap().remove(&id);
            Err(anyhow!("no reply within {:?}", self.deadline))
        })
    }

    pub fn kill(&self) {
        let _ = self.child.lock().unwrap().start_kill();
    }
}

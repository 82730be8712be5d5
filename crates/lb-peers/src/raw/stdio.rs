//! [`RawStdio`]: a child process spoken to in exact lines.

use std::io::{Error, ErrorKind, Result};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::http::within;

/// Lines of stderr that are kept until they are read; later ones are dropped.
const STDERR_LINES_MAX: usize = 4096;

/// A running child. Dropping it kills the child.
#[derive(Debug)]
pub struct RawStdio {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    partial: Vec<u8>,
    stderr: mpsc::Receiver<String>,
    // Owns the task that drains stderr, so that a talkative child never blocks on it.
    _drain: JoinSet<()>,
    /// How long one wait may take; 10 s at first.
    pub patience: Duration,
}

impl RawStdio {
    /// Starts `command` with all three streams piped.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let gone = || Error::from(ErrorKind::BrokenPipe);
        let stdout = BufReader::new(child.stdout.take().ok_or_else(gone)?);
        let (sender, stderr) = mpsc::channel(STDERR_LINES_MAX);
        let mut drain = JoinSet::new();
        drain.spawn(forward(child.stderr.take().ok_or_else(gone)?, sender));
        let stdin = child.stdin.take();
        let patience = Duration::from_secs(10);
        Ok(Self { child, stdin, stdout, partial: Vec::new(), stderr, _drain: drain, patience })
    }

    /// The process id, while the child has not been waited for.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Writes exactly these bytes.
    ///
    /// # Errors
    /// `BrokenPipe` when the child reads no more.
    pub async fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        let stdin = self.stdin.as_mut().ok_or_else(|| Error::from(ErrorKind::BrokenPipe))?;
        stdin.write_all(bytes).await?;
        stdin.flush().await
    }

    /// Writes a line: the bytes and one line feed.
    ///
    /// # Errors
    /// As [`RawStdio::send_raw`].
    pub async fn send(&mut self, line: &[u8]) -> Result<()> {
        let mut bytes = line.to_vec();
        bytes.push(b'\n');
        self.send_raw(&bytes).await
    }

    /// The next line of stdout without its line feed; `None` when stdout ended, even in the middle of a line.
    ///
    /// # Errors
    /// `TimedOut` when no whole line came in time; what did come is in [`RawStdio::partial`].
    pub async fn line(&mut self) -> Result<Option<Vec<u8>>> {
        within(self.patience, self.stdout.read_until(b'\n', &mut self.partial)).await?;
        if self.partial.pop_if(|last| *last == b'\n').is_none() {
            return Ok(None);
        }
        Ok(Some(std::mem::take(&mut self.partial)))
    }

    /// The next line as text.
    ///
    /// # Errors
    /// As [`RawStdio::line`], and `UnexpectedEof` when stdout ended.
    pub async fn text(&mut self) -> Result<String> {
        let line = self.line().await?.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?;
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Sends a line and reads one.
    ///
    /// # Errors
    /// As [`RawStdio::send`] and [`RawStdio::text`].
    pub async fn ask(&mut self, line: &str) -> Result<String> {
        self.send(line.as_bytes()).await?;
        self.text().await
    }

    /// The bytes of a line that has not ended yet.
    #[must_use]
    pub fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// The next line of stderr; `None` when it ended.
    ///
    /// # Errors
    /// `TimedOut` when none came.
    pub async fn stderr_line(&mut self) -> Result<Option<String>> {
        within(self.patience, async { Ok(self.stderr.recv().await) }).await
    }

    /// Closes the child's stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Sends SIGTERM.
    ///
    /// # Errors
    /// When the child is gone.
    pub fn terminate(&self) -> Result<()> {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        Ok(kill_process(pid.ok_or_else(|| Error::from(ErrorKind::NotFound))?, Signal::TERM)?)
    }

    /// Waits for the child to end.
    ///
    /// # Errors
    /// `TimedOut` while it lives.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        within(self.patience, self.child.wait()).await
    }

    /// Whether the child still runs.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn is_alive(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }
}

async fn forward(stderr: ChildStderr, sender: mpsc::Sender<String>) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // Full means that nobody reads: the newest lines are dropped, the child goes on.
        if let Err(mpsc::error::TrySendError::Closed(_)) = sender.try_send(line) {
            return;
        }
    }
}

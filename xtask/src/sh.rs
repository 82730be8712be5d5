//! Running other programs: to the end, within a time limit, or in the background until dropped.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Runs a command on our own terminal and fails unless it exits with 0.
pub fn run(command: &mut Command) -> Result<()> {
    let name = describe(command);
    let status = command.status().with_context(|| format!("cannot start {name}"))?;
    if !status.success() {
        bail!("{name}: {status}");
    }
    Ok(())
}

/// Runs a command, lets its stderr through, and returns its stdout. Fails unless it exits with 0.
pub fn stdout_of(command: &mut Command) -> Result<String> {
    let name = describe(command);
    let out = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {name}"))?;
    if !out.status.success() {
        bail!("{name}: {}\n{}", out.status, String::from_utf8_lossy(&out.stdout));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// What a command printed on both streams, and how it ended (`None`: it was killed at the limit).
pub struct Output {
    pub text: String,
    pub status: Option<ExitStatus>,
}

/// Runs a command with both streams captured; it is killed when `limit` has passed.
pub fn capture(command: &mut Command, limit: Duration) -> Result<Output> {
    let name = describe(command);
    let (mut reader, writer) = std::io::pipe()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    // The command holds the pipe's writing ends; ours must go, or the reader never sees the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (done, ended) = mpsc::channel();
    let reading = thread::spawn(move || {
        let mut text = Vec::new();
        let read = reader.read_to_end(&mut text);
        // Nobody listens any more once the limit has passed; the text is still returned by `join`.
        done.send(()).ok();
        read.map(|_| text)
    });
    let timed_out = ended.recv_timeout(limit).is_err();
    if timed_out {
        child.kill()?;
    }
    let status = child.wait()?;
    if timed_out && ended.recv_timeout(Duration::from_secs(2)).is_err() {
        // A grandchild still holds the pipe: leave the reader behind rather than wait for it.
        return Ok(Output { text: format!("{name}: killed after {limit:?}"), status: None });
    }
    let text = reading.join().map_err(|_| anyhow::anyhow!("the reader of {name} panicked"))??;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(Output { text, status: (!timed_out).then_some(status) })
}

/// A server in the background. Dropping it ends the process: politely first, then by force.
pub struct Server {
    child: Child,
    closed: mpsc::Receiver<()>,
    /// The address it said it listens on, `http://HOST:PORT`.
    pub url: String,
    /// How long it took to say so.
    pub ready_after: Duration,
}

/// The words every server of ours prints on stderr once it accepts connections.
const READY: &str = "listening on ";

impl Server {
    /// Starts `command`, keeps its stderr in `log`, and waits for the line that says where it listens.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let name = describe(command);
        let started = Instant::now();
        let mut log = std::fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stderr = child.stderr.take().context("stderr was piped above")?;
        let (found, address) = mpsc::channel();
        let (closing, closed) = mpsc::channel();
        thread::spawn(move || {
            use std::io::Write;
            for line in BufReader::new(stderr).lines() {
                let Ok(line) = line else { break };
                // A log that cannot be written must not stop the server whose pipe we drain.
                writeln!(log, "{line}").ok();
                if let Some((_, rest)) = line.split_once(READY) {
                    found.send(rest.split_whitespace().next().unwrap_or("").to_owned()).ok();
                }
            }
            closing.send(()).ok();
        });
        let mut server = Self { child, closed, url: String::new(), ready_after: Duration::ZERO };
        match address.recv_timeout(Duration::from_secs(20)) {
            Ok(url) => server.url = url,
            Err(_) => bail!("{name} did not say `{READY}http://ADDR` on stderr within 20 s"),
        }
        server.ready_after = started.elapsed();
        Ok(server)
    }

    /// The process id, for metering.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may have gone between the check and the signal.
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        }
        if self.closed.recv_timeout(Duration::from_secs(5)).is_err() {
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}

fn describe(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}

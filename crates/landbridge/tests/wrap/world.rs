//! The servers that are wrapped, where they write down what happens, and the processes below a program.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lb_peers::installed;
use serde_json::{Value, json};

use crate::LANDBRIDGE;
use crate::client::Client;

/// A folder with the caches of one test, and the notes of its server.
pub struct World {
    folder: tempfile::TempDir,
}

impl World {
    /// An empty one.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The command of the scripted server.
    pub fn command(&self, plan: Value) -> Vec<String> {
        let mut plan = plan;
        plan["log"] = json!(self.file("server.log"));
        let script = format!("{}/tests/wrap/server.py", env!("CARGO_MANIFEST_DIR"));
        vec![installed::file("python", "bin/python"), "-E".to_owned(), "-S".to_owned(), script, plan.to_string()]
    }

    /// The scripted server, wrapped with these options.
    pub fn wrap(&self, options: &[&str], plan: Value) -> Client {
        self.wrap_command(options, &self.command(plan))
    }

    /// A command, wrapped with these options.
    pub fn wrap_command(&self, options: &[&str], command: &[String]) -> Client {
        let mut args = vec!["wrap".to_owned()];
        args.extend(options.iter().map(|option| (*option).to_owned()));
        args.extend(command.iter().cloned());
        Client::start(LANDBRIDGE, &args, self.folder(), &[])
    }

    /// The scripted server itself.
    pub fn direct(&self, plan: Value) -> Client {
        let command = self.command(plan);
        Client::start(&command[0], &command[1..], self.folder(), &[])
    }

    /// What the server wrote down that starts with this.
    pub fn noted(&self, start: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.file("server.log")).unwrap_or_default();
        log.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
    }

    /// How often the server was started.
    pub fn starts(&self) -> usize {
        self.noted("start ").len()
    }

    /// The process of the server that was started last.
    pub fn server(&self) -> u32 {
        let notes = self.noted("start ");
        notes.last().and_then(|note| note.split(' ').nth(1)?.parse().ok()).expect("it was started")
    }

    /// Files that the wrapper keeps.
    pub fn kept(&self) -> Vec<PathBuf> {
        let Ok(files) = std::fs::read_dir(self.file("landbridge")) else { return Vec::new() };
        let files = files.map(|file| file.expect("a file").path());
        files.filter(|path| path.extension().is_some_and(|kind| kind == "json")).collect()
    }

    /// Starts the server once, so that what it lists is kept.
    pub async fn warm_up(&self, plan: Value) {
        let mut client = self.wrap(&[], plan);
        client.hello().await;
        client.result("tools/list", json!({})).await;
        until("it is kept", || !self.kept().is_empty()).await;
        client.close();
        client.end().await;
    }
}

/// Waits until `test` holds.
pub async fn until(what: &str, test: impl Fn() -> bool) {
    let start = Instant::now();
    while !test() {
        assert!(start.elapsed() < Duration::from_secs(30), "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sees for so long that `test` holds.
pub async fn throughout(time: Duration, what: &str, test: impl Fn() -> bool) {
    let start = Instant::now();
    while start.elapsed() < time {
        assert!(test(), "{what}, after {:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a process is there, and not as a zombie.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// All processes below one, by descent.
pub fn descendants(of: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, stat(pid)?.1))).collect();
    let mut found = vec![of];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// The state and the parent of a process.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// Sends a signal.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, signal).expect("it is there");
}

//! Starting probes, and looking for what is left of them.

use std::{
    ffi::OsString,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use lb_process::{Child, ChildStdout, Command};
use tokio::io::AsyncReadExt;

pub const PROBE: &str = env!("CARGO_BIN_EXE_lb-process-probe");

/// Longest wait for something that must happen.
pub const SOON: Duration = Duration::from_secs(5);

pub fn probe(args: &[&str]) -> Command {
    Command::new(PROBE, PROBE).args(args.iter().copied())
}

pub fn shell(script: &str) -> Command {
    Command::new("/bin/sh", PROBE).args(["-c", script]).env(vec![("PATH".into(), path())])
}

pub fn path() -> OsString {
    std::env::var_os("PATH").expect("PATH")
}

pub async fn spawn(command: &Command) -> Child {
    Child::spawn(command).await.expect("probe starts")
}

/// All that a program prints until it closes its output.
pub async fn output(command: &Command) -> String {
    let child = spawn(command).await;
    let (stdin, mut stdout) = child.take_pipes().expect("pipes");
    drop(stdin);
    let mut text = String::new();
    tokio::time::timeout(SOON, stdout.read_to_string(&mut text)).await.expect("in time").expect("text");
    assert!(child.wait().await.success(), "{}", child.stderr().tail(500));
    text
}

/// Waits for the line that a program prints when it is set up.
pub async fn ready(stdout: &mut ChildStdout) {
    let mut line = [0; 6];
    tokio::time::timeout(SOON, stdout.read_exact(&mut line)).await.expect("in time").expect("line");
    assert_eq!(&line, b"ready\n");
}

/// A word that no other test and no other run puts on a command line.
pub fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("marker-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Process ids with `marker` on their command line. A zombie has none and is found by [`zombies`].
pub fn marked(marker: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == marker.as_bytes())
    };
    pids.filter(has).collect()
}

/// Children of this process that have ended and were not waited for.
pub fn zombies() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = format!(") Z {} ", std::process::id());
        if stat.contains(&parent) {
            found.push(stat);
        }
    }
    found
}

/// Waits until `left` finds nothing. There is no event to wait for: these are not children of ours.
pub async fn until_none<T: std::fmt::Debug>(what: &str, mut left: impl FnMut() -> Vec<T>) -> Duration {
    let start = Instant::now();
    loop {
        let found = left();
        if found.is_empty() {
            return start.elapsed();
        }
        assert!(start.elapsed() < SOON, "{what} left after {SOON:?}: {found:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

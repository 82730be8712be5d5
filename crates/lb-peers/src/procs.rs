//! Processes as `/proc` shows them: who descends from whom, who carries a mark, how much memory is used.

use std::time::{Duration, Instant};

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// The id of its parent.
    pub parent: u32,
    /// `Z` is a zombie.
    pub state: char,
    /// Its command line.
    pub command: String,
}

/// Every process that can be seen.
///
/// # Panics
/// Without `/proc`.
pub fn all() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(read).collect()
}

fn read(pid: u32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned();
    Some(Process { pid, parent, state, command })
}

/// All that descends from a process, itself not included.
pub fn descendants(of: u32) -> Vec<Process> {
    let all = all();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            parents.push(process.pid);
            found.push(process.clone());
        }
    }
    found
}

/// Live processes with this text in their environment or command line, wherever they hang in the tree.
pub fn marked(mark: &str) -> Vec<Process> {
    let own = std::process::id();
    let holds = |pid: u32, file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    let mut all = all();
    all.retain(|process| {
        process.pid != own && process.state != 'Z' && (holds(process.pid, "environ") || holds(process.pid, "cmdline"))
    });
    all
}

/// Whether a process is there, and not as a zombie.
pub fn is_alive(pid: u32) -> bool {
    read(pid).is_some_and(|process| process.state != 'Z')
}

/// Whether a process is there, if only as a zombie. Not one of an orphan: that is for the system's first process to
/// collect, which in a container may be anything.
pub fn exists(pid: u32) -> bool {
    read(pid).is_some_and(|process| process.state != 'Z' || process.parent != 1)
}

/// Waits until `found` finds nothing more.
///
/// # Panics
/// With what is left.
pub async fn gone(within: Duration, found: impl Fn() -> Vec<Process>) {
    let start = Instant::now();
    loop {
        let left = found();
        if left.is_empty() {
            return;
        }
        assert!(start.elapsed() < within, "left after {within:?}: {left:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until `test` holds.
///
/// # Panics
/// When it does not in time.
pub async fn until(within: Duration, what: &str, test: impl Fn() -> bool) {
    let start = Instant::now();
    while !test() {
        assert!(start.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A line of `/proc/PID/status` in KiB: `VmRSS`, or `VmHWM` for its highest value so far.
///
/// # Panics
/// When the process is gone.
pub fn memory_kib(pid: u32, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    found.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok()).expect("a number of kB")
}

/// How many descriptors a process has open; 0 when it is gone.
pub fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// How long a process has used the processor, in ticks of 10 ms; 0 when it is gone.
pub fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_ascii_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

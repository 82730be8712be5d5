//! Looks at the gateway from outside: memory, descriptors, processes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lb_peers::procs;
use tokio::task::JoinSet;

use crate::history::{History, Record};

/// The time between two looks.
const EVERY: Duration = Duration::from_millis(500);

/// Takes samples until dropped.
#[derive(Debug)]
pub struct Watch {
    history: History,
    pid: u32,
    phase: Arc<Mutex<String>>,
    _looking: JoinSet<()>,
}

impl Watch {
    /// Of this process, in a first phase.
    pub fn start(history: &History, pid: u32, phase: &str) -> Self {
        let phase = Arc::new(Mutex::new(phase.to_owned()));
        let (kept, shared) = (history.clone(), phase.clone());
        let mut looking = JoinSet::new();
        looking.spawn(async move {
            loop {
                let phase = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                sample(&kept, pid, &phase);
                tokio::time::sleep(EVERY).await;
            }
        });
        Self { history: history.clone(), pid, phase, _looking: looking }
    }

    /// Ends the phase with a last sample and begins another with a first one.
    pub fn phase(&self, next: &str) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        sample(&self.history, self.pid, &phase);
        next.clone_into(&mut phase);
        sample(&self.history, self.pid, &phase);
    }
}

/// Writes down how a process stands; nothing when it is gone.
pub fn sample(history: &History, pid: u32, phase: &str) {
    if !procs::is_alive(pid) {
        return;
    }
    let below = procs::descendants(pid);
    let zombies = below.iter().filter(|process| process.state == 'Z').count() as u64;
    let Some(rss_kib) = rss_kib(pid) else { return };
    history.write(&Record::Sample {
        at_ms: history.now_ms(),
        phase: phase.to_owned(),
        pid,
        rss_kib,
        fds: procs::descriptors(pid) as u64,
        processes: below.len() as u64,
        zombies,
        ticks: procs::ticks(pid),
    });
}

/// Like [`procs::memory_kib`], for a process that may end meanwhile.
pub fn rss_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Connections that whoever listens at this port has open.
pub fn connections(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let here = format!(":{port:04X}");
    let open = |line: &&str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, _, state) = (fields.next(), fields.next(), fields.next());
        local.is_some_and(|local| local.ends_with(&here)) && state == Some("01")
    };
    table.lines().filter(open).count()
}

//! Who descends from whom, read from `/proc`. Elsewhere than on Linux nobody knows, and the answers are empty.

use rustix::process::Pid;

/// The live children of this process, its adopted orphans included.
///
/// `None` when the system does not say. None of them can be another process by the time it is signalled: their
/// numbers stay taken until this process has waited for them.
pub(crate) fn own_children() -> Option<Vec<Pid>> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let own = rustix::process::getpid();
    // One small file; but a kernel may be built without it.
    if let Ok(list) = std::fs::read_to_string("/proc/thread-self/children") {
        return Some(list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect());
    }
    processes(|stat| stat.parent == own.as_raw_pid())
}

/// The processes of a session. Its number must belong to a process that is still there, if only as a zombie.
pub(crate) fn session_members(session: Pid) -> Vec<Pid> {
    processes(|stat| stat.session == session.as_raw_pid()).unwrap_or_default()
}

fn processes(wanted: impl Fn(&Stat) -> bool) -> Option<Vec<Pid>> {
    let entries = std::fs::read_dir("/proc").ok()?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    // A process that ends while we look has no file any more and is left out.
    let stat = |pid: i32| Stat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?);
    Some(pids.filter(|pid| stat(*pid).is_some_and(|stat| wanted(&stat))).filter_map(Pid::from_raw).collect())
}

/// The fields of `/proc/PID/stat` that we read.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: i32,
    session: i32,
}

impl Stat {
    /// The second field is the program's name in brackets and may hold brackets and spaces itself, so that the last
    /// bracket ends it. After it: state, parent, group, session.
    fn parse(line: &[u8]) -> Option<Self> {
        let end = line.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(line.get(end + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace().skip(1);
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        Some(Self { parent, session })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let table: [(&[u8], Option<Stat>); 5] = [
            (b"7 (cat) S 1 2 3 0 -1", Some(Stat { parent: 1, session: 3 })),
            (b"7 (a) R 9 9 9 (\xff) S 1 2 3 0", Some(Stat { parent: 1, session: 3 })),
            (b"7 (cat) S 1", None),
            (b"7 cat S 1 2 3", None),
            (b"", None),
        ];
        for (line, want) in table {
            assert_eq!(Stat::parse(line), want, "{}", line.escape_ascii());
        }
    }

    /// Asked of a session that the test began: its own may lie outside its process namespace and have no number.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_session_has_its_leader_as_a_member() {
        let mut leader = std::process::Command::new("setsid").args(["sleep", "60"]).spawn().expect("util-linux");
        let pid = Pid::from_raw(leader.id().try_into().expect("a pid")).expect("a pid");
        let begun = std::time::Instant::now();
        while session_members(pid) != [pid] && begun.elapsed().as_secs() < 10 {
            #[expect(clippy::disallowed_methods, reason = "no event tells when another process begins its session")]
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let members = session_members(pid);
        leader.kill().expect("it lives");
        leader.wait().expect("it ends");
        assert_eq!(members, [pid]);
        assert_eq!(session_members(pid), []);
    }
}

//! From start to end of a program that is left alone.

use std::{
    io,
    time::{Duration, Instant},
};

use lb_process::{Child, Command, Exit, SpawnError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::kit::{PROBE, SOON, output, path, probe, shell, spawn, until_none, zombies};

#[tokio::test]
async fn what_goes_in_comes_back() {
    let child = spawn(&probe(&["echo"])).await;
    let (mut stdin, mut stdout) = child.take_pipes().expect("pipes");
    assert!(child.take_pipes().is_none(), "pipes are given once");
    for text in ["one\n", "two\n"] {
        stdin.write_all(text.as_bytes()).await.expect("written");
        let mut back = vec![0; text.len()];
        stdout.read_exact(&mut back).await.expect("read");
        assert_eq!(back, text.as_bytes());
    }
    drop(stdin);
    assert_eq!(stdout.read(&mut [0; 1]).await.expect("end"), 0);
    assert_eq!(child.wait().await, Exit::with_code(0));
}

#[tokio::test]
async fn a_full_pipe_refuses_at_once_instead_of_waiting() {
    let child = spawn(&shell("exec sleep 1000")).await;
    let (stdin, _stdout) = child.take_pipes().expect("pipes");
    let mut written = 0;
    let refused = loop {
        match stdin.try_write(&[b'x'; 4096]) {
            Ok(more) => written += more,
            Err(error) => break error,
        }
        assert!(written < 1 << 24, "no end");
    };
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    assert!(4096 <= written);
}

#[tokio::test]
async fn how_a_program_ended_is_told() {
    for (command, want) in [
        (probe(&["exit", "0"]), Exit::with_code(0)),
        (probe(&["exit", "3"]), Exit::with_code(3)),
        (probe(&["exit", "255"]), Exit::with_code(255)),
        (probe(&["kill-self"]), Exit::by_signal(9)),
        (shell("kill -TERM $$"), Exit::by_signal(15)),
    ] {
        let child = spawn(&command).await;
        assert_eq!(child.wait().await, want, "{command:?}");
        assert_eq!(child.exit(), Some(want));
    }
}

#[tokio::test]
async fn many_can_wait_and_late_ones_too() {
    let child = spawn(&shell("read line; exit 7")).await;
    let mut early = std::pin::pin!(async { tokio::join!(child.wait(), child.wait(), child.wait()) });
    // All three wait before the program is told to end.
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut early).await.is_err());
    drop(child.take_pipes());
    let exit = Exit::with_code(7);
    assert_eq!(early.await, (exit, exit, exit));
    assert_eq!(child.wait().await, exit);
}

#[tokio::test]
async fn the_reason_of_an_early_death_is_kept() {
    let child = spawn(&probe(&["complain", "cannot open port 80: é🦀", "1"])).await;
    assert_eq!(child.wait().await, Exit::with_code(1));
    let stderr = child.stderr();
    assert_eq!(stderr.tail(4096), "cannot open port 80: é🦀");
    assert_eq!(stderr.tail(5), "🦀");
    assert_eq!(stderr.tail(3), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_words_are_there_when_the_end_is_known() {
    // A full pipe written just before the end: the report must not overtake it.
    let script = "yes 0123456789012345678901234567890123456789 | head -n 900 >&2; echo last >&2; exit 4";
    for _ in 0..30 {
        let child = spawn(&shell(script)).await;
        assert_eq!(child.wait().await, Exit::with_code(4));
        let tail = child.stderr().tail(usize::MAX);
        assert_eq!(tail.lines().count(), 901);
        assert!(tail.ends_with("last\n"));
    }
}

#[tokio::test]
async fn a_program_that_closes_its_output_is_seen_to() {
    let child = spawn(&probe(&["close-stdout"])).await;
    let (stdin, mut stdout) = child.take_pipes().expect("pipes");
    let end = tokio::time::timeout(SOON, stdout.read(&mut [0; 1])).await.expect("in time");
    assert_eq!(end.expect("end"), 0, "end of output");
    assert_eq!(child.exit(), None, "it still runs");
    drop(stdin);
    assert_eq!(child.wait().await, Exit::with_code(0));
}

#[tokio::test]
async fn what_cannot_start_says_why_and_what_to_do() {
    let folder = tempfile::tempdir().expect("folder");
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("file");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("mode");
        path
    };
    let plain = file("plain", "#!/bin/sh\n", 0o644);
    let broken = file("broken", "#!/no/such/shell\n", 0o755);
    let command = |program: &std::ffi::OsStr| Command::new(program, PROBE).env(vec![("PATH".into(), "/bin".into())]);
    let at = folder.path().display();
    let table = [
        (
            command("no-such".as_ref()),
            "program \"no-such\" not found in PATH".into(),
            "looked in its only folder: install it",
        ),
        (command("npx -y x".as_ref()), "program \"npx -y x\" not found in PATH".into(), "write `npx` there"),
        (Command::new("no-such", PROBE), "program \"no-such\" not found in PATH".into(), "has no PATH"),
        (command("/no/such".as_ref()), "program \"/no/such\" does not exist".into(), "check the path"),
        (
            command("/bin/sh -c true".as_ref()),
            "program \"/bin/sh -c true\" does not exist".into(),
            "write `/bin/sh` there",
        ),
        (command(folder.path().as_ref()), format!("\"{at}\" is a folder, not a program"), "a program in it"),
        (command(plain.as_ref()), format!("program \"{at}/plain\" is not executable"), "chmod +x"),
        (command("./plain".as_ref()).cwd(folder.path()), "program \"./plain\" is not executable".into(), "chmod +x"),
        (
            command(broken.as_ref()),
            format!("program \"{at}/broken\" exists, but its interpreter does not"),
            "first line",
        ),
        (
            command("sh".as_ref()).cwd("/no/such"),
            "working directory \"/no/such\" cannot be entered".into(),
            "does not exist",
        ),
        (
            command("sh".as_ref()).cwd(&plain),
            format!("working directory \"{at}/plain\" cannot be entered"),
            "is a folder",
        ),
        (command("".as_ref()), "the program's name is empty".into(), ""),
        (command("sh".as_ref()).args(["a\0b"]), "the program or one of its arguments holds a NUL byte".into(), ""),
        (
            command("sh".as_ref()).env(vec![("A=B".into(), "c".into())]),
            "a variable has an empty name, a name with `=`, or a NUL byte".into(),
            "",
        ),
        (
            command("sh".as_ref()).args(["x".repeat(200_000)]),
            "arguments and environment are too long for the system".into(),
            "in a file",
        ),
        (Command::new("sh", "/no/supervisor"), "supervisor \"/no/supervisor\" cannot be started".into(), ""),
    ];
    for (command, message, hint) in table {
        let error = Child::spawn(&command).await.expect_err("cannot start");
        assert_eq!(error.to_string(), message);
        assert!(error.hint().unwrap_or_default().contains(hint), "{message}: {:?}", error.hint());
    }
}

#[tokio::test]
async fn a_binary_that_is_no_supervisor_is_found_out() {
    let error = Child::spawn(&Command::new("sh", "/bin/ls")).await.expect_err("no supervisor");
    assert!(matches!(&error, SpawnError::Silent { why, .. } if why.contains("__supervise")), "{error}");
}

#[tokio::test]
async fn the_program_starts_in_its_folder_and_is_looked_up_from_there() {
    let folder = tempfile::tempdir().expect("folder");
    let script = folder.path().join("here.sh");
    std::fs::write(&script, "#!/bin/sh\npwd -P\n").expect("script");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
    let command = Command::new("./here.sh", PROBE).cwd(folder.path()).env(vec![("PATH".into(), path())]);
    let real = folder.path().canonicalize().expect("folder");
    assert_eq!(output(&command).await.trim(), real.display().to_string());
}

/// How many short lives; all of the ten thousand in the long form.
fn lives() -> usize {
    if std::env::var_os("LANDBRIDGE_LONG").is_some() { 10_000 } else { 1_000 }
}

/// Lives that go on at the same time.
const AT_ONCE: usize = 16;

/// One life, which ends by itself, is ended, or is let go of in the middle: all must come to the same. Gives what was
/// ended: whoever keeps that keeps nothing of the system's.
async fn live(round: usize) -> Option<Child> {
    let behaviour: &[&str] = match round % 5 {
        0..=2 => &["exit", "0"],
        3 => &["kill-self"],
        _ => &["echo"],
    };
    let child = spawn(&probe(behaviour)).await;
    match round % 5 {
        0 => assert!(child.wait().await.success()),
        1 => {
            assert!(child.stop(lb_process::Grace::default()).await.success());
            return Some(child);
        }
        3 => assert_eq!(child.wait().await, Exit::by_signal(9)),
        // Dropped while it ends, or in the middle of its life.
        _ => {}
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_short_lives_leave_no_zombie_and_no_descriptor() {
    let open = || std::fs::read_dir("/proc/self/fd").expect("fds").count();
    assert!(spawn(&probe(&["exit", "0"])).await.stop(lb_process::Grace::default()).await.success());
    let (before, start) = (open(), Instant::now());
    let (mut running, mut kept) = (JoinSet::new(), Vec::new());
    for round in 0..lives() {
        if AT_ONCE <= running.len() {
            kept.extend(running.join_next().await.and_then(|lived| lived.expect("it lived")));
        }
        running.spawn(live(round));
    }
    kept.extend(running.join_all().await.into_iter().flatten());
    until_none("zombies", zombies).await;
    until_none("descriptors", || (before..open()).collect()).await;
    assert_eq!(kept.len(), lives() / 5);
    println!("{} lives in {:?}", lives(), start.elapsed());
}

//! Nothing outlives us: children, grandchildren, and those that left by `setsid`.

use std::{
    process::{Command as StdCommand, Stdio},
    time::Duration,
};

use lb_process::{Child, Exit, Grace};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;

use crate::kit::{PROBE, SOON, marked, marker, probe, ready, shell, spawn, until_none, zombies};

/// A program with three descendants that never end by themselves.
async fn family(marker: &str) -> (Child, lb_process::ChildStdin, lb_process::ChildStdout) {
    let child = spawn(&probe(&["family", marker])).await;
    let (stdin, mut stdout) = child.take_pipes().expect("pipes");
    for _ in 0..4 {
        ready(&mut stdout).await;
    }
    assert_eq!(marked(marker).len(), 5, "supervisor, program, three descendants");
    (child, stdin, stdout)
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("pid");
    kill_process(pid, Signal::KILL).expect("killed");
}

#[tokio::test]
async fn after_a_stop_all_descendants_are_gone() {
    for grace in [Grace::default(), Grace::NONE] {
        let marker = marker();
        let (child, stdin, _stdout) = family(&marker).await;
        drop(stdin);
        child.stop(grace).await;
        assert_eq!(marked(&marker), [0; 0], "gone when stop returns");
    }
}

#[tokio::test]
async fn after_a_drop_all_descendants_are_gone() {
    let marker = marker();
    let (child, _stdin, _stdout) = family(&marker).await;
    drop(child);
    until_none("descendants", || marked(&marker)).await;
    until_none("zombies", zombies).await;
}

#[tokio::test]
async fn a_start_given_up_half_way_leaves_nothing() {
    let marker = marker();
    // Polled once: the supervisor is on its way.
    let command = probe(&["family", &marker]);
    let mut start = Box::pin(Child::spawn(&command));
    std::future::poll_fn(|cx| {
        assert!(start.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    drop(start);
    until_none("descendants", || marked(&marker)).await;
    until_none("zombies", zombies).await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_soon_after_it() {
    let marker = marker();
    let child = spawn(&probe(&["leave-family", &marker])).await;
    assert_eq!(child.wait().await, Exit::with_code(0));
    until_none("descendants", || marked(&marker)).await;
    // The output of all of them, closed by the last; how many got as far as to say so is a matter of luck.
    let (_stdin, mut stdout) = child.take_pipes().expect("pipes");
    let mut said = Vec::new();
    tokio::time::timeout(SOON, stdout.read_to_end(&mut said)).await.expect("in time").expect("end");
}

#[tokio::test]
async fn orphans_that_end_while_the_program_runs_are_waited_for() {
    let script = "for i in 1 2 3 4 5; do (sh -c 'exit 0' &) ; done; echo ready; read line";
    let child = spawn(&shell(script)).await;
    let (_stdin, mut stdout) = child.take_pipes().expect("pipes");
    ready(&mut stdout).await;
    let supervisor = parent_of(child.pid());
    let below = || {
        let list = std::fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).expect("children");
        list.split_whitespace().filter(|pid| *pid != child.pid().to_string()).map(String::from).collect::<Vec<_>>()
    };
    until_none("orphans", below).await;
}

#[tokio::test]
async fn kill_9_of_the_host_leaves_nothing_of_twenty_families() {
    let marker = marker();
    let mut host = StdCommand::new(PROBE);
    host.args(["host", "20", &marker]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut host = tokio::process::Command::from(host).spawn().expect("host");
    let mut line = [0; 6];
    let stdout = host.stdout.as_mut().expect("output");
    tokio::time::timeout(Duration::from_secs(30), stdout.read_exact(&mut line)).await.expect("in time").expect("ready");
    assert_eq!(&line, b"ready\n");
    assert_eq!(marked(&marker).len(), 1 + 20 * 5);
    host.start_kill().expect("killed");
    host.wait().await.expect("waited for");
    let took = until_none("descendants", || marked(&marker)).await;
    assert!(took < SOON, "{took:?}");
}

#[tokio::test]
async fn a_killed_supervisor_is_noticed_and_its_group_ended() {
    let marker = marker();
    let child = spawn(&shell(&format!("sh -c 'echo ready; while :; do sleep 1; done' {marker}; :"))).await;
    let (_stdin, mut stdout) = child.take_pipes().expect("pipes");
    ready(&mut stdout).await;
    kill(parent_of(child.pid()));
    let exit = tokio::time::timeout(SOON, child.wait()).await.expect("noticed");
    assert_eq!(exit, Exit::UNKNOWN);
    until_none("descendants", || marked(&marker)).await;
    until_none("zombies", zombies).await;
}

#[tokio::test]
async fn a_supervisor_outlives_signals_and_is_small() {
    let child = spawn(&probe(&["echo"])).await;
    let supervisor = parent_of(child.pid());
    let pid = i32::try_from(supervisor).ok().and_then(Pid::from_raw).expect("pid");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::PIPE, Signal::USR1, Signal::ALARM] {
        kill_process(pid, signal).expect("sent");
    }
    let status = std::fs::read_to_string(format!("/proc/{supervisor}/status")).expect("status");
    assert!(status.contains("Threads:\t1\n"), "{status}");
    let smaps = std::fs::read_to_string(format!("/proc/{supervisor}/smaps_rollup")).expect("memory");
    // Not "private": that counts pages of the program's file too when it was written a moment ago.
    let kib: u64 = smaps
        .lines()
        .filter_map(|line| line.strip_prefix("Anonymous:")?.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    assert!(kib <= 1024, "{kib} KiB\n{smaps}");
    assert_eq!(child.stop(Grace::default()).await, Exit::with_code(0), "it was there to see the end");
}

fn parent_of(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("parent");
    line.trim().parse().expect("number")
}

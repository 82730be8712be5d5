//! Faults on stdio that are about the process.

use std::io::ErrorKind;
use std::time::Duration;

use rustix::process::{Pid, Signal, getsid, kill_process, test_kill_process};

use super::peer::{PATIENCE, answer, calm, evil, strike};

#[tokio::test]
async fn die_before_reply_exits_with_3_and_says_nothing() {
    let mut process = evil(&["--fault", "die-before-reply"]).await;
    assert_eq!(process.ask(&calm("1", "x")).await.expect("an answer"), answer("1", "x"));
    process.send(strike("2", "x").as_bytes()).await.expect("sent");
    assert_eq!(process.line().await.expect("the end"), None);
    assert_eq!(process.partial(), b"");
    assert_eq!(process.wait().await.expect("it ends").code(), Some(3));
}

#[tokio::test]
async fn die_after_reply_answers_and_exits_with_3() {
    let mut process = evil(&["--fault", "die-after-reply"]).await;
    assert_eq!(process.ask(&strike("2", "last")).await.expect("an answer"), answer("2", "last"));
    assert_eq!(process.line().await.expect("the end"), None);
    assert_eq!(process.wait().await.expect("it ends").code(), Some(3));
}

#[tokio::test]
async fn close_stdout_ends_the_stream_but_not_the_process() {
    let mut process = evil(&["--fault", "close-stdout"]).await;
    process.send(strike("1", "x").as_bytes()).await.expect("sent");
    assert_eq!(process.line().await.expect("the end"), None);
    assert!(process.is_alive().expect("known"));
    process.send(calm("2", "x").as_bytes()).await.expect("it still reads");
    assert!(process.is_alive().expect("known"));
    process.close_stdin();
    assert_eq!(process.wait().await.expect("it ends").code(), Some(0));
}

/// Kills a process that this test was told of, however the test ends.
struct Reaper(Pid);

impl Drop for Reaper {
    fn drop(&mut self) {
        if let Err(error) = kill_process(self.0, Signal::KILL) {
            eprintln!("the copy was already gone: {error}");
        }
    }
}

#[tokio::test]
async fn ignore_term_survives_term_and_the_end_of_stdin_with_a_copy() {
    let mut process = evil(&["--fault", "ignore-term"]).await;
    let line = process.ask(&strike("1", "x")).await.expect("an answer");
    let numbers: Vec<i32> = line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let [.., pid, child] = numbers.as_slice() else { panic!("no pids in {line}") };
    assert_eq!(line, answer("1", &format!("pid {pid} child {child}")));
    let copy = Pid::from_raw(*child).expect("a pid");
    let reaper = Reaper(copy);
    assert_eq!(process.pid(), u32::try_from(*pid).ok());
    assert_eq!(getsid(Some(copy)).expect("it lives"), copy);

    process.terminate().expect("it lives");
    kill_process(copy, Signal::TERM).expect("it lives");
    assert_eq!(process.ask(&calm("2", "x")).await.expect("an answer"), answer("2", "x"));
    process.close_stdin();
    process.terminate().expect("it lives");
    process.patience = Duration::from_millis(500);
    assert!(process.wait().await.is_err(), "it ended");
    test_kill_process(copy).expect("the copy lives");

    let main = Pid::from_raw(*pid).expect("a pid");
    kill_process(main, Signal::KILL).expect("it lives");
    process.patience = PATIENCE;
    process.wait().await.expect("it ends");
    // The copy lives and holds stdout open; with it gone the stream ends.
    process.patience = Duration::from_millis(300);
    assert_eq!(process.line().await.map_err(|e| e.kind()), Err(ErrorKind::TimedOut));
    process.patience = PATIENCE;
    drop(reaper);
    assert_eq!(process.line().await.expect("the end"), None);
}

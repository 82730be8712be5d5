//! Ending programs, willing or not.

use std::time::{Duration, Instant};

use lb_process::{Child, Exit, Grace};

use crate::kit::{probe, ready, shell, spawn};

const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 0.1; done";

fn grace(close_ms: u64, terminate_ms: u64) -> Grace {
    Grace { close: Duration::from_millis(close_ms), terminate: Duration::from_millis(terminate_ms) }
}

async fn timed_stop(child: &Child, grace: Grace) -> (Exit, Duration) {
    let start = Instant::now();
    let exit = child.stop(grace).await;
    (exit, start.elapsed())
}

#[test]
fn the_usual_grace_is_two_and_three_seconds() {
    assert_eq!(Grace::default(), grace(2000, 3000));
}

#[tokio::test]
async fn a_polite_program_ends_when_its_input_does() {
    let child = spawn(&probe(&["echo"])).await;
    let (exit, took) = timed_stop(&child, Grace::default()).await;
    assert_eq!(exit, Exit::with_code(0));
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[tokio::test]
async fn one_that_ignores_its_input_gets_sigterm() {
    let child = spawn(&shell("trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done")).await;
    let (_stdin, mut stdout) = child.take_pipes().expect("pipes");
    ready(&mut stdout).await;
    let (exit, took) = timed_stop(&child, grace(100, 4000)).await;
    assert_eq!(exit, Exit::with_code(9));
    assert!(Duration::from_millis(100) <= took && took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn one_that_ignores_sigterm_too_gets_sigkill() {
    let child = spawn(&shell(STUBBORN)).await;
    let (_stdin, mut stdout) = child.take_pipes().expect("pipes");
    ready(&mut stdout).await;
    let (exit, took) = timed_stop(&child, grace(100, 200)).await;
    assert_eq!(exit, Exit::by_signal(9));
    assert!(Duration::from_millis(300) <= took && took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn a_stopped_process_still_hears_sigterm() {
    let child = spawn(&shell("trap 'exit 9' TERM; echo ready; kill -STOP $$; exit 1")).await;
    let (_stdin, mut stdout) = child.take_pipes().expect("pipes");
    ready(&mut stdout).await;
    assert_eq!(child.stop(grace(200, 4000)).await, Exit::with_code(9));
}

#[tokio::test]
async fn all_who_stop_at_once_get_the_same_end() {
    let child = spawn(&shell(STUBBORN)).await;
    let (_stdin, mut stdout) = child.take_pipes().expect("pipes");
    ready(&mut stdout).await;
    let start = Instant::now();
    let ends = tokio::join!(
        child.stop(Grace::default()),
        child.stop(grace(50, 50)),
        child.stop(Grace::default()),
        child.wait(),
    );
    let killed = Exit::by_signal(9);
    assert_eq!(ends, (killed, killed, killed, killed));
    assert!(start.elapsed() < Duration::from_millis(1500), "the most hurried one decides: {:?}", start.elapsed());
    let (exit, took) = timed_stop(&child, Grace::default()).await;
    assert_eq!(exit, killed);
    assert!(took < Duration::from_millis(100), "already gone: {took:?}");
}

#[tokio::test]
async fn a_later_stop_without_grace_hurries_an_earlier_one() {
    let child = spawn(&shell(STUBBORN)).await;
    let (_stdin, mut stdout) = child.take_pipes().expect("pipes");
    ready(&mut stdout).await;
    let patient = grace(60_000, 60_000);
    // Dropped half-way: the order stands.
    assert!(tokio::time::timeout(Duration::from_millis(20), child.stop(patient)).await.is_err());
    let (exit, took) = timed_stop(&child, Grace::NONE).await;
    assert_eq!(exit, Exit::by_signal(9));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn a_stop_that_nobody_awaits_any_more_still_stops() {
    let child = spawn(&shell(STUBBORN)).await;
    let (_stdin, mut stdout) = child.take_pipes().expect("pipes");
    ready(&mut stdout).await;
    assert!(tokio::time::timeout(Duration::from_millis(20), child.stop(grace(50, 50))).await.is_err());
    assert_eq!(child.wait().await, Exit::by_signal(9));
}

//! Thousands of clients that send a byte a second: whoever asks properly is answered as ever, and they are let go.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use lb_peers::harness::peer;
use lb_peers::slow::{Seen, raise_descriptors};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::{Setup, Size};
use crate::caller::Way;
use crate::history::{Measure, Quantity};
use crate::jobs::Job;
use crate::load::{Load, end};
use crate::world::{Ground, World};

const SOCKETS: u64 = 5_000;
/// Descriptors that a process needs beside those of the crowd.
const OTHER_DESCRIPTORS: u64 = 500;
const PAUSE: Duration = Duration::from_millis(10);
/// Longer than all of them take to come, to stay and to be let go.
const PATIENCE: Duration = Duration::from_secs(180);
/// What is counted.
const MEAN: &str = "slow sockets open at one time, in the mean";
const LEFT: &str = "slow sockets that are never let go";
const CUT: &str = "slow sockets that were let go";

/// Runs it.
pub async fn run(setup: Setup, size: Size, seed: u64) -> PathBuf {
    let seconds = size.time(20, 60).as_secs();
    // What is promised is 10 s for a head and 30 s for a body; the short form has no time for that.
    let timeouts = if seconds < 60 { &["--header-timeout", "6s", "--body-timeout", "8s"][..] } else { &[] };
    // The gateway inherits what this process may have; the crowd is a process of its own.
    let sockets = SOCKETS.min(raise_descriptors().saturating_sub(OTHER_DESCRIPTORS));
    let ground = Ground::new(&setup, "T24", seed);
    let servers = json!({ "child": ground.child(&json!({})) });
    let mut world = ground.build(servers, timeouts, &[]).await;
    let mut callers = Vec::new();
    for way in [Way::HttpLegacy, Way::HttpModern] {
        callers.push(world.caller(way, "child", "normal").await);
    }
    let (callers, _) = Load::saturate(callers, Job::QUICK, Duration::from_secs(1)).await;
    world.watch.phase("crowd");
    let load = Load::start(callers, Job::QUICK, PAUSE);
    let seen = crowd(&world, sockets, seconds).await;
    world.watch.phase("alone");
    end(load.stop().await.0).await;
    let history = world.history().clone();
    let Seen { opened, cut, longest_ms, least, .. } = seen;
    history.note(format!(
        "{sockets} slow sockets for {seconds} s: {opened} opened, {cut} let go, the longest after {longest_ms} ms; never fewer than {least}"
    ));
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    history.count(MEAN, count(seen.mean));
    // Those that were let go take a moment to come again, the longer the busier the machine is.
    history.bound_count(MEAN, count(sockets * 3 / 5), i64::MAX);
    history.count(LEFT, count(seen.left));
    history.bound_count(LEFT, 0, 0);
    history.count(CUT, count(cut));
    history.bound_count(CUT, count(sockets), i64::MAX);
    // A tenth of this is promised.
    history.bound(Measure::Percentile { client: "normal".to_owned(), percent: 99 }, 0, 1_000);
    // What is promised for any number of sessions, and a buffer for each socket.
    let room = (128 << 10) + 16 * count(sockets);
    let peak = Measure::Peak { of: Quantity::RssKib, from: "start".to_owned(), to: "crowd".to_owned() };
    history.bound(peak, i64::MIN, room);
    world.close().await
}

/// Starts the crowd and waits until it has gone.
async fn crowd(world: &World, sockets: u64, seconds: u64) -> Seen {
    let mut command = Command::new(peer(&world.ground.setup.binary, "slow"));
    command.arg(world.gateway.address.to_string());
    command.args(["--sockets", &sockets.to_string(), "--seconds", &seconds.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("the crowd starts");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let said = async {
        let mut last = String::new();
        while let Ok(Some(line)) = lines.next_line().await {
            if line == "ready" {
                world.history().fault(format!("{sockets} slow sockets"));
            }
            last = line;
        }
        last
    };
    let last = tokio::time::timeout(PATIENCE, said).await.expect("the crowd ends");
    serde_json::from_str(&last).expect("the crowd says what it saw")
}

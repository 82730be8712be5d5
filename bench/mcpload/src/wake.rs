//! How soon a request that waits for events is answered when one happens.
use crate::{args::TargetArgs, rpc::Call, session::StdioSession, stats::quantile};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// One session over stdio: a timer of 1 ms is set while `await_activity` waits, and the answer is timed from the moment
/// at which the timer is due.
pub async fn wake(target: &TargetArgs, rounds: usize) -> Result<()> {
    let command = target.stdio.as_ref().context("wake needs --stdio")?;
    let command: Vec<String> = command.split_whitespace().map(String::from).collect();
    let session = StdioSession::open(&command, &target.protocol_version, Duration::from_secs(30), true).await?;
    let tool = |name: &str, args: Value| Call::new("tools/call", json!({"name": name, "arguments": args}), false);
    let wait = tool("await_activity", json!({"timeout_ms": 5000}));
    let set = tool("set_timer", json!({"duration_ms": 1, "message": "x"}));
    // Events of the start are not what is measured.
    while session.request(&tool("await_activity", json!({"timeout_ms": 200}))).await?.contains("\"events\":[{") {}
    let mut late = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let waiting = session.clone();
        let (call, started) = (wait.clone(), Instant::now());
        let answer = tokio::spawn(async move {
            let answer = waiting.request(&call).await;
            (answer, Instant::now())
        });
        tokio::time::sleep(Duration::from_millis(2)).await;
        let asked = Instant::now();
        session.request(&set).await?;
        let (answer, answered) = answer.await?;
        anyhow::ensure!(
            answer?.contains("timer_expired"),
            "the wait ended without its event after {:?}",
            started.elapsed()
        );
        late.push(answered.duration_since(asked).saturating_sub(Duration::from_millis(1)).as_nanos() as u64);
    }
    late.sort_unstable();
    println!(
        "{}",
        json!({"rounds": rounds, "wake_p50_us": quantile(&late, 0.5), "wake_p99_us": quantile(&late, 0.99)})
    );
    Ok(())
}

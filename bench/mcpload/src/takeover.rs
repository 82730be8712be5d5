//! Sessions of a node that ends, used at another one: what the first call costs there, and what the next.
use crate::{args::TakeoverArgs, proc, rpc::Call, session::HttpSession, stats::quantile, target::authority};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long the node may take to end.
const END_MAX: Duration = Duration::from_secs(60);
/// How long a node that was killed may go unmissed.
const MISSED_MAX: Duration = Duration::from_secs(60);

pub async fn takeover(a: &TakeoverArgs) -> Result<()> {
    let t = a.target.target()?;
    let deadline = Duration::from_secs_f64(a.load.timeout);
    let http = t.http(&a.target.protocol_version, deadline)?.context("takeover needs --url")?;
    let call = t.call(&a.load, &a.target.tool)?;
    let mut sessions = Vec::with_capacity(a.sessions);
    for _ in 0..a.sessions {
        let mut session = HttpSession::open(http.clone()).await?;
        session.request(&call).await?;
        session.go_to(&authority(&a.then));
        sessions.push(session);
    }
    end(a.stop, if a.kill { proc::Ending::Killed } else { proc::Ending::Told }).await?;
    let missed = if a.kill { Some(until_missed(&mut sessions, &call).await?) } else { None };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for session in &mut sessions {
        for times in [&mut first, &mut second] {
            let start = Instant::now();
            session.request(&call).await.context("after the takeover")?;
            times.push(start.elapsed().as_nanos() as u64);
        }
    }
    first.sort_unstable();
    second.sort_unstable();
    println!(
        "{}",
        json!({
            "sessions": a.sessions, "first_p50_us": quantile(&first, 0.5), "first_p99_us": quantile(&first, 0.99),
            "second_p50_us": quantile(&second, 0.5), "missed_ms": missed.map(|time| time.as_secs_f64() * 1000.0),
        })
    );
    Ok(())
}

/// How long it is before a session of a node that was killed is served elsewhere. It is not used again: its first call
/// is over.
async fn until_missed(sessions: &mut Vec<HttpSession>, call: &Call) -> Result<Duration> {
    let mut session = sessions.pop().context("no session")?;
    let start = Instant::now();
    while let Err(error) = session.request(call).await {
        if MISSED_MAX < start.elapsed() {
            bail!("nobody took a session over within {MISSED_MAX:?}: {error:#}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(start.elapsed())
}

/// Ends a process and waits until it has ended.
async fn end(pid: i32, how: proc::Ending) -> Result<()> {
    proc::end(pid, how)?;
    let start = Instant::now();
    while proc::is_running(pid) {
        if END_MAX < start.elapsed() {
            bail!("process {pid} did not end within {END_MAX:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

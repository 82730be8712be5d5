//! Sessions of a node that ends, used at another one: what the first call costs there, and what the next.
use crate::{args::TakeoverArgs, proc, session::HttpSession, stats::quantile, target::authority};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long the node may take to end.
const END_MAX: Duration = Duration::from_secs(60);

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
    end(a.stop).await?;
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
            "second_p50_us": quantile(&second, 0.5),
        })
    );
    Ok(())
}

/// Tells a process to end and waits until it has.
async fn end(pid: i32) -> Result<()> {
    proc::terminate(pid)?;
    let start = Instant::now();
    while proc::is_running(pid) {
        if END_MAX < start.elapsed() {
            bail!("process {pid} did not end within {END_MAX:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

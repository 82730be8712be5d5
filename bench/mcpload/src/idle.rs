//! Many open sessions at rest: what each costs in memory, children and descriptors.
use crate::{
    args::IdleArgs,
    proc::{self, ProcStat},
    rpc::Call,
    session::{HttpSession, HttpTarget},
    stats::quantile,
};
use anyhow::{Context, Result};
use hyper::{Response, body::Incoming};
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinSet};

/// Opens, holds, closes; the process is metered before, while and after.
pub async fn idle(a: &IdleArgs) -> Result<()> {
    let t = a.target.target()?;
    let deadline = Duration::from_secs_f64(a.load.timeout);
    let http = t.http(&a.target.protocol_version, deadline)?.context("idle needs --url")?;
    let pid = t.pid.context("idle needs --pid")?;
    let hold = Duration::from_secs_f64(a.hold);
    let before = proc::snapshot(pid);
    let call = t.call(&a.load, &a.target.tool)?;
    let mut opened = open_all(a, &http, &call).await?;
    tokio::time::sleep(hold).await;
    let at = proc::snapshot(pid);
    if !a.leave {
        for (s, _) in &mut opened.held {
            s.close().await;
        }
    }
    let streams = opened.held.iter().filter(|h| h.1.is_some()).count();
    let kept = opened.held.len();
    opened.held.clear();
    tokio::time::sleep(hold).await;
    let after = proc::snapshot(pid);
    print(a, &t.name, &opened, (kept, streams), [before, at, after]);
    Ok(())
}

/// A session with the stream that it may hold open.
type Held = (HttpSession, Option<Response<Incoming>>);

struct Opened {
    held: Vec<Held>,
    /// How long each took, ascending.
    open_ns: Vec<u64>,
    seconds: f64,
    errors: u64,
    first_error: Option<String>,
}

async fn open_all(a: &IdleArgs, http: &HttpTarget, call: &Call) -> Result<Opened> {
    let gate = Arc::new(Semaphore::new(a.ramp.max(1)));
    let start = Instant::now();
    let mut all = JoinSet::new();
    for _ in 0..a.sessions {
        let (gate, http, call) = (gate.clone(), http.clone(), call.clone());
        let (listen, calls, leave) = (a.listen, a.call, a.leave);
        all.spawn(async move {
            let _permit = gate.acquire().await?;
            let t0 = Instant::now();
            let mut s = HttpSession::open(http).await?;
            let opened = t0.elapsed().as_nanos() as u64;
            let stream = if listen { s.listen().await? } else { None };
            for _ in 0..calls {
                s.request(&call).await?;
            }
            if leave {
                s.hang_up();
            }
            anyhow::Ok(((s, stream), opened))
        });
    }
    let mut o = Opened { held: Vec::new(), open_ns: Vec::new(), seconds: 0.0, errors: 0, first_error: None };
    while let Some(x) = all.join_next().await {
        match x? {
            Ok((held, ns)) => {
                o.open_ns.push(ns);
                o.held.push(held);
            }
            Err(e) => {
                o.errors += 1;
                o.first_error.get_or_insert(format!("{e:#}"));
            }
        }
    }
    o.seconds = start.elapsed().as_secs_f64();
    o.open_ns.sort_unstable();
    Ok(o)
}

fn print(a: &IdleArgs, name: &str, o: &Opened, (kept, streams): (usize, usize), [before, at, after]: [ProcStat; 3]) {
    let per = |k: &dyn Fn(&ProcStat) -> u64| (k(&at) as f64 - k(&before) as f64) / kept.max(1) as f64;
    let out = json!({
        "label": name, "sessions": a.sessions, "held": kept, "streams": streams, "errors": o.errors,
        "first_error": o.first_error, "open_s": o.seconds,
        "open_p50_us": quantile(&o.open_ns, 0.5), "open_p99_us": quantile(&o.open_ns, 0.99),
        "rss_kb_per_session": per(&|p| p.rss_kb), "tree_rss_kb_per_session": per(&|p| p.rss_kb + p.child_rss_kb),
        "before": before, "at": at, "after": after,
    });
    println!(
        "{:<26} held {}/{} streams {} in {:.2} s (open p50 {:.1} ms)  rss {:.1} -> {:.1} MB = {:.1} KiB/session  children {} -> {} (+{:.0} KiB/session tree)  fds {} -> {}  after close: rss {:.1} MB children {}  {}",
        name,
        kept,
        a.sessions,
        streams,
        o.seconds,
        quantile(&o.open_ns, 0.5) / 1000.0,
        before.rss_kb as f64 / 1024.0,
        at.rss_kb as f64 / 1024.0,
        per(&|p| p.rss_kb),
        before.children,
        at.children,
        per(&|p| p.rss_kb + p.child_rss_kb),
        before.fds,
        at.fds,
        after.rss_kb as f64 / 1024.0,
        after.children,
        o.first_error.as_deref().unwrap_or("")
    );
    eprintln!("{out}");
}

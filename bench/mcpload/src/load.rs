//! The closed loop: warm up, then call and time until the calls or the seconds are used up.
use crate::{
    args::LoadArgs,
    proc,
    report::Report,
    rpc::{self, Call},
    session::Session,
    stats::quantile,
    target::Target,
};
use anyhow::{Result, anyhow};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// A worker that meets more errors than this gives up.
const ERRORS_MAX: u64 = 100;

/// Runs the load on one target; errors of single calls are counted, not returned.
pub async fn run_load(t: &Target, load: &LoadArgs, tool: &str, version: &str) -> Result<Report> {
    let deadline = Duration::from_secs_f64(load.timeout);
    let call = t.call(load, tool)?;
    let want = (load.method == "tools/call" && !load.no_verify && t.echoes()).then(|| "x".repeat(load.payload));
    let c = load.concurrency.max(1);
    let sessions = t.sessions(c, version, deadline).await?;
    let pid = t.pid.or(match &sessions[0] {
        Session::Stdio(s) => Some(s.pid),
        _ => None,
    });
    let sessions = warm_up(sessions, &call, load.warmup).await?;

    let meter = Meter::start(pid);
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(load.max_seconds);
    let mut workers = JoinSet::new();
    for (i, s) in sessions.into_iter().enumerate() {
        workers.spawn(work(s, call.clone(), share(load.calls, i, c), want.clone(), end));
    }
    let mut r = Report {
        label: t.name.clone(),
        method: load.method.clone(),
        concurrency: c,
        payload: load.payload,
        ..Default::default()
    };
    let (mut lat, mut sessions) = (Vec::new(), Vec::new());
    while let Some(x) = workers.join_next().await {
        let done = x?;
        lat.extend(done.lat);
        r.errors += done.errors;
        r.first_error = r.first_error.or(done.first_error);
        r.reconnects += done.session.reconnects();
        sessions.push(done.session);
    }
    r.seconds = start.elapsed().as_secs_f64();
    meter.stop(&mut r, lat.len());
    close(sessions).await;
    lat.sort_unstable();
    times(&mut r, &lat);
    Ok(r)
}

/// Part `i` of `total` calls over `c` workers.
fn share(total: u64, i: usize, c: usize) -> u64 {
    total / c as u64 + u64::from((i as u64) < total % c as u64)
}

/// At the concurrency of the load.
async fn warm_up(sessions: Vec<Session>, call: &Call, calls: u64) -> Result<Vec<Session>> {
    let c = sessions.len();
    let mut workers = JoinSet::new();
    for (i, mut s) in sessions.into_iter().enumerate() {
        let (call, n) = (call.clone(), share(calls, i, c));
        workers.spawn(async move {
            for _ in 0..n {
                let _ = s.request(&call).await;
            }
            s
        });
    }
    let mut warm = Vec::with_capacity(c);
    while let Some(s) = workers.join_next().await {
        warm.push(s?);
    }
    Ok(warm)
}

/// What one worker comes back with; times in nanoseconds, of good calls only.
struct Done {
    session: Session,
    lat: Vec<u64>,
    errors: u64,
    first_error: Option<String>,
}

async fn work(session: Session, call: Call, n: u64, want: Option<String>, end: Instant) -> Done {
    let mut done = Done { session, lat: Vec::with_capacity(n as usize), errors: 0, first_error: None };
    for _ in 0..n {
        let t0 = Instant::now();
        if t0 >= end {
            break;
        }
        let reply = done.session.request(&call).await;
        let ns = t0.elapsed().as_nanos() as u64;
        let reply = match (reply, &want) {
            (Ok(r), Some(w)) if !r.contains(w.as_str()) => {
                Err(anyhow!("the reply lacks the payload: {}", rpc::clip(&r)))
            }
            (r, _) => r,
        };
        match reply {
            Ok(_) => done.lat.push(ns),
            Err(e) => {
                done.errors += 1;
                done.first_error.get_or_insert_with(|| format!("{e:#}"));
                if done.errors > ERRORS_MAX {
                    break;
                }
            }
        }
    }
    done
}

/// CPU of the metered process and of the generator, from start to stop.
struct Meter {
    pid: Option<i32>,
    before: Option<proc::ProcStat>,
    own_before: proc::ProcStat,
}

impl Meter {
    fn start(pid: Option<i32>) -> Self {
        Meter { pid, before: pid.map(proc::snapshot), own_before: proc::snapshot(own_pid()) }
    }

    fn stop(self, r: &mut Report, calls: usize) {
        let (after, own_after) = (self.pid.map(proc::snapshot), proc::snapshot(own_pid()));
        let n = calls.max(1) as f64;
        r.own_cpu_us_per_call = own_after.cpu_us.saturating_sub(self.own_before.cpu_us) as f64 / n;
        if let (Some(b), Some(a)) = (self.before, after) {
            let d = a.cpu_us.saturating_sub(b.cpu_us) as f64;
            let k = a.child_cpu_us.saturating_sub(b.child_cpu_us) as f64;
            r.cpu_us_per_call = d / n;
            r.tree_cpu_us_per_call = (d + k) / n;
            r.proc = Some(a);
        }
    }
}

fn own_pid() -> i32 {
    std::process::id() as i32
}

async fn close(mut sessions: Vec<Session>) {
    for s in &mut sessions {
        s.close().await;
    }
    if let Some(Session::Stdio(s)) = sessions.first() {
        s.kill();
    }
}

fn times(r: &mut Report, sorted: &[u64]) {
    r.calls = sorted.len() as u64;
    r.calls_per_s = sorted.len() as f64 / r.seconds;
    r.p50_us = quantile(sorted, 0.50);
    r.p90_us = quantile(sorted, 0.90);
    r.p99_us = quantile(sorted, 0.99);
    r.max_us = sorted.last().map_or(0.0, |v| *v as f64 / 1000.0);
    r.mean_us = sorted.iter().sum::<u64>() as f64 / sorted.len().max(1) as f64 / 1000.0;
}

#[cfg(test)]
mod tests {
    #[test]
    fn shares_add_up_to_the_total() {
        for (total, c) in [(0, 1), (1, 3), (10, 3), (10, 5), (2, 8)] {
            let all: Vec<u64> = (0..c).map(|i| super::share(total, i, c)).collect();
            assert_eq!(all.iter().sum::<u64>(), total, "{total} over {c}: {all:?}");
        }
    }
}

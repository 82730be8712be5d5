//! From spawn to the first reply of `initialize` and to the first tools.
use crate::{
    args::TargetArgs,
    proc,
    rpc::Call,
    session::{Era, HttpSession, HttpTarget, StdioSession},
    stats::median,
    target::Target,
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::{
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::process::{Child, Command};

const LIMIT: Duration = Duration::from_secs(90);

#[derive(Default, Clone)]
struct Round {
    initialize_ms: f64,
    tools_list_ms: f64,
    tools: usize,
    proc: proc::ProcStat,
    error: Option<String>,
}

/// Medians over several starts, printed as a line and as JSON.
pub async fn startup(a: &TargetArgs, rounds: usize, serve: &[String]) -> Result<()> {
    let t = a.target()?;
    let mut rs = Vec::new();
    for _ in 0..rounds {
        rs.push(
            once(&t, serve, &a.protocol_version)
                .await
                .unwrap_or_else(|e| Round { error: Some(format!("{e:#}")), ..Default::default() }),
        );
    }
    let ok: Vec<&Round> = rs.iter().filter(|r| r.error.is_none()).collect();
    let m = |f: &dyn Fn(&Round) -> f64| median(ok.iter().map(|r| f(r)).collect());
    let out = json!({
        "label": t.name, "rounds": rounds, "ok": ok.len(),
        "error": rs.iter().find_map(|r| r.error.clone()),
        "initialize_ms": m(&|r| r.initialize_ms), "tools_list_ms": m(&|r| r.tools_list_ms),
        "initialize_ms_min": ok.iter().map(|r| r.initialize_ms).fold(f64::MAX, f64::min),
        "tools": m(&|r| r.tools as f64), "rss_kb": m(&|r| r.proc.rss_kb as f64),
        "children": m(&|r| r.proc.children as f64), "child_rss_kb": m(&|r| r.proc.child_rss_kb as f64),
    });
    println!(
        "{:<26} init {:>8.1} ms  tools/list {:>8.1} ms  tools {}  rss {:.1} MB  children {} ({:.1} MB)  ok {}/{} {}",
        t.name,
        out["initialize_ms"].as_f64().unwrap_or(0.0),
        out["tools_list_ms"].as_f64().unwrap_or(0.0),
        out["tools"],
        out["rss_kb"].as_f64().unwrap_or(0.0) / 1024.0,
        out["children"],
        out["child_rss_kb"].as_f64().unwrap_or(0.0) / 1024.0,
        ok.len(),
        rounds,
        out["error"].as_str().unwrap_or("")
    );
    eprintln!("{out}");
    Ok(())
}

async fn once(t: &Target, serve: &[String], version: &str) -> Result<Round> {
    let list = Call::new("tools/list", json!({}), t.era == Era::Modern);
    match t.http(version, Duration::from_secs(20))? {
        None => over_stdio(t, version, &list).await,
        Some(http) => over_http(serve, http, &list).await,
    }
}

async fn over_stdio(t: &Target, version: &str, list: &Call) -> Result<Round> {
    let (mut r, t0) = (Round::default(), Instant::now());
    let cmd = t.command.as_ref().context("no command")?;
    let s = StdioSession::spawn(cmd, LIMIT, true)?;
    s.initialize(version).await?;
    r.initialize_ms = ms(t0);
    s.initialized().await?;
    while t0.elapsed() < LIMIT {
        r.tools = tools_in(&s.request(list).await?);
        if r.tools > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    r.tools_list_ms = ms(t0);
    r.proc = proc::snapshot(s.pid);
    s.kill();
    Ok(r)
}

/// Spawns in a process group of its own so that the whole tree can be ended.
async fn over_http(serve: &[String], http: HttpTarget, list: &Call) -> Result<Round> {
    let (mut r, t0) = (Round::default(), Instant::now());
    let (cmd, args) = serve.split_first().context("give the command after --")?;
    let mut child = Command::new(cmd)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let pid = child.id().context("gone at once")? as i32;
    let up = until_tools(&mut child, &http, list, &mut r, t0).await;
    r.proc = proc::snapshot(pid);
    end_group(child, pid).await;
    up.map(|()| r)
}

async fn until_tools(child: &mut Child, http: &HttpTarget, list: &Call, r: &mut Round, t0: Instant) -> Result<()> {
    while t0.elapsed() < LIMIT {
        if let Some(st) = child.try_wait()? {
            bail!("the server ended: {st}");
        }
        if tokio::net::TcpStream::connect(&http.authority).await.is_ok() && tools_seen(http, list, r, t0).await? {
            return Ok(());
        }
        // Short beside the times that are looked for.
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    bail!("no tools within {LIMIT:?}")
}

/// One attempt at the handshake and the list.
async fn tools_seen(http: &HttpTarget, list: &Call, r: &mut Round, t0: Instant) -> Result<bool> {
    let mut s = HttpSession::new(http.clone());
    let up = match http.era {
        Era::Modern => s.request(&Call::new("server/discover", json!({}), true)).await.is_ok(),
        _ => s.initialize().await.is_ok(),
    };
    if !up {
        return Ok(false);
    }
    if r.initialize_ms == 0.0 {
        r.initialize_ms = ms(t0);
    }
    if http.era != Era::Modern {
        s.initialized().await?;
    }
    r.tools = s.request(list).await.map(|x| tools_in(&x)).unwrap_or(0);
    if r.tools > 0 {
        r.tools_list_ms = ms(t0);
    }
    Ok(r.tools > 0)
}

async fn end_group(mut child: Child, pid: i32) {
    // SAFETY: kill touches no memory of ours; the group is the one led by the child spawned above.
    unsafe { libc::kill(-pid, libc::SIGTERM) };
    if tokio::time::timeout(Duration::from_secs(3), child.wait()).await.is_err() {
        // SAFETY: as before.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
        let _ = child.wait().await;
    }
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

fn tools_in(result: &str) -> usize {
    serde_json::from_str::<Value>(result).ok().and_then(|v| v["tools"].as_array().map(Vec::len)).unwrap_or(0)
}

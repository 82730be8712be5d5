//! The same load on several targets in turn, and how they relate.
use crate::{
    args::{CompareArgs, LoadArgs},
    load::run_load,
    proc::ProcStat,
    report::{HEAD, Report, row},
    stats::median,
    target::Target,
};
use anyhow::{Context, Result};
use serde_json::{Value, json};

const SUMMARY_HEAD: &str = "target                      calls/s  x-first     p50us  +p50us     p99us  +p99us  cpu/call tree/call  rssMB  hwmMB kids  err";

/// Interleaved (A,B,A,B,...), so that noise longer than a round falls on all of them.
pub async fn compare(a: &CompareArgs) -> Result<()> {
    let text = std::fs::read_to_string(&a.targets).with_context(|| format!("cannot read {}", a.targets.display()))?;
    let targets: Vec<Target> = serde_json::from_str(&text).context("targets file")?;
    let all = rounds(&targets, a).await;
    if !a.load.json {
        println!(
            "\nmedians of {} rounds; ratios and added latency are medians of per-round pairs with `{}`",
            a.rounds, targets[0].name
        );
        println!("{SUMMARY_HEAD}");
    }
    for (t, reports) in targets.iter().zip(&all) {
        let out = summary(&t.name, &a.load, reports, &all[0]);
        if !a.load.json {
            println!("{}", summary_row(&t.name, &out));
        }
        eprintln!("{out}");
    }
    Ok(())
}

/// The reports of each target, round by round.
async fn rounds(targets: &[Target], a: &CompareArgs) -> Vec<Vec<Report>> {
    let mut all: Vec<Vec<Report>> = targets.iter().map(|_| Vec::with_capacity(a.rounds)).collect();
    if !a.load.json {
        println!("{HEAD}");
    }
    for _ in 0..a.rounds {
        for (t, reports) in targets.iter().zip(&mut all) {
            let r = run_load(t, &a.load, &a.tool, &a.protocol_version).await.unwrap_or_else(|e| Report {
                label: t.name.clone(),
                errors: 1,
                first_error: Some(format!("{e:#}")),
                ..Default::default()
            });
            if !a.load.json {
                println!("{}", row(&r));
            }
            reports.push(r);
        }
    }
    all
}

/// Medians of one target; ratios and differences are per round with `base`, then the median.
fn summary(name: &str, load: &LoadArgs, reports: &[Report], base: &[Report]) -> Value {
    let ok: Vec<(&Report, &Report)> = reports.iter().zip(base).filter(|(r, b)| r.calls > 0 && b.calls > 0).collect();
    let m = |f: &dyn Fn(&Report, &Report) -> f64| median(ok.iter().map(|(r, b)| f(r, b)).collect());
    let p = |f: &dyn Fn(&ProcStat) -> u64| {
        median(ok.iter().filter_map(|(r, _)| r.proc.as_ref()).map(|x| f(x) as f64).collect())
    };
    let each = reports
        .iter()
        .map(|r| json!({"p50_us": r.p50_us, "calls_per_s": r.calls_per_s, "cpu_us": r.cpu_us_per_call}))
        .collect::<Vec<_>>();
    json!({
        "label": name, "method": load.method, "concurrency": load.concurrency, "payload": load.payload,
        "rounds": ok.len(),
        // Round by round, so that a reader can pair any two targets of the run.
        "each": each,
        "calls": reports.iter().map(|r| r.calls).sum::<u64>(),
        "errors": reports.iter().map(|r| r.errors).sum::<u64>(),
        "first_error": reports.iter().find_map(|r| r.first_error.clone()),
        "reconnects": reports.iter().map(|r| r.reconnects).sum::<u64>(),
        "calls_per_s": m(&|r, _| r.calls_per_s), "throughput_ratio": m(&|r, b| r.calls_per_s / b.calls_per_s),
        "p50_us": m(&|r, _| r.p50_us), "added_p50_us": m(&|r, b| r.p50_us - b.p50_us),
        "p50_ratio": m(&|r, b| r.p50_us / b.p50_us),
        "p90_us": m(&|r, _| r.p90_us),
        "p99_us": m(&|r, _| r.p99_us), "added_p99_us": m(&|r, b| r.p99_us - b.p99_us),
        "max_us": m(&|r, _| r.max_us),
        "cpu_us_per_call": m(&|r, _| r.cpu_us_per_call), "tree_cpu_us_per_call": m(&|r, _| r.tree_cpu_us_per_call),
        "own_cpu_us_per_call": m(&|r, _| r.own_cpu_us_per_call),
        "rss_kb": p(&|x| x.rss_kb), "hwm_kb": p(&|x| x.hwm_kb),
        "children": p(&|x| x.children), "child_rss_kb": p(&|x| x.child_rss_kb),
    })
}

fn summary_row(name: &str, out: &Value) -> String {
    let g = |k: &str| out[k].as_f64().unwrap_or(0.0);
    format!(
        "{:<26} {:>8.0} {:>8.3} {:>9.0} {:>7.0} {:>9.0} {:>7.0} {:>9.1} {:>9.1} {:>6.1} {:>6.1} {:>4} {:>4} {}",
        name,
        g("calls_per_s"),
        g("throughput_ratio"),
        g("p50_us"),
        g("added_p50_us"),
        g("p99_us"),
        g("added_p99_us"),
        g("cpu_us_per_call"),
        g("tree_cpu_us_per_call"),
        g("rss_kb") / 1024.0,
        g("hwm_kb") / 1024.0,
        g("children"),
        out["errors"],
        out["first_error"].as_str().unwrap_or("")
    )
}

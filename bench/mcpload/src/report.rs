//! What one run of load came to, and how it is printed.
use crate::proc::ProcStat;
use serde::Serialize;

#[derive(Serialize, Clone, Default)]
pub struct Report {
    pub label: String,
    pub method: String,
    pub concurrency: usize,
    pub payload: usize,
    pub calls: u64,
    pub errors: u64,
    pub first_error: Option<String>,
    pub reconnects: u64,
    pub seconds: f64,
    pub calls_per_s: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    pub mean_us: f64,
    /// CPU of the metered process alone / with its descendants, per good call.
    pub cpu_us_per_call: f64,
    pub tree_cpu_us_per_call: f64,
    /// CPU of the generator per good call (who is the bottleneck?)
    pub own_cpu_us_per_call: f64,
    pub proc: Option<ProcStat>,
}

pub const HEAD: &str = "target                        c    calls  err   calls/s     p50us     p90us     p99us     maxus  cpu/call  tree/call  rssMB  hwmMB kids";

pub fn row(r: &Report) -> String {
    let p = r.proc.unwrap_or_default();
    format!(
        "{:<26} {:>4} {:>8} {:>4} {:>9.0} {:>9.0} {:>9.0} {:>9.0} {:>9.0} {:>9.1} {:>10.1} {:>6.1} {:>6.1} {:>4}",
        r.label,
        r.concurrency,
        r.calls,
        r.errors,
        r.calls_per_s,
        r.p50_us,
        r.p90_us,
        r.p99_us,
        r.max_us,
        r.cpu_us_per_call,
        r.tree_cpu_us_per_call,
        p.rss_kb as f64 / 1024.0,
        p.hwm_kb as f64 / 1024.0,
        p.children
    )
}

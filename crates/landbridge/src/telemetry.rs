//! `/metrics`: what the gateway counts, and what the system knows of this process.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use lb_gateway::Gateway;
use lb_telemetry::{Family, Kind, Point, Value};

/// When this program began, in seconds of Unix time.
static STARTED: LazyLock<f64> =
    LazyLock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64());

/// The page that Prometheus reads.
pub fn page(gateway: &Gateway) -> lb_http::Pages {
    LazyLock::force(&STARTED);
    let gateway = gateway.clone();
    let source = move |path: &str, _: Option<&str>| {
        (path == "/metrics").then(|| lb_http::Page {
            status: 200,
            content_type: lb_telemetry::CONTENT_TYPE,
            body: lb_telemetry::exposition(&measured(&gateway)).into(),
            content_security_policy: "default-src 'none'".to_owned(),
        })
    };
    lb_http::Pages { path: "/metrics", source: std::sync::Arc::new(source) }
}

/// All that is measured.
fn measured(gateway: &Gateway) -> Vec<Family> {
    let mut families = gateway.metrics();
    let up = "Whether what must outlive this process can be stored; memory is always there.";
    families.push(Family::single("landbridge_store_up", up, Kind::Gauge, 1));
    families.extend(process());
    families
}

/// What the system knows of this process, under the names that are usual. What it does not tell is left out.
fn process() -> Vec<Family> {
    let real = |name, help, kind, value| {
        let point = Point { labels: Vec::new(), value: Value::Real(value) };
        Family { name, help, kind, points: vec![point] }
    };
    let whole =
        |name, help, value: u64| Family::single(name, help, Kind::Gauge, i64::try_from(value).unwrap_or(i64::MAX));
    let mut families =
        vec![real("process_start_time_seconds", "When this process began, in Unix time.", Kind::Gauge, *STARTED)];
    if let Some(bytes) = resident() {
        families.push(whole("process_resident_memory_bytes", "Memory that is really in use.", bytes));
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // Without the one that lists them.
        let open = open.count().saturating_sub(1);
        families.push(whole("process_open_fds", "Open file descriptors.", open as u64));
    }
    if let Some(seconds) = cpu_seconds() {
        families.push(real("process_cpu_seconds_total", "Processor time that was used.", Kind::Counter, seconds));
    }
    families
}

fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Of all threads, those that have ended included; in the clock that Linux has for it, of a hundred ticks per second.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program stands in brackets and may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u32>);
    let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    Some((f64::from(user) + f64::from(system)) / 100.0)
}

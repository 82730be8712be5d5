//! `/metrics` and the export to a collector: what the gateway counts, what the system knows of this process, and traces.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use lb_backend::Mailbox;
use lb_exchange::{Secret, Tasks};
use lb_gateway::Gateway;
use lb_http::Shed;
use lb_store::Store;
use lb_telemetry::{Courier, Destination, Exporter, Family, Kind, Point, Sent, Settings, Signal, Tracer, Value};

use crate::run::Failure;

/// When this program began, in seconds of Unix time.
static STARTED: LazyLock<f64> =
    LazyLock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64());

/// What is measured.
#[derive(Clone)]
pub struct Watched {
    pub gateway: Gateway,
    /// The HTTP side, where there is one.
    pub shed: Option<Arc<Shed>>,
    /// Requests that other nodes have answered, where there is an HTTP side.
    pub forwarded: Option<Arc<AtomicU64>>,
    /// What keeps sessions, where something does.
    pub store: Option<Arc<dyn Store>>,
    /// Where who did what is written, if anywhere.
    pub audit: Option<crate::logs::Audit>,
}

impl Watched {
    /// A gateway without an HTTP side that keeps nothing.
    pub fn alone(gateway: &Gateway) -> Self {
        Self { gateway: gateway.clone(), shed: None, forwarded: None, store: None, audit: None }
    }
}

/// What the environment says of export.
#[derive(Default)]
pub struct Telemetry {
    settings: Option<Settings>,
    tracer: Option<Arc<Tracer>>,
}

impl Telemetry {
    /// Reads the variables of OpenTelemetry.
    pub fn read() -> Result<Self, Failure> {
        let settings = Settings::read(|name| std::env::var(name).ok())
            .map_err(|error| Failure::usage(format!("{error}; OTEL_SDK_DISABLED=true switches export off")))?;
        let traced = settings.as_ref().filter(|settings| settings.traces.is_some());
        let tracer = traced.map(|settings| Tracer::new(settings.sampler));
        Ok(Self { settings, tracer })
    }

    /// Makes spans, where they are exported.
    pub fn tracer(&self) -> Option<Arc<Tracer>> {
        self.tracer.clone()
    }

    /// Begins to export, if that is wanted.
    pub fn export(self, watched: &Watched, tasks: &Tasks) -> Result<Exporting, Failure> {
        let Some(settings) = self.settings else { return Ok(Exporting(None)) };
        let tracer = self.tracer.unwrap_or_else(|| Tracer::new(settings.sampler));
        let courier = Collectors::new(&settings)?;
        let (watched, dropping) = (watched.clone(), tracer.clone());
        let measured = move || {
            let mut families = measured(&watched);
            let help = "Spans that were not exported.";
            let mut dropped = Family::new("landbridge_spans_dropped_total", help, Kind::Counter);
            dropped.count(Vec::new(), dropping.dropped());
            families.push(dropped);
            families
        };
        let exporter = Arc::new(Exporter::new(settings, tracer, Box::new(courier), Box::new(measured)));
        let (running, stopping) = (exporter.clone(), tasks.clone());
        tasks.spawn(async move {
            tokio::select! {
                () = running.run() => {}
                () = stopping.stopping() => {}
            }
        });
        Ok(Exporting(Some(exporter)))
    }
}

/// The export that goes on in the background.
pub struct Exporting(Option<Arc<Exporter>>);

impl Exporting {
    /// Sends what is left, within two seconds; for the end, when nothing more can come.
    pub async fn finish(self) {
        if let Some(exporter) = self.0 {
            exporter.flush().await;
        }
    }
}

/// Where spans and metrics go.
struct Collectors {
    traces: Option<Mailbox>,
    metrics: Option<Mailbox>,
}

impl Collectors {
    fn new(settings: &Settings) -> Result<Self, Failure> {
        let open = |to: &Option<Destination>| {
            let Some(to) = to else { return Ok(None) };
            let headers: Vec<_> =
                to.headers.iter().map(|(name, value)| (name.clone(), Secret::new(value.as_str()))).collect();
            // Tasks of its own: the last spans are sent when all others have ended.
            Mailbox::new("collector", &to.url, &headers, Tasks::default())
                .map(Some)
                .map_err(|error| Failure::usage(format!("the collector cannot be used: {error}")))
        };
        Ok(Self { traces: open(&settings.traces)?, metrics: open(&settings.metrics)? })
    }
}

impl Courier for Collectors {
    fn send(&self, signal: Signal, body: Bytes) -> Pin<Box<dyn Future<Output = Sent> + Send + '_>> {
        let to = match signal {
            Signal::Traces => &self.traces,
            Signal::Metrics => &self.metrics,
        };
        Box::pin(async move {
            match to {
                Some(to) => to.post("application/x-protobuf", body).await,
                None => Err("there is no collector for it".to_owned()),
            }
        })
    }
}

/// The page that Prometheus reads.
pub fn page(watched: &Watched) -> lb_http::Pages {
    LazyLock::force(&STARTED);
    let watched = watched.clone();
    let source = move |path: &str, _: Option<&str>| {
        (path == "/metrics").then(|| lb_http::Page {
            status: 200,
            content_type: lb_telemetry::CONTENT_TYPE,
            body: lb_telemetry::exposition(&measured(&watched)).into(),
            content_security_policy: "default-src 'none'".to_owned(),
        })
    };
    lb_http::Pages { path: "/metrics", source: Arc::new(source) }
}

/// All that is measured.
fn measured(watched: &Watched) -> Vec<Family> {
    let mut families = watched.gateway.metrics();
    if let Some(shed) = &watched.shed {
        let help = "Requests and connections that were refused for a while because there was too much to do.";
        let mut refused = Family::new("landbridge_shed_total", help, Kind::Counter);
        for why in lb_http::Why::ALL {
            refused.count(vec![("reason", why.as_str().into())], shed.count(why));
        }
        families.push(refused);
    }
    if let Some(forwarded) = &watched.forwarded {
        let help = "Requests that came to this node and were sent on to the one that has their session.";
        let mut sent_on = Family::new("landbridge_forwarded_total", help, Kind::Counter);
        sent_on.count(Vec::new(), forwarded.load(Ordering::Relaxed));
        families.push(sent_on);
    }
    let help = "Lines of logs that could not be written.";
    let mut lost = Family::new("landbridge_log_lines_dropped_total", help, Kind::Counter);
    lost.count(Vec::new(), crate::logs::lost());
    families.push(lost);
    if let Some(audit) = &watched.audit {
        let help = "Events that could not be written to the audit log.";
        let mut dropped = Family::new("landbridge_audit_dropped_total", help, Kind::Counter);
        dropped.count(Vec::new(), audit.dropped());
        families.push(dropped);
    }
    let is_up = watched.store.as_ref().is_none_or(|store| store.facts().away_since.is_none());
    let up = "Whether what must outlive this process can be stored; memory is always there.";
    families.push(Family::single("landbridge_store_up", up, Kind::Gauge, i64::from(is_up)));
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

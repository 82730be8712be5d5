//! Sending what was recorded, in the background: nothing waits for it, and what cannot be sent is dropped and counted.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::family::Family;
use crate::otlp;
use crate::settings::Settings;
use crate::span::{Tracer, unix_ns};

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

/// How a collector took it: the HTTP status, or why there is none.
pub type Sent = Result<u16, String>;

/// Carries a body to the collector of a signal, by POST as `application/x-protobuf`.
pub trait Courier: Send + Sync {
    /// Sends it.
    fn send(&self, signal: Signal, body: Bytes) -> Pin<Box<dyn Future<Output = Sent> + Send + '_>>;
}

/// How long what is left may take at the end.
const FLUSH_MAX: Duration = Duration::from_secs(2);
/// How often it is said that a collector does not take anything.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Exports spans and metrics.
pub struct Exporter {
    settings: Settings,
    tracer: Arc<Tracer>,
    courier: Box<dyn Courier>,
    measured: Box<dyn Fn() -> Vec<Family> + Send + Sync>,
    start_ns: u64,
    complained: Mutex<Option<Instant>>,
}

impl Exporter {
    /// Nothing is sent before [`Exporter::run`].
    pub fn new(
        settings: Settings,
        tracer: Arc<Tracer>,
        courier: Box<dyn Courier>,
        measured: Box<dyn Fn() -> Vec<Family> + Send + Sync>,
    ) -> Self {
        Self { settings, tracer, courier, measured, start_ns: unix_ns(), complained: Mutex::default() }
    }

    /// Sends what there is, again and again.
    ///
    /// Cancel safe: what is being sent is lost.
    pub async fn run(&self) {
        tokio::join!(self.spans_forever(), self.metrics_forever());
    }

    /// Sends what is left, within two seconds.
    pub async fn flush(&self) {
        let all = async { tokio::join!(self.spans(), self.metrics()) };
        if tokio::time::timeout(FLUSH_MAX, all).await.is_err() {
            tracing::warn!("the collector did not take the last spans and metrics in time");
        }
    }

    async fn spans_forever(&self) {
        loop {
            // Whichever is first; an error is the end of the time.
            drop(tokio::time::timeout(self.settings.spans_every, self.tracer.many()).await);
            self.spans().await;
        }
    }

    async fn metrics_forever(&self) {
        loop {
            tokio::time::sleep(self.settings.metrics_every).await;
            self.metrics().await;
        }
    }

    async fn spans(&self) {
        let records = self.tracer.take();
        if records.is_empty() || self.settings.traces.is_none() {
            return;
        }
        let body = otlp::traces(&self.settings.resource, &records);
        let count = records.len();
        drop(records);
        if !self.send(Signal::Traces, body).await {
            self.tracer.lost(count);
        }
    }

    async fn metrics(&self) {
        if self.settings.metrics.is_none() {
            return;
        }
        let body = otlp::metrics(&self.settings.resource, &(self.measured)(), self.start_ns, unix_ns());
        // They are sums: the next ones hold these.
        self.send(Signal::Metrics, body).await;
    }

    async fn send(&self, signal: Signal, body: Vec<u8>) -> bool {
        let sent = tokio::time::timeout(self.settings.timeout, self.courier.send(signal, body.into())).await;
        let why = match sent {
            Ok(Ok(status)) if (200..300).contains(&status) => return true,
            Ok(Ok(status)) => format!("it answers with HTTP {status}"),
            Ok(Err(why)) => why,
            Err(_) => format!("no answer within {} s", self.settings.timeout.as_secs_f64()),
        };
        let now = Instant::now();
        let mut complained = self.complained.lock();
        if complained.is_none_or(|last| COMPLAIN_EVERY <= now - last) {
            *complained = Some(now);
            drop(complained);
            tracing::warn!(
                ?signal,
                why,
                "the collector does not take what is exported; see OTEL_EXPORTER_OTLP_ENDPOINT"
            );
        }
        false
    }
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exporter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Sampler;
    use crate::span::Role;

    /// Keeps what it is given, and answers with this status or not at all.
    struct Double(Arc<Mutex<Vec<Signal>>>, Option<u16>);

    impl Courier for Double {
        fn send(&self, signal: Signal, _body: Bytes) -> Pin<Box<dyn Future<Output = Sent> + Send + '_>> {
            self.0.lock().push(signal);
            let status = self.1;
            Box::pin(async move {
                match status {
                    Some(status) => Ok(status),
                    None => std::future::pending().await,
                }
            })
        }
    }

    fn exporter(status: Option<u16>) -> (Exporter, Arc<Tracer>, Arc<Mutex<Vec<Signal>>>) {
        let endpoint = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://h:1".to_owned());
        let settings = Settings::read(endpoint).unwrap().unwrap();
        let (tracer, sent) = (Tracer::new(Sampler::Always), Arc::<Mutex<Vec<Signal>>>::default());
        let courier = Box::new(Double(sent.clone(), status));
        (Exporter::new(settings, tracer.clone(), courier, Box::new(Vec::new)), tracer, sent)
    }

    fn record(tracer: &Arc<Tracer>, count: usize) {
        for _ in 0..count {
            drop(tracer.start(Role::Server, "a".to_owned(), None));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn spans_go_every_five_seconds_and_metrics_every_minute() {
        let (exporter, tracer, sent) = exporter(Some(200));
        record(&tracer, 1);
        let ran = tokio::time::timeout(Duration::from_millis(4_900), exporter.run()).await;
        assert!(ran.is_err() && sent.lock().is_empty());
        drop(tokio::time::timeout(Duration::from_millis(61_000), exporter.run()).await);
        assert_eq!(*sent.lock(), [Signal::Traces, Signal::Metrics], "nothing is sent where there is nothing");
        assert_eq!(tracer.dropped(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_batch_does_not_wait() {
        let (exporter, tracer, sent) = exporter(Some(200));
        record(&tracer, 512);
        drop(tokio::time::timeout(Duration::from_millis(10), exporter.run()).await);
        assert_eq!(*sent.lock(), [Signal::Traces]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_counted_as_dropped() {
        let (exporter, tracer, _) = exporter(Some(503));
        record(&tracer, 3);
        exporter.flush().await;
        assert_eq!(tracer.dropped(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_waits_two_seconds_for_a_collector_that_is_silent() {
        let (exporter, tracer, sent) = exporter(None);
        record(&tracer, 3);
        let begun = Instant::now();
        exporter.flush().await;
        assert_eq!(begun.elapsed(), FLUSH_MAX);
        assert_eq!(sent.lock().len(), 2);
    }
}

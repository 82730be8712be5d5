//! Where lines go.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use lb_config::settings::LogFormat;
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::file::LogFile;
use super::line::{Fields, Line};
use super::voice::lost_line;

/// One place that lines are written to.
pub struct Sink {
    /// The place.
    pub target: Target,
    /// How they look there.
    pub format: LogFormat,
}

/// What stands in the audit log alone: who somebody is beyond the hash that everything else names.
const PERSONAL: [&str; 2] = ["subject", "domain"];

/// A place.
pub enum Target {
    /// Standard error.
    Stderr {
        /// Whether levels are coloured.
        color: bool,
    },
    /// A file.
    File(Arc<LogFile>),
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Sink {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        // Every sink sees the span, and one of them takes it apart.
        if span.extensions().get::<Fields>().is_none() {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().replace(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (level, mut line) = (*event.metadata().level(), Line::of(event));
        if event.metadata().target() == super::audit::TARGET {
            line = line.without(&PERSONAL);
        }
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.within(span.name(), fields);
            }
        }
        let color = matches!(self.target, Target::Stderr { color: true });
        let text = match self.format {
            LogFormat::Text => line.text(level, now, color),
            LogFormat::Json => line.json(level, event.metadata().target(), now),
        };
        match &self.target {
            Target::Stderr { .. } => to_stderr(&text),
            Target::File(file) => {
                if let Some(said) = file.write(text.as_bytes(), Instant::now()) {
                    to_stderr(&lost_line(&said, self.format));
                }
            }
        }
    }
}

/// Nobody can be told that stderr is gone.
pub(super) fn to_stderr(text: &str) {
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

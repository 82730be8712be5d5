//! Logs: lines for people or JSON, on stderr and perhaps in a file. Never on stdout, which belongs to the protocol.

mod audit;
mod file;
mod hide;
mod line;
mod sink;
mod voice;

use std::fs::File;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lb_config::settings::{LogFormat, Settings};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use self::audit::Audit;
use self::file::LogFile;
pub use self::file::lost;
pub use self::hide::{hide, hide_texts};
use self::sink::{Sink, Target};
pub use self::voice::{Words, speak, tell};
use crate::run::Failure;

/// Changes the level while it runs.
#[derive(Default)]
pub struct Handle {
    sinks: Vec<Level>,
    audit: Option<Audit>,
}

/// How much one of the places gets.
struct Level {
    set: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
    /// When nobody says.
    default: &'static str,
}

impl Handle {
    /// Where who did what is written, if anywhere.
    pub fn audit(&self) -> Option<Audit> {
        self.audit.clone()
    }

    /// Logs this much from now on; `None` for what fits the command.
    pub fn set_level(&self, level: Option<&str>) {
        for sink in &self.sinks {
            if let Err(error) = (sink.set)(filter(level.unwrap_or(sink.default))) {
                tracing::warn!(%error, "the level of logs could not be changed");
            }
        }
    }
}

/// Starts logging as these settings say, or to a file that something else asks for, as much as that says.
///
/// # Errors
/// A file that cannot be written.
pub fn start(
    settings: &Settings,
    default: &'static str,
    traced: Option<(File, &'static str)>,
) -> Result<Handle, Failure> {
    let level = settings.log_level.as_deref();
    let (reloadable, handle) = reload::Layer::new(filter(level.unwrap_or(default)));
    let color = settings.log_format == LogFormat::Text && std::io::stderr().is_terminal();
    let stderr = Sink { target: Target::Stderr { color }, format: settings.log_format };
    let mut sinks = vec![Level { set: Box::new(move |filter| handle.reload(filter)), default }];
    let opened = match log_file(settings) {
        Some((path, default)) => {
            let in_folder = settings.log_file.is_none();
            let opened = if in_folder { LogFile::open_within(&path) } else { LogFile::open(&path) };
            let opened =
                opened.map_err(|error| Failure::usage(format!("cannot log to {}: {error}", path.display())))?;
            Some((opened, level.unwrap_or(default), Some(default)))
        }
        // What is asked for by name is as much as its name says, at any level.
        None => traced.map(|(file, level)| (LogFile::from(file), level, None)),
    };
    let opened = opened.map(|(file, level, default)| (Arc::new(file), level, default));
    speak(settings.log_format, opened.as_ref().map(|(file, ..)| file.clone()));
    let file = opened.map(|(opened, level, default)| {
        let sink = Sink { target: Target::File(opened), format: settings.log_format };
        let (reloadable, handle) = reload::Layer::new(filter(level));
        sinks.extend(default.map(|default| Level { set: Box::new(move |filter| handle.reload(filter)), default }));
        sink.with_filter(reloadable)
    });
    let audit = settings.audit_log.as_ref().map(|path| {
        let opened = Audit::open(path, settings.audit_required);
        opened.map_err(|error| Failure::usage(format!("cannot write to {}: {error}", path.display())))
    });
    let audit = audit.transpose()?;
    let audited = audit.as_ref().map(|audit| audit.layer().with_filter(Audit::filter()));
    tracing_subscriber::registry().with(stderr.with_filter(reloadable)).with(file).with(audited).init();
    std::panic::set_hook(Box::new(|panic| {
        // What a panic says may hold what it worked on.
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panicked");
    }));
    Ok(Handle { sinks, audit })
}

/// The file to log to, and how much when nobody says.
fn log_file(settings: &Settings) -> Option<(PathBuf, &'static str)> {
    if let Some(path) = &settings.log_file {
        return Some((path.clone(), "info"));
    }
    let folder = settings.log_dir.as_ref()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let stamp: String = lb_gateway::rfc3339(now).chars().filter(|c| c.is_ascii_digit() || *c == 'T').take(15).collect();
    Some((folder.join(format!("landbridge-{stamp}-{}.log", std::process::id())), "debug"))
}

fn filter(level: &str) -> EnvFilter {
    // The SDK of the embedded demo logs every error it sends, which is no news to an operator.
    EnvFilter::new(format!("{level},rmcp=off"))
}

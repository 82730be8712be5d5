//! Who did what, in a file of its own: every event of the target `audit`, one JSON object per line.
//!
//! Whoever causes an event does not wait for the disk: a thread writes, from a queue that has an end. What cannot be
//! written is counted, and the file itself says how much is missing once it can be written again. Where the file is
//! required nothing is given up: the line is tried until it is there, and the door is closed meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, filter_fn};
use tracing_subscriber::layer::Context;

use super::file::LogFile;
use super::line::Line;
use super::voice::Words;

/// The target of events that are written there.
pub const TARGET: &str = "audit";
/// Lines that wait for the disk; further ones are lost.
const LINES_MAX: usize = 8_192;
/// How often a file is tried that could not be written.
const TRY_EVERY: Duration = Duration::from_millis(250);
/// How often lost lines are told.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// How long the end of the process waits for the disk.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Whether a file can be written, and what it lacks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Audit {
    state: Arc<State>,
    queue: SyncSender<Job>,
    required: bool,
}

#[derive(Debug, Default)]
struct State {
    failing: AtomicBool,
    dropped: AtomicU64,
    /// Those of them that found no room in the queue, and of which the writer does not know yet.
    unheard: AtomicU64,
}

#[derive(Debug)]
enum Job {
    Line(String),
    /// Everything before is to be written now.
    Flush(SyncSender<()>),
}

impl Audit {
    /// Writes to this file from now on.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, required: bool) -> std::io::Result<Self> {
        Self::over(LogFile::open(path)?, required)
    }

    fn over(file: LogFile, required: bool) -> std::io::Result<Self> {
        let (queue, jobs) = sync_channel(LINES_MAX);
        let state = Arc::<State>::default();
        let writer = Writer { file, state: state.clone(), required, missing: 0, untold: 0, told: None };
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(&jobs))?;
        Ok(Self { state, queue, required })
    }

    /// How many events could not be written so far.
    pub fn dropped(&self) -> u64 {
        self.state.dropped.load(Ordering::Relaxed)
    }

    /// Whether nothing may be done now, because it could not be written down.
    pub fn is_closed(&self) -> bool {
        self.required && self.state.failing.load(Ordering::Relaxed)
    }

    /// Waits until what was said so far is written, but not for long.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(Job::Flush(done)).is_ok() && written.recv_timeout(FLUSH_MAX).is_err() {
            Words::warning("audit_lost", "the audit log could not be written to its end").say();
        }
    }

    /// The same as a layer of logs.
    pub fn layer<S: Subscriber>(&self) -> impl Layer<S> + use<S> {
        AuditLayer(self.clone())
    }

    /// What it hears.
    pub fn filter() -> FilterFn<fn(&Metadata<'_>) -> bool> {
        let ours: fn(&Metadata<'_>) -> bool = |metadata| metadata.target() == TARGET;
        filter_fn(ours).with_max_level_hint(LevelFilter::INFO)
    }

    fn say(&self, line: String) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.queue.try_send(Job::Line(line)) {
            self.state.dropped.fetch_add(1, Ordering::Relaxed);
            self.state.unheard.fetch_add(1, Ordering::Relaxed);
            self.state.failing.store(true, Ordering::Relaxed);
        }
    }
}

struct AuditLayer(Audit);

impl<S: Subscriber> Layer<S> for AuditLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Without what it stands in: a request has paths and names that belong to no event.
        let line = Line::of(event).json(*event.metadata().level(), TARGET, now());
        self.0.say(line);
    }
}

struct Writer {
    file: LogFile,
    state: Arc<State>,
    required: bool,
    /// Events that the file lacks, and does not say so yet.
    missing: u64,
    /// Those that nobody was told of yet.
    untold: u64,
    told: Option<Instant>,
}

impl Writer {
    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            match jobs.recv_timeout(TRY_EVERY) {
                Ok(Job::Line(line)) => self.write(&line),
                // Who waits may have gone.
                Ok(Job::Flush(done)) => drop(done.try_send(())),
                Err(RecvTimeoutError::Timeout) => self.mend(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn write(&mut self, line: &str) {
        self.mend();
        while let Err(why) = self.file.append(line.as_bytes()) {
            self.state.failing.store(true, Ordering::Relaxed);
            if !self.required {
                self.lose(&why);
                return;
            }
            self.tell(&why);
            // The thread has nothing else to do, and nobody waits for it to wake.
            std::thread::park_timeout(TRY_EVERY);
        }
        if self.missing == 0 {
            self.state.failing.store(false, Ordering::Relaxed);
        }
    }

    fn lose(&mut self, why: &str) {
        self.missing += 1;
        self.untold += 1;
        self.state.dropped.fetch_add(1, Ordering::Relaxed);
        self.tell(why);
    }

    /// Has the file say what it lacks, if it can be written again.
    fn mend(&mut self) {
        self.missing += self.state.unheard.swap(0, Ordering::Relaxed);
        if self.missing == 0 {
            self.state.failing.store(false, Ordering::Relaxed);
            return;
        }
        let gap = json!({
            "ts": lb_gateway::rfc3339(now()), "level": "warn", "event": "audit_gap", "target": TARGET,
            "who": "landbridge", "outcome": "lost", "lost": self.missing,
        });
        if self.file.append(format!("{gap}\n").as_bytes()).is_ok() {
            self.missing = 0;
            self.state.failing.store(false, Ordering::Relaxed);
        }
    }

    fn tell(&mut self, why: &str) {
        if self.told.is_some_and(|told| told.elapsed() < TELL_EVERY) {
            return;
        }
        self.told = Some(Instant::now());
        let lost = std::mem::take(&mut self.untold);
        let what = match self.required {
            true => "requests are refused until it can be".to_owned(),
            false => format!("{lost} events are lost since the last word"),
        };
        Words::warning("audit_lost", format!("the audit log cannot be written ({why}); {what}")).say();
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(what: impl Fn() -> bool) {
        let began = Instant::now();
        while !what() {
            assert!(began.elapsed() < Duration::from_secs(20), "it does not come");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_a_full_disk_takes_is_counted_and_closes_nothing_by_itself() {
        let audit = Audit::open(Path::new("/dev/full"), false).expect("it opens");
        for _ in 0..5 {
            audit.say("{}\n".to_owned());
        }
        until(|| audit.dropped() == 5);
        assert!(!audit.is_closed());
    }

    #[test]
    fn a_file_that_is_required_closes_the_door_and_loses_nothing() {
        let audit = Audit::open(Path::new("/dev/full"), true).expect("it opens");
        assert!(!audit.is_closed());
        audit.say("{}\n".to_owned());
        until(|| audit.is_closed());
        assert_eq!(audit.dropped(), 0, "it is tried again");
    }

    #[test]
    fn lines_beyond_the_queue_are_lost_and_counted() {
        let audit = Audit::open(Path::new("/dev/full"), true).expect("it opens");
        for _ in 0..LINES_MAX + 10 {
            audit.say("{}\n".to_owned());
        }
        assert!(8 <= audit.dropped() && audit.is_closed(), "{}", audit.dropped());
    }

    #[test]
    fn the_file_says_how_many_lines_found_no_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let audit = Audit::open(&path, true).expect("it opens");
        audit.state.unheard.store(3, Ordering::Relaxed);
        audit.say("{}\n".to_owned());
        audit.flush();
        let text = std::fs::read_to_string(&path).expect("text");
        let gap: serde_json::Value = serde_json::from_str(text.lines().next().expect("a line")).expect("an object");
        assert_eq!((&gap["event"], &gap["lost"]), (&json!("audit_gap"), &json!(3)), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn the_end_waits_for_what_was_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let audit = Audit::open(&path, false).expect("it opens");
        for number in 0..1_000 {
            audit.say(format!("{number}\n"));
        }
        audit.flush();
        assert_eq!(std::fs::read_to_string(&path).expect("text").lines().count(), 1_000);
    }
}

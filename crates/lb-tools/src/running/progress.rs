//! Progress for a caller that wants to hear of it: the server's own, and a sign of life where that is quiet.

use std::time::Duration;

use lb_exchange::Note;
use lb_wire::compose::Object;
use lb_wire::revision::Revision;
use lb_wire::{Raw, Text};
use tokio::time::Instant;

/// A client that hears nothing for longer may give up.
const QUIET_MAX: Duration = Duration::from_secs(15);
const METHOD: &str = "notifications/progress";
/// By how much a sign of life goes on: small, so that the server's own values still rise above it.
const STEP: f64 = 0.001;

/// What a caller has heard.
#[derive(Debug)]
pub(super) struct Progress {
    /// Without one, the caller hears nothing.
    token: Option<Raw>,
    last: Option<f64>,
    heard: Instant,
    messages: bool,
}

impl Progress {
    pub(super) fn new(token: Option<Raw>, revision: Revision, now: Instant) -> Self {
        Self { token, last: None, heard: now, messages: revision.progress_message() }
    }

    /// When a sign of life is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.token.is_some().then(|| self.heard + QUIET_MAX)
    }

    /// The server's progress, if it may be passed on: values must rise.
    pub(super) fn forwarded(&mut self, note: Note) -> Option<Note> {
        if self.token.is_none() || !note.forward || &*note.method != METHOD {
            return None;
        }
        let value = note.params.as_ref()?.member("progress")?.read::<f64>().ok()?;
        if self.last.is_some_and(|last| value <= last) {
            return None;
        }
        self.last = Some(value);
        self.heard = Instant::now();
        Some(note)
    }

    /// A step of our own, if the caller has heard nothing for long enough.
    pub(super) fn sign_of_life(&mut self, now: Instant) -> Option<Note> {
        if self.due()? > now {
            return None;
        }
        let token = self.token.as_ref()?;
        let value = self.last.unwrap_or(0.0) + STEP;
        self.last = Some(value);
        self.heard = now;
        let params = Object::new().raw("progressToken", token).raw("progress", &Raw::value(&value));
        let params = if self.messages { params.text("message", "still working") } else { params };
        Some(Note::new(Text::from_static(METHOD), Some(params.finish())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(value: &str) -> Note {
        let params = format!(r#"{{"progressToken":"t","progress":{value},"total":3.0}}"#);
        Note::new(Text::from_static(METHOD), Raw::parse(params.into()).ok())
    }

    #[tokio::test(start_paused = true)]
    async fn values_rise_and_silence_is_broken() {
        let token = Some(Raw::from_static("\"t\""));
        let mut progress = Progress::new(token, Revision::V2025_03_26, Instant::now());
        let mut passed = |value: &str| progress.forwarded(note(value)).is_some();
        assert_eq!([passed("1"), passed("1"), passed("0.5"), passed("2.0")], [true, false, false, true]);
        assert!(progress.sign_of_life(Instant::now()).is_none());
        tokio::time::advance(QUIET_MAX).await;
        let alive = progress.sign_of_life(Instant::now()).unwrap().params.unwrap();
        assert_eq!(alive.as_str(), r#"{"progressToken":"t","progress":2.001,"message":"still working"}"#);
        assert!(progress.sign_of_life(Instant::now()).is_none());
        assert!(progress.forwarded(note("2.001")).is_none());
        assert!(progress.forwarded(note("2.1")).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_token_nothing_is_said() {
        let mut progress = Progress::new(None, Revision::V2025_11_25, Instant::now());
        assert!(progress.forwarded(note("1")).is_none());
        assert_eq!(progress.due(), None);
        assert!(progress.sign_of_life(Instant::now() + QUIET_MAX).is_none());
    }
}

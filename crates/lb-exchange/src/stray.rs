//! Questions of a connection that are not known to belong to a call: they wait for an answer whatever becomes of calls.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::exchange::Remote;
use crate::step::{Answer, AskKey, AskKind, Command};

/// The questions of one connection that wait for an answer, wherever they are. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct OpenAsks(Arc<Mutex<HashSet<AskKey>>>);

impl OpenAsks {
    /// A question waits from now on.
    pub fn open(&self, key: AskKey) {
        self.0.lock().insert(key);
    }

    /// It is answered or taken back; false when it was before.
    pub fn close(&self, key: &AskKey) -> bool {
        self.0.lock().remove(key)
    }

    /// Whether a question waits.
    pub fn is_open(&self, key: &AskKey) -> bool {
        self.0.lock().contains(key)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// A question that was given to a call for want of a better place, and need not end with it.
///
/// It is kept open as long as one of these is kept; dropping the last one refuses it.
#[derive(Clone, Debug)]
pub struct Stray(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    key: AskKey,
    kind: AskKind,
    open: OpenAsks,
    /// Takes the answer to an open question, and closes it.
    remote: Remote,
}

impl Stray {
    /// A question that waits among those that are open; `remote` takes its answer.
    pub fn new(key: AskKey, kind: AskKind, open: OpenAsks, remote: Remote) -> Self {
        open.open(key.clone());
        Self(Arc::new(Kept { key, kind, open, remote }))
    }

    /// Whether it still waits for its answer.
    pub fn is_open(&self) -> bool {
        self.0.open.is_open(&self.0.key)
    }

    /// It is answered in another way; false when it was before.
    pub fn close(&self) -> bool {
        self.0.open.close(&self.0.key)
    }

    /// Takes its answer while its call runs and afterwards; the call is told too.
    pub fn remote(&self, call: Remote) -> Remote {
        let stray = self.clone();
        Remote::sink(move |command| match command {
            Command::Answer(key, answer) => {
                let taken = stray.answer(answer.clone());
                // It may be over.
                call.answer(key, answer);
                taken
            }
            Command::Cancel(why) => call.cancel(why),
            Command::Back => call.back(),
            Command::Away => call.away(),
            Command::Alone => call.alone(),
        })
    }

    fn answer(&self, answer: Answer) -> bool {
        self.0.remote.answer(self.0.key.clone(), answer)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.open.is_open(&self.key) {
            self.remote.answer(self.key.clone(), self.kind.refusal());
        }
    }
}

#[cfg(test)]
mod tests {
    use lb_wire::{Raw, Text};

    use super::*;

    fn said(log: &Arc<Mutex<Vec<String>>>) -> Vec<String> {
        std::mem::take(&mut *log.lock())
    }

    fn stray() -> (Stray, OpenAsks, Arc<Mutex<Vec<String>>>) {
        let (open, log) = (OpenAsks::default(), Arc::<Mutex<Vec<String>>>::default());
        let (known, heard) = (open.clone(), log.clone());
        let remote = Remote::sink(move |command| {
            let Command::Answer(key, answer) = command else { return false };
            let taken = known.close(&key);
            if taken {
                heard.lock().push(format!("{answer:?}"));
            }
            taken
        });
        (Stray::new(AskKey(Text::from_static("1")), AskKind::Roots, open.clone(), remote), open, log)
    }

    #[test]
    fn it_is_answered_once_by_whoever_comes_first_and_refused_when_nobody_keeps_it() {
        let answer = || Answer::Result(Raw::from_static("7"));
        let key = || AskKey(Text::from_static("1"));
        let (kept, open, log) = stray();
        let remote = kept.remote(Remote::deaf());
        drop(kept);
        assert!(open.is_open(&key()), "whoever may answer keeps it");
        assert!(remote.answer(key(), answer()));
        assert!(!remote.answer(key(), answer()), "once");
        drop(remote);
        assert_eq!(said(&log).len(), 1);

        let (kept, open, log) = stray();
        drop(kept);
        assert_eq!((said(&log).len(), open.is_empty()), (1, true), "refused");

        let (kept, open, log) = stray();
        assert!(open.close(&key()));
        assert!(!kept.is_open());
        drop(kept);
        assert_eq!(said(&log), Vec::<String>::new(), "what was taken back needs no answer");
    }
}

//! What a change of a session's state leads to outside of it, done once its lock is free.

use lb_exchange::{Answer, AskKey, Cancel, Remote};

/// One thing to do. None of them blocks.
#[derive(Debug)]
pub enum Effect {
    /// A server gets the answer to what it asked.
    Answer(Remote, AskKey, Answer),
    /// A call is no longer wanted.
    Cancel(Remote, Cancel),
}

impl Effect {
    /// Does it. Nobody may be there any more, which is as good.
    pub fn run(self) {
        match self {
            Self::Answer(remote, key, answer) => drop(remote.answer(key, answer)),
            Self::Cancel(remote, why) => drop(remote.cancel(why)),
        }
    }
}

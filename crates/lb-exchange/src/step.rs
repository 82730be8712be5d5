//! What an exchange yields, and what goes down it.

use std::time::Duration;

use lb_wire::revision::Era;
use lb_wire::{Raw, Text, compose};

use crate::associate::Audience;
use crate::login::LoginNeeded;
use crate::stray::Stray;

/// One thing that happened in an exchange, in order. Exactly one [`Step::End`] comes, and nothing after it.
#[derive(Debug)]
pub enum Step {
    /// A notification that belongs to this exchange.
    Note(Note),
    /// The server needs something from the client.
    Ask(Ask),
    /// The server no longer needs the answer to an ask.
    Withdraw {
        /// Which ask.
        key: AskKey,
    },
    /// The server closed its stream before the end and will go on when somebody is back.
    Pause {
        /// How long the server asked to wait.
        retry: Option<Duration>,
    },
    /// The end.
    End(End),
}

/// A notification, ready to be put into an envelope.
#[derive(Clone, Debug)]
pub struct Note {
    /// Its method.
    pub method: Text,
    /// Its params, with tokens and ids already those of the client.
    pub params: Option<Raw>,
    /// Whether the client can receive it; progress for which the client gave no token only feeds deadlines.
    pub forward: bool,
}

impl Note {
    /// A note for the client.
    pub fn new(method: Text, params: Option<Raw>) -> Self {
        Self { method, params, forward: true }
    }

    /// How much it weighs in a queue.
    pub fn weight(&self) -> usize {
        self.method.len() + self.params.as_ref().map_or(0, |raw| raw.as_bytes().len())
    }
}

/// Names one ask within its exchange.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AskKey(pub Text);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AskKind {
    /// `elicitation/create`.
    Elicitation,
    /// `sampling/createMessage`.
    Sampling,
    /// `roots/list`.
    Roots,
    /// Any other request of a legacy server.
    Other,
}

impl AskKind {
    /// From the method of a server's request.
    pub fn of(method: &str) -> Self {
        match method {
            "elicitation/create" => Self::Elicitation,
            "sampling/createMessage" => Self::Sampling,
            "roots/list" => Self::Roots,
            _ => Self::Other,
        }
    }

    /// What a server is told when nobody can answer: the protocol's own way to say no.
    pub fn refusal(self) -> Answer {
        match self {
            Self::Elicitation => Answer::Result(Raw::from_static(r#"{"action":"cancel"}"#)),
            Self::Roots => Answer::Result(Raw::from_static(r#"{"roots":[]}"#)),
            Self::Sampling => Answer::error(-32603, "no client is there to sample for this request"),
            Self::Other => Answer::error(-32601, "the client does not take this request"),
        }
    }
}

/// A need of the server for something from the client.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Names it within the exchange.
    pub key: AskKey,
    /// What is asked for.
    pub kind: AskKind,
    /// The method, as the server wrote it.
    pub method: Text,
    /// The params, as the server wrote them.
    pub params: Option<Raw>,
    /// How it goes on once answered.
    pub resume: Resume,
}

/// How an exchange goes on after an ask.
#[derive(Clone, Debug)]
pub enum Resume {
    /// Someone waits for the answer.
    Live,
    /// As live, and it is not known whether it belongs to the exchange: it need not end with it.
    Stray(Stray),
    /// Nothing is held: the request is sent again with the answers. The end that follows is the server's own result
    /// saying so, which a front of the same era passes on untouched.
    Replay {
        /// The server's opaque state to send along.
        state: Option<Raw>,
    },
}

/// What the client says to an ask.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A result object.
    Result(Raw),
    /// An error object.
    Error(Raw),
}

impl Answer {
    /// An error of our own.
    pub fn error(code: i64, message: &str) -> Self {
        Self::Error(compose::error_object(code, message, None))
    }
}

/// What goes down an exchange.
#[derive(Debug)]
pub enum Command {
    /// The answer to an ask.
    Answer(AskKey, Answer),
    /// Nobody wants the result any more.
    Cancel(Cancel),
    /// Somebody is back to listen, after a pause or when nobody was.
    Back,
    /// Nobody listens now; the client may come back for what comes.
    Away,
    /// The client is gone and can never ask for what comes; for surfaces that keep it in another way.
    Alone,
}

impl Command {
    /// What it says of who listens.
    pub fn audience(&self) -> Option<Audience> {
        match self {
            Self::Back => Some(Audience::Here),
            Self::Away => Some(Audience::Away),
            Self::Alone => Some(Audience::Gone),
            Self::Answer(..) | Self::Cancel(_) => None,
        }
    }
}

/// Why an exchange is cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// The client said so, perhaps with a reason.
    Said(Option<Raw>),
    /// The client went away where that means cancel.
    Gone,
    /// It took too long.
    Deadline,
    /// Its session ended, or we shut down.
    SessionEnd,
    /// It cannot go on, through no fault of the client, which is told this error.
    CutOff(Raw),
}

impl Cancel {
    /// The end of an exchange that is cancelled: a client that is not the one who wanted that is told.
    pub fn to_end(&self) -> End {
        End::ours(match self {
            Self::CutOff(error) => Outcome::Error(ErrorBody::from_server(error.clone())),
            Self::Said(_) | Self::Gone | Self::Deadline | Self::SessionEnd => Outcome::Cancelled,
        })
    }
}

/// The end of an exchange.
#[derive(Debug)]
pub struct End {
    /// How it ended.
    pub outcome: Outcome,
    /// The era in which the server wrote the outcome; `None` for outcomes of our own, which fit every client.
    pub era: Option<Era>,
    /// To be committed when the bytes are safe.
    pub receipt: Option<Receipt>,
    /// How far the connection's feed had come when this was read: those items take effect before it.
    pub feed_mark: u64,
    /// Whether it is a result that says of itself that it is an error; known where it costs nothing to know.
    pub failed: bool,
}

impl End {
    /// An outcome that a server wrote.
    pub fn from_server(outcome: Outcome, era: Era) -> Self {
        Self { outcome, era: Some(era), receipt: None, feed_mark: 0, failed: false }
    }

    /// An outcome of our own.
    pub fn ours(outcome: Outcome) -> Self {
        Self { outcome, era: None, receipt: None, feed_mark: 0, failed: false }
    }

    /// An error of our own.
    pub fn error(code: i64, message: &str, data: Option<&Raw>) -> Self {
        Self::ours(Outcome::Error(ErrorBody::new(code, message, data)))
    }
}

/// How an exchange ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// With a result.
    Result(Raw),
    /// With an error object.
    Error(ErrorBody),
    /// Cancelled: nothing more is said about that request.
    Cancelled,
}

/// An error object and its code, which decides the HTTP status of a modern reply.
#[derive(Clone, Debug)]
pub struct ErrorBody {
    /// The JSON-RPC code; 0 when the server wrote none.
    pub code: i64,
    /// The whole object.
    pub raw: Raw,
    /// Whether it says that we have too much to do: 429, where a status can still be chosen.
    pub busy: bool,
    /// The login that is needed first: whoever knows the client may ask for it in a better way. Only ever of our own.
    pub login: Option<Box<LoginNeeded>>,
}

impl ErrorBody {
    /// An error of our own.
    pub fn new(code: i64, message: &str, data: Option<&Raw>) -> Self {
        Self { code, raw: compose::error_object(code, message, data), busy: false, login: None }
    }

    /// Says that a later attempt may work: nothing was done.
    #[must_use]
    pub fn busy(mut self) -> Self {
        self.busy = true;
        self
    }

    /// Says that somebody must log in first: nothing was done.
    #[must_use]
    pub fn needing(mut self, login: LoginNeeded) -> Self {
        self.login = Some(Box::new(login));
        self
    }

    /// An error object that a server wrote.
    pub fn from_server(raw: Raw) -> Self {
        let code = raw.member("code").and_then(|code| code.as_str().parse().ok()).unwrap_or(0);
        Self { code, raw, busy: false, login: None }
    }
}

/// Travels with an end: committed when the bytes are safe, rolled back when dropped.
pub struct Receipt(Option<Box<dyn FnOnce(bool) + Send>>);

impl Receipt {
    /// `settle` is called once: with true on commit, with false when the receipt is dropped.
    pub fn new(settle: impl FnOnce(bool) + Send + 'static) -> Self {
        Self(Some(Box::new(settle)))
    }

    /// Several as one.
    pub fn all(receipts: Vec<Self>) -> Option<Self> {
        if receipts.is_empty() {
            return None;
        }
        Some(Self::new(move |safe| {
            if safe {
                receipts.into_iter().for_each(Self::commit);
            }
        }))
    }

    /// The bytes are safe.
    pub fn commit(mut self) {
        if let Some(settle) = self.0.take() {
            settle(true);
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(settle) = self.0.take() {
            settle(false);
        }
    }
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receipt")
    }
}

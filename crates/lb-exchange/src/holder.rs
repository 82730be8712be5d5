//! Who holds an exchange, and what becomes of it: one enum, one table.

/// Who gets the steps of an exchange now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A front, whose own future drives it.
    Front(Front),
    /// A stored stream; resumable when the client owns a cursor into it.
    Stream {
        /// Whether an event id of the stream has reached the client.
        cursor: bool,
    },
    /// Waiting for a modern client to send its request again.
    Parked {
        /// Which retry it waits for.
        round: u32,
    },
    /// A task that the client collects later.
    Task,
    /// A script that made the call.
    Script,
    /// It has ended and been told.
    Done,
    /// Nobody wants it any more; the server is told.
    Cancelled,
}

/// What kind of front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// What losing the client means.
    pub loss: Loss,
    /// Whether the surface can turn a call into a task.
    pub tasks: bool,
    /// Whether a live ask must park the exchange, because the client's protocol has no server requests.
    pub parks: bool,
}

/// What losing the client means for its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The call is cancelled: modern streams, and connections that are the session.
    Cancels,
    /// The call lives on: legacy streamable HTTP.
    Keeps {
        /// Whether an event id has reached the client.
        cursor: bool,
    },
}

/// What happened to an exchange or its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The end was yielded.
    Ended,
    /// The connection or stream of the front closed.
    Lost,
    /// Cancelled by the client, its session's end, a deadline, `cancel_task`, a TTL, or a script's end.
    Cancel,
    /// The caller's patience ran out, or an ask stayed unanswered.
    Impatient,
    /// An ask came that someone waits for.
    LiveAsk,
    /// A retry with the valid token of this round, from a front of this kind.
    Retry(u32, Front),
    /// A parked exchange expired, was pushed out, or lost its backend.
    Expired,
    /// A GET with the id of an event of the stream, from a front of this kind.
    Resume(Front),
}

impl Holder {
    /// The only place that decides what an event leads to. Events that mean nothing to a holder leave it as it is.
    #[must_use]
    pub fn on(self, event: Happened) -> Self {
        match (self, event) {
            (Self::Done | Self::Cancelled, _) => self,
            (Self::Parked { .. }, Happened::Ended) => self, // kept for the retry, which answers at once
            (_, Happened::Ended) => Self::Done,
            (_, Happened::Cancel) => Self::Cancelled,
            (Self::Front(front), Happened::Lost) => front.lost(),
            (Self::Front(front), Happened::Impatient) if front.tasks => Self::Task,
            (Self::Front(front), Happened::LiveAsk) if front.parks => Self::Parked { round: 1 },
            (Self::Parked { round }, Happened::Retry(token, front)) if token == round => Self::Front(front),
            (Self::Parked { .. }, Happened::Expired) => Self::Cancelled,
            (Self::Stream { cursor: true }, Happened::Resume(front)) => Self::Front(front),
            (
                Self::Front(_) | Self::Stream { .. } | Self::Parked { .. } | Self::Task | Self::Script,
                Happened::Lost
                | Happened::Impatient
                | Happened::LiveAsk
                | Happened::Retry(..)
                | Happened::Expired
                | Happened::Resume(_),
            ) => self,
        }
    }

    /// Whether nothing can happen to it any more.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled)
    }
}

impl Front {
    fn lost(self) -> Holder {
        match self.loss {
            Loss::Cancels => Holder::Cancelled,
            Loss::Keeps { cursor: true } => Holder::Stream { cursor: true },
            Loss::Keeps { cursor: false } if self.tasks => Holder::Task,
            Loss::Keeps { cursor: false } => Holder::Stream { cursor: false },
        }
    }
}

#[cfg(test)]
mod tests;

//! The call itself: what goes on whether its caller waits or not.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{Answer, Ask, AskKey, AskKind, Cancel, Exchange, Outcome, Receipt, Remote, Step};
use lb_gateway::{AskMode, Live, Tracked};
use lb_session::{NewRequest, NewTask, Pending, PendingKind, Ulid};
use lb_wire::{Raw, Text};

use super::CANCEL_WITHIN;
use crate::asked::AskedBy;

/// A running call of a server's tool.
pub(crate) struct Work {
    live: Arc<Live>,
    asked: Arc<AskedBy>,
    server: Text,
    tool: Text,
    args: Raw,
    pub(super) exchange: Exchange,
    /// The row of the server's tool; `None` once it has ended.
    tracked: Option<Tracked>,
    /// What the model was given and may still answer.
    given: Vec<(AskKey, Ulid)>,
}

impl Work {
    pub(crate) fn new(
        live: &Arc<Live>,
        asked: &Arc<AskedBy>,
        (server, tool, args): (Text, Text, Raw),
        exchange: Exchange,
        tracked: Tracked,
    ) -> Self {
        tracing::debug!(session = live.hash(), server = &*server, tool = &*tool, "tool_execution_start");
        let (live, asked, tracked, given) = (live.clone(), asked.clone(), Some(tracked), Vec::new());
        Self { live, asked, server, tool, args, exchange, tracked, given }
    }

    pub(super) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    pub(super) fn asked(&self) -> &Arc<AskedBy> {
        &self.asked
    }

    pub(super) fn server(&self) -> &Text {
        &self.server
    }

    pub(super) fn tool(&self) -> &Text {
        &self.tool
    }

    pub(super) fn args(&self) -> &Raw {
        &self.args
    }

    /// The requests that the model was given.
    pub(super) fn given(&self) -> impl Iterator<Item = Ulid> {
        self.given.iter().map(|(_, id)| *id)
    }

    pub(super) fn has_given(&self, request: Ulid) -> bool {
        self.given().any(|id| id == request)
    }

    /// Says no, in the protocol's own way.
    pub(super) fn refuse(&self, ask: &Ask) {
        self.exchange.remote().answer(ask.key.clone(), ask.kind.refusal());
    }

    /// Whether whoever uses the server may be asked this.
    pub(super) fn may_ask(&self, params: &Raw) -> bool {
        self.live.backend(&self.server).is_ok_and(|backend| backend.may_ask(&self.live, params))
    }

    /// Leaves a question to the model; false when it was refused instead.
    pub(super) fn give(&mut self, ask: Ask, task: Option<Ulid>) -> bool {
        let kind = match ask.kind {
            AskKind::Elicitation => PendingKind::Elicitation,
            AskKind::Sampling => PendingKind::Sampling,
            AskKind::Roots | AskKind::Other => {
                self.refuse(&ask);
                return false;
            }
        };
        let params = ask.params.clone().unwrap_or_else(Raw::empty_object);
        let policy = self.live.policy();
        if policy.ask == AskMode::Never || (kind == PendingKind::Elicitation && !self.may_ask(&params)) {
            tracing::warn!(server = &*self.server, tool = &*self.tool, "question of a server refused");
            self.refuse(&ask);
            return false;
        }
        self.live.remember();
        let (remote, key, now) = (self.exchange.remote().clone(), ask.key.clone(), self.live.now());
        let new = NewRequest { server: self.server.clone(), kind, params, remote, key, related_task: task };
        // Noted under the lock, so that nobody takes it for one that no call asked.
        let kept = self.live.cell().with(|session| session.request(new, now).inspect(|id| self.asked.note(*id, task)));
        match kept {
            Ok(id) => self.given.push((ask.key, id)),
            Err(error) => drop(self.exchange.remote().answer(ask.key, Answer::error(-32000, &error.to_string()))),
        }
        kept.is_ok()
    }

    /// Keeps a result that does not reach its caller, as that of a task that has ended.
    pub(super) fn rescue(&self, result: &Raw, ttl: Option<Duration>) -> Receipt {
        let (live, result) = (self.live.clone(), result.clone());
        let (server, tool, args) = (self.server.clone(), self.tool.clone(), self.args.clone());
        Receipt::new(move |safe| {
            if safe {
                return;
            }
            let now = live.now();
            live.cell().with(|session| {
                let new = NewTask { server, tool, args, ttl, remote: Remote::deaf() };
                if let Ok(task) = session.promote(new, now) {
                    session.task_completed(task, result, now);
                }
            });
        })
    }

    /// The server no longer wants an answer.
    pub(super) fn withdraw(&mut self, key: &AskKey) {
        let Some(at) = self.given.iter().position(|(known, _)| known == key) else { return };
        let (_, id) = self.given.swap_remove(at);
        let now = self.live.now();
        self.live.cell().with(|session| session.withdraw_request(id, now));
        self.asked.forget(id);
    }

    /// The call has ended: its row too, and nobody can answer what it asked.
    pub(super) fn settle(&mut self, outcome: &Outcome) {
        for (_, id) in std::mem::take(&mut self.given) {
            self.forget(id);
        }
        let Some(tracked) = self.tracked.take() else { return };
        let how = match outcome {
            Outcome::Result(_) => "result",
            Outcome::Error(_) => "error",
            Outcome::Cancelled => "cancelled",
        };
        let session = self.live.hash();
        tracing::debug!(session, server = &*self.server, tool = &*self.tool, how, "tool_execution_complete");
        let now = self.live.now();
        match outcome {
            Outcome::Result(_) => tracked.completed(None, now),
            Outcome::Error(error) => {
                let message = error.raw.member("message");
                tracked.failed(message.as_ref().and_then(Raw::to_text).as_deref().unwrap_or("error"), now);
            }
            Outcome::Cancelled => tracked.failed("cancelled", now),
        }
    }

    /// The row says that the call goes on without its caller.
    pub(super) fn promoted(&mut self) {
        let now = self.live.now();
        if let Some(tracked) = &mut self.tracked {
            tracked.promoted(now);
        }
    }

    /// Cancels the call and gives it a moment to say so to its server.
    pub(super) async fn cancel(&mut self, why: Cancel) {
        self.exchange.remote().cancel(why);
        let ended = async { while !matches!(self.exchange.step().await, Step::End(_)) {} };
        if tokio::time::timeout(CANCEL_WITHIN, ended).await.is_err() {
            tracing::debug!(server = &*self.server, tool = &*self.tool, "cancelled call did not end");
        }
        self.settle(&Outcome::Cancelled);
    }

    /// The call is over, and with it what it asked; its server has been told.
    fn forget(&self, id: Ulid) {
        let now = self.live.now();
        self.live.cell().with(|session| {
            if let Some(kind) = session.pending_request(id).map(Pending::kind) {
                // It waits, so that this cannot fail.
                session.cancel_request(id, kind, "the call that asked has ended", now).ok();
            }
        });
        self.asked.forget(id);
    }
}

impl Drop for Work {
    /// A call that is given up, such as one whose caller's connection broke, leaves no question behind.
    fn drop(&mut self) {
        for (_, id) in std::mem::take(&mut self.given) {
            self.forget(id);
        }
    }
}

//! A call whose server wants a login first: the client or its model is asked, and it goes on once somebody has logged in.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{Answer, Ask, AskKey, AskKind, End, LoginNeeded, Outcome, Resume, ServerAuth};
use lb_session::backend::Status;
use lb_wire::Text;
use tokio::time::Instant;

use super::Live;
use super::backend::Backend;
use super::conversation::Conversation;
use super::input::Need;
use crate::login;

/// How long somebody has for a login after saying that it will be done.
const LOGIN_MAX: Duration = Duration::from_secs(5 * 60);
/// How long a link is good for: nobody waits for its end any longer.
const LINK_MAX: Duration = Duration::from_secs(10 * 60);
/// How often it is looked whether somebody has logged in, where nobody says so.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Shortest wait between two looks.
const LOOK_MIN: Duration = Duration::from_millis(500);
/// How long those who want to see how servers stand wait for what their logins say.
const STAND_MAX: Duration = Duration::from_secs(3);

/// The login that a call has asked for.
#[derive(Debug)]
pub(super) struct Promised {
    id: String,
    until: Instant,
}

/// The login that an end asks for.
pub(super) fn needed(end: &End) -> Option<LoginNeeded> {
    match &end.outcome {
        Outcome::Error(error) => error.login.as_deref().cloned(),
        Outcome::Result(_) | Outcome::Cancelled => None,
    }
}

/// What comes of asking for a login.
pub(super) enum Asked {
    /// The call is worth another try.
    Again,
    /// Nobody will log in.
    No,
    /// Nobody wants the result any more.
    Cancelled,
}

impl Conversation {
    /// Asks for a login, or waits for the one that was asked for.
    pub(super) async fn log_in(&self, needed: &LoginNeeded, promised: &mut Option<Promised>) -> Asked {
        if let Some(promise) = promised {
            // Not done in time, or it takes another one: whoever called has the link.
            let holds = promise.id == needed.id && Instant::now() < promise.until;
            return if holds { self.look_again(promise).await } else { Asked::No };
        }
        let need = Need::login(needed);
        let answers = tokio::select! {
            answers = self.ask(&need) => Some(answers),
            () = self.backend.login_ended(&needed.id) => None,
        };
        let until = Instant::now() + LOGIN_MAX;
        let promise = promised.insert(Promised { id: needed.id.clone(), until });
        match answers {
            Some(Err(_)) => Asked::Cancelled,
            Some(Ok(answers)) if answers.iter().all(|(_, answer)| is_accepted(answer)) => {
                self.look_again(promise).await
            }
            Some(Ok(_)) => Asked::No,
            None => {
                promise.until = Instant::now();
                for ask in need.asks {
                    self.withdraw(ask.key).await;
                }
                Asked::Again
            }
        }
    }

    /// Waits until it is worth another try. A login that has ended is not waited for any longer, whatever came of it.
    async fn look_again(&self, promise: &mut Promised) -> Asked {
        let looks = async {
            tokio::time::sleep(LOOK_MIN).await;
            tokio::time::timeout(LOOK_EVERY, self.backend.login_ended(&promise.id)).await.is_ok()
        };
        let has_ended = tokio::select! {
            has_ended = looks => has_ended,
            _ = self.cancelled() => return Asked::Cancelled,
        };
        if has_ended {
            promise.until = Instant::now();
        }
        Asked::Again
    }
}

fn is_accepted(answer: &Answer) -> bool {
    match answer {
        Answer::Result(result) => login::is_accepted(result),
        Answer::Error(_) => false,
    }
}

impl Live {
    /// Looks whether the logins are still there that servers were connected with. One whose login has ended is connected
    /// anew, so that it says what it wants, and clients where to get it. Cancel safe: yes.
    pub async fn look_at_logins(&self) {
        let all: Vec<Arc<Backend>> =
            self.backends.lock().values().filter(|backend| backend.has_login()).cloned().collect();
        if all.is_empty() {
            return;
        }
        let looks = all.iter().map(|backend| backend.look_at_login());
        // What is not known by then is shown as it was.
        drop(tokio::time::timeout(STAND_MAX, futures_util::future::join_all(looks)).await);
    }
}

impl Backend {
    /// Whether it is connected, and perhaps with somebody's login.
    fn has_login(&self) -> bool {
        let state = self.state.lock();
        matches!(self.entry.spec().auth, ServerAuth::User(_))
            && state.machine.status() == Status::Connected
            && !state.needs_no_login
    }

    async fn look_at_login(self: &Arc<Self>) {
        let Some(login) = self.entry.server.login(self.ourselves.principal()) else { return };
        if login.is_over().await && self.reconnect(STAND_MAX).await.is_ok() {
            // It has one by now, or wants none.
            let is_free = login.is_over().await;
            self.state.lock().needs_no_login = is_free;
        }
    }

    /// Waits until a login has come to its end; forever where that cannot be known.
    async fn login_ended(&self, id: &str) {
        match self.entry.server.login(self.ourselves.principal()) {
            Some(login) => login.ended(id).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for a login that somebody is at, as long as clients have patience. Most are done in a moment.
    ///
    /// Cancel safe: yes.
    pub async fn wait_for_login(&self, id: &str) {
        // Done or not: the call tells.
        drop(tokio::time::timeout(login::WAIT, self.login_ended(id)).await);
    }

    /// Connects by itself when somebody has logged in.
    pub(super) fn connect_after(self: &Arc<Self>, needed: LoginNeeded) {
        let (backend, tasks) = (Arc::downgrade(self), self.tasks.clone());
        let Some(login) = self.entry.server.login(self.ourselves.principal()) else { return };
        self.tasks.spawn(async move {
            let ended = tokio::select! {
                ended = tokio::time::timeout(LINK_MAX, login.ended(&needed.id)) => ended.is_ok(),
                () = tasks.stopping() => return,
            };
            let Some(backend) = backend.upgrade().filter(|_| ended) else { return };
            let waits = backend.state.lock().login.as_ref() == Some(&needed);
            if waits {
                backend.want();
            }
        });
    }
}

impl Need {
    /// The link of a login.
    fn login(needed: &LoginNeeded) -> Self {
        let ask = Ask {
            key: AskKey(Text::from_static("login")),
            kind: AskKind::Elicitation,
            method: Text::from_static("elicitation/create"),
            params: Some(login::elicitation(needed, login::Names::Given)),
            resume: Resume::Replay { state: Some(login::state(needed)) },
        };
        Self::of_link(ask)
    }
}

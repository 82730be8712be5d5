//! A server at an HTTP endpoint, of either era, or of the transport that was before both.
//!
//! A connection here is a session (legacy) or nothing but an address (modern); TCP connections are pooled below it and
//! driven by the calls that use them. Tasks exist only for what nobody waits for: notifications and answers on their
//! way out, and the legacy stream on which bytes can arrive unasked.

mod access;
mod conn;
mod endpoint;
mod handshake;
mod legacy;
mod modern;
mod outbox;
mod pool;
mod post;
mod reply;
mod running;
mod secure;
mod session;
mod sse;
mod tls;
mod watch;
mod words;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use http::HeaderMap;
use lb_exchange::{Answer, AskKey, Call, ErrorBody, Exchange, Feed, Outcome, Step, Tasks};
use lb_wire::revision::{Era, code};
use lb_wire::{Raw, compose};

pub use self::access::Access;
pub use self::endpoint::Endpoint;
#[cfg(test)]
pub use self::endpoint::SendError;
use self::legacy::Legacy;
pub use self::modern::asks as input_requests;
pub use self::post::Mailbox;
use self::running::What;
pub use self::secure::{Anchors, Secure, SecureError, Trust};
pub use self::sse::{Over, Stream};
use crate::commands;
use crate::error::{self, EraError};
use crate::inbound::{Intake, answer_line, ask_id};

/// How long a server may take to end a session.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
/// How long a server may take to answer a request of our own.
const OWN_MAX: Duration = Duration::from_secs(30);

/// One connection: what a session, or in the modern era a caller, has open with a server.
pub struct HttpConnection {
    endpoint: Arc<Endpoint>,
    access: Access,
    intake: Intake,
    wire: Wire,
    /// Stopped with this connection.
    tasks: Tasks,
}

enum Wire {
    Legacy(Legacy),
    /// Headers of every request.
    Modern(HeaderMap),
}

impl HttpConnection {
    /// Introduces us to a legacy server; `hello` is the params of `initialize`. Gives its result as written.
    ///
    /// # Errors
    /// No session, and whether that says anything about the era.
    pub async fn legacy(access: impl Into<Access>, hello: Raw, feed: Feed) -> Result<(Arc<Self>, Raw), EraError> {
        let access = access.into();
        let (welcome, session) = handshake::initialize(&access, &hello, 0).await?;
        let wire = Wire::Legacy(Legacy::new(hello, session, &welcome));
        Ok((Self::new(access, Era::Legacy, wire, feed), welcome))
    }

    /// Introduces us to a modern server. Gives its discover result as written.
    ///
    /// # Errors
    /// No answer, and whether that says anything about the era.
    pub async fn modern(
        access: impl Into<Access>,
        client_info: Option<Raw>,
        feed: Feed,
    ) -> Result<(Arc<Self>, Raw), EraError> {
        let access = access.into();
        let welcome = handshake::discover(&access, client_info.as_ref()).await?;
        let wire = Wire::Modern(modern::template(access.endpoint()));
        Ok((Self::new(access, Era::Modern, wire, feed), welcome))
    }

    fn new(access: Access, era: Era, wire: Wire, feed: Feed) -> Arc<Self> {
        let endpoint = access.endpoint().clone();
        Arc::new_cyclic(|connection: &Weak<Self>| {
            let feed_asks = commands::feed_asks(connection.clone(), Self::answer);
            let tasks = endpoint.tasks().child();
            Self { endpoint, access, intake: Intake::new(era, feed, feed_asks), wire, tasks }
        })
    }

    /// What messages of this connection touch.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Opens a request of a client.
    pub fn call(self: &Arc<Self>, call: Call, log_level: Option<Raw>) -> Exchange {
        self.open(What::Call(call, log_level))
    }

    fn open(self: &Arc<Self>, what: What) -> Exchange {
        let connection = self.clone();
        match &self.wire {
            Wire::Legacy(_) => Exchange::routine(|out| legacy::run(connection, what, out)),
            Wire::Modern(_) => Exchange::routine(|out| modern::run(connection, what, out)),
        }
    }

    /// Makes a request of our own and gives its outcome.
    ///
    /// Cancel safe: yes, the request is cancelled when dropped.
    pub async fn request(self: &Arc<Self>, method: &str, params: Option<&Raw>) -> Outcome {
        let mut exchange = self.open(What::Own { method: method.to_owned(), params: params.cloned() });
        let ended = async {
            loop {
                match exchange.step().await {
                    Step::End(end) => return end.outcome,
                    Step::Ask(ask) => {
                        exchange.remote().answer(ask.key, ask.kind.refusal());
                    }
                    Step::Pause { .. } => {
                        exchange.remote().back();
                    }
                    Step::Note(_) | Step::Withdraw { .. } => {}
                }
            }
        };
        tokio::time::timeout(OWN_MAX, ended).await.unwrap_or_else(|_| {
            let message = format!("{}: no answer to {method} within {} s", self.endpoint.called(), OWN_MAX.as_secs());
            Outcome::Error(ErrorBody::new(code::INTERNAL_ERROR, &message, Some(&error::data("timeout", None, None))))
        })
    }

    /// Sends a notification, after those sent before it. The modern era has none over HTTP.
    pub fn notify(self: &Arc<Self>, method: &str, params: Option<&Raw>) {
        self.post(compose::notification(method, params));
    }

    /// Says that the handshake is over; calls that come later wait until the server has heard it.
    pub fn initialized(self: &Arc<Self>, params: Option<Raw>) {
        if let Wire::Legacy(legacy) = &self.wire {
            legacy.initialized(self, params);
        }
    }

    /// Opens the stream of what belongs to no request, and keeps it open. Safe to call again.
    pub fn watch(self: &Arc<Self>) {
        if let Wire::Legacy(legacy) = &self.wire
            && legacy.watch.start()
        {
            self.tasks.spawn(watch::run(Arc::downgrade(self), self.tasks.clone()));
        }
    }

    /// Whether that stream is open now.
    pub fn is_watching(&self) -> bool {
        match &self.wire {
            Wire::Legacy(legacy) => legacy.watch.is_open(),
            Wire::Modern(_) => false,
        }
    }

    /// Whether the server has a session with us, which ends with this connection.
    pub fn has_session(&self) -> bool {
        match &self.wire {
            Wire::Legacy(legacy) => legacy.session().has_id(),
            Wire::Modern(_) => false,
        }
    }

    /// Whether anything can come on that stream, now or once it is open.
    pub fn may_hear(&self) -> bool {
        match &self.wire {
            Wire::Legacy(legacy) => legacy.watch.is_wanted(),
            Wire::Modern(_) => false,
        }
    }

    /// Whether a new connection is needed.
    pub fn is_lost(&self) -> bool {
        self.intake.calls.is_closed()
    }

    /// Ends the connection: open calls end, and the server is told to forget the session.
    pub async fn close(&self) {
        self.cut_off(&error::closed(self.endpoint.called(), None, None)).await;
    }

    /// The same, and open calls end with this error.
    pub async fn cut_off(&self, error: &Raw) {
        if let Some(goodbye) = self.goodbye(error) {
            goodbye.await;
        }
    }

    /// What is left to do when the connection ends; `None` when it has been done.
    fn goodbye(&self, error: &Raw) -> Option<impl Future<Output = ()> + Send + use<>> {
        self.tasks.stop();
        // One that rests has been closed to calls, and is known to the server all the same.
        if self.intake.calls.is_closed() && !self.intake.calls.take_rested() {
            return None;
        }
        self.intake.calls.close(error);
        let session = match &self.wire {
            Wire::Legacy(legacy) => Some(legacy.session()).filter(|session| session.has_id())?,
            Wire::Modern(_) => return None,
        };
        let access = self.access.clone();
        Some(async move {
            let told = async {
                match access.send(session.delete()).await {
                    Ok(mut reply) => drop(reply.page().await),
                    Err(error) => tracing::debug!(?error, "session could not be ended"),
                }
            };
            if tokio::time::timeout(GOODBYE_MAX, told).await.is_err() {
                tracing::debug!("server was slow to end a session");
            }
        })
    }

    /// Answers a request of the server.
    fn answer(self: &Arc<Self>, key: &AskKey, answer: &Answer) {
        if let Some(id) = ask_id(key) {
            self.post(answer_line(&id, answer));
        }
    }

    /// Sends a message that nothing comes back for, after those sent before it.
    fn post(self: &Arc<Self>, message: Raw) {
        match &self.wire {
            Wire::Legacy(legacy) => legacy.outbox.post(self, message),
            Wire::Modern(_) => tracing::debug!("message to a modern server dropped: its era has none"),
        }
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        if let Some(goodbye) = self.goodbye(&error::closed(self.endpoint.called(), None, None)) {
            self.endpoint.tasks().spawn(goodbye);
        }
    }
}

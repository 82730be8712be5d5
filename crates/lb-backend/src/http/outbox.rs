//! Messages that nothing comes back for: notifications and answers, one after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lb_wire::Raw;
use parking_lot::Mutex;

use super::session::Session;
use super::{Access, HttpConnection, Wire};

/// Messages that may wait for a slow server; beyond, the newest is lost.
const WAITING_MAX: usize = 1024;
/// How long a server may take to accept one.
const ACCEPT_MAX: Duration = Duration::from_secs(10);

/// What waits to be sent. A task exists only while something does.
#[derive(Default)]
pub struct Outbox(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Letter>,
    sending: bool,
}

struct Letter {
    message: Raw,
    /// To be called once the server has it, or will never have it.
    sent: Option<Box<dyn FnOnce() + Send>>,
}

impl Outbox {
    /// Sends a message after those that wait.
    pub fn post(&self, connection: &Arc<HttpConnection>, message: Raw) {
        self.add(connection, Letter { message, sent: None });
    }

    /// Sends a message after those that wait, and says when that is done.
    pub fn post_then(&self, connection: &Arc<HttpConnection>, message: Raw, sent: impl FnOnce() + Send + 'static) {
        self.add(connection, Letter { message, sent: Some(Box::new(sent)) });
    }

    fn add(&self, connection: &Arc<HttpConnection>, letter: Letter) {
        let start = {
            let mut state = self.0.lock();
            if WAITING_MAX <= state.waiting.len() {
                tracing::warn!("server does not accept messages, one was dropped");
                return;
            }
            state.waiting.push_back(letter);
            !std::mem::replace(&mut state.sending, true)
        };
        if start {
            // Not of the connection's own set: what was said before it was closed is still sent.
            connection.endpoint.tasks().spawn(send_all(connection.clone()));
        }
    }

    fn next(&self) -> Option<Letter> {
        let mut state = self.0.lock();
        let letter = state.waiting.pop_front();
        state.sending = letter.is_some();
        letter
    }
}

async fn send_all(connection: Arc<HttpConnection>) {
    let Wire::Legacy(legacy) = &connection.wire else { return };
    while let Some(letter) = legacy.outbox.next() {
        send(&connection.access, &legacy.session(), &letter.message).await;
        if let Some(sent) = letter.sent {
            sent();
        }
    }
}

/// Sends one message and waits until the server has accepted it.
pub async fn send(access: &Access, session: &Session, message: &Raw) {
    let accepted = async {
        match access.send(session.post(message.bytes().clone())).await {
            Ok(mut reply) => {
                if !reply.status.is_success() {
                    tracing::debug!(status = reply.status.as_u16(), "server refused a message");
                }
                drop(reply.page().await);
            }
            Err(error) => tracing::debug!(?error, "message to the server lost"),
        }
    };
    if tokio::time::timeout(ACCEPT_MAX, accepted).await.is_err() {
        tracing::debug!("server did not accept a message in time");
    }
}

//! The way out of a link: each line of a pipe becomes a POST of its own.
//!
//! Requests and answers are posted side by side, as over any HTTP. A notification speaks of what was sent before it, so
//! that it waits for that to be accepted, and what comes after waits for it; but not for long, as there are servers that
//! accept a request only when they have answered it.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use http::{StatusCode, Uri};
use lb_exchange::ErrorBody;
use lb_wire::{Id, Lines, Message, Shape};
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::task::JoinSet;

use super::Over;
use crate::http::access::Access;
use crate::http::endpoint::SendError;
use crate::http::words;
use crate::pipe::Pipe;

/// Messages that wait to be accepted at a time; more wait in the pipe.
const POSTS_MAX: usize = 128;
/// Bytes of them; more wait in the pipe.
const BYTES_MAX: usize = 32 << 20;
/// Longest line: what a pipe takes at most.
const LINE_BYTES_MAX: usize = 32 << 20;
/// How long a server may take to accept a message. It may have taken it in all the same.
const ACCEPT_MAX: Duration = Duration::from_secs(60);
/// How long a notification and what comes before or after it wait for each other.
const ORDER_MAX: Duration = Duration::from_millis(500);
/// How long what was said before the link was closed may take.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// Posts the messages of one link.
pub struct Poster {
    access: Access,
    post_to: Uri,
    pipe: Weak<Pipe>,
    over: Over,
}

/// What is on its way: how many bytes each has.
type Posts = JoinSet<usize>;

impl Poster {
    pub fn new(access: Access, post_to: Uri, pipe: Weak<Pipe>, over: Over) -> Self {
        Self { access, post_to, pipe, over }
    }

    /// Posts each line, until there will be no more or the link is over.
    pub async fn run(self, mut output: DuplexStream) {
        let (mut lines, mut posts) = (Lines::new(LINE_BYTES_MAX), Posts::new());
        let over = self.over.clone();
        tokio::select! {
            () = self.post_all(&mut output, &mut lines, &mut posts) => {
                // What was said last is still sent.
                wait(&mut posts, GOODBYE_MAX).await;
                over.end("");
            }
            () = over.token().cancelled() => {}
        }
    }

    async fn post_all(&self, output: &mut DuplexStream, lines: &mut Lines, posts: &mut Posts) {
        let mut bytes = 0;
        loop {
            while POSTS_MAX <= posts.len() || (BYTES_MAX < bytes && !posts.is_empty()) {
                bytes -= joined(posts).await.min(bytes);
            }
            let line = tokio::select! {
                line = next(output, lines) => line,
                done = joined(posts), if !posts.is_empty() => {
                    bytes -= done.min(bytes);
                    continue;
                }
            };
            let Some(line) = line else { return };
            // Everything here was composed by us; what is none of that has nobody who waits for it.
            let Ok(message) = Message::scan(line.clone()) else { continue };
            let is_note = message.shape() == Shape::Notification;
            let id = Some(message).filter(|message| message.shape() == Shape::Request);
            let id = id.as_ref().and_then(Message::id).and_then(Id::to_number);
            if is_note {
                bytes -= wait(posts, ORDER_MAX).await.min(bytes);
            }
            bytes += line.len();
            posts.spawn(self.post(id, line));
            if is_note {
                bytes -= wait(posts, ORDER_MAX).await.min(bytes);
            }
        }
    }

    /// Posts one message; `id` is that of a request of ours.
    fn post(&self, id: Option<u64>, line: Bytes) -> impl Future<Output = usize> + Send + use<> {
        let (access, post_to, pipe, over) =
            (self.access.clone(), self.post_to.clone(), self.pipe.clone(), self.over.clone());
        async move {
            let bytes = line.len();
            match accepted(&access, post_to, line).await {
                Ok(()) => {}
                Err(Refusal::Gone(status)) => {
                    over.end(format!("it answers HTTP {status} where it wanted messages posted: the session is gone"));
                }
                Err(Refusal::Message(error)) => match (id, pipe.upgrade()) {
                    (Some(id), Some(pipe)) => pipe.fail(id, *error),
                    _ => tracing::debug!(error = error.raw.as_str(), "message to the server lost"),
                },
            }
            bytes
        }
    }
}

/// Why a message was not accepted.
enum Refusal {
    /// The server knows of no such session.
    Gone(u16),
    /// This one message is refused or lost.
    Message(Box<ErrorBody>),
}

/// Waits until the server has taken a message in.
async fn accepted(access: &Access, post_to: Uri, line: Bytes) -> Result<(), Refusal> {
    let endpoint = access.endpoint();
    let mut request = endpoint.post(endpoint.headers().clone(), line);
    *request.uri_mut() = post_to;
    let refused = |error: SendError| Refusal::Message(Box::new(error.to_body(endpoint)));
    let Ok(sent) = tokio::time::timeout(ACCEPT_MAX, access.send(request)).await else {
        tracing::debug!(server = endpoint.called(), "server did not accept a message in time");
        return Ok(());
    };
    let mut reply = sent.map_err(refused)?;
    let page = reply.page().await;
    match reply.status {
        status if status.is_success() => Ok(()),
        status @ (StatusCode::NOT_FOUND | StatusCode::GONE) => Err(Refusal::Gone(status.as_u16())),
        status => {
            let error = words::status_error(endpoint.called(), status, &reply.headers, &page);
            Err(Refusal::Message(Box::new(error)))
        }
    }
}

/// The next line; `None` when there will be none.
///
/// Cancel safe: yes.
async fn next(output: &mut DuplexStream, lines: &mut Lines) -> Option<Bytes> {
    loop {
        match lines.next_line() {
            Some(Ok(line)) => return Some(line),
            Some(Err(_)) => {}
            None => match output.read_buf(lines.buffer()).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            },
        }
    }
}

/// Waits for one to be accepted, and gives its length.
async fn joined(posts: &mut Posts) -> usize {
    posts.join_next().await.and_then(Result::ok).unwrap_or(0)
}

/// Waits for all to be accepted, but not for longer than this; gives the length of those that were.
async fn wait(posts: &mut Posts, within: Duration) -> usize {
    let mut bytes = 0;
    let all = async {
        while !posts.is_empty() {
            bytes += joined(posts).await;
        }
    };
    if tokio::time::timeout(within, all).await.is_err() {
        tracing::debug!("server is slow to accept messages");
    }
    bytes
}

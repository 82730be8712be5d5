//! HTTP+SSE, the transport of 2024-11-05: one stream by GET brings everything the server says, and names where messages
//! are posted to.
//!
//! What comes of it is a pair of ends for a pipe: lines in, lines out. The connection is the session, so that the end of
//! the stream is the end of the link.

mod incoming;
mod poster;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::ACCEPT;
use http::{HeaderValue, Method, StatusCode, Uri};
use lb_exchange::{Feed, Tasks};
use lb_wire::revision::Era;
use tokio_util::sync::CancellationToken;

use self::incoming::Incoming;
use self::poster::Poster;
use super::access::Access;
use super::endpoint::SendError;
use super::reply::Reply;
use super::{handshake, words};
use crate::error::{self, ConnectError, EraError};
use crate::pipe::{Ends, Pipe, Runs};

/// Bytes between a pipe and what posts its lines; more waits in the pipe.
const OUTBOX: usize = 64 << 10;

/// An open stream, and where its server wants messages.
pub struct Stream {
    access: Access,
    incoming: Incoming,
    post_to: Uri,
    over: Over,
}

impl Stream {
    /// Opens the stream and waits until it says where to post, each within this time.
    ///
    /// Cancel safe: yes, the connection is closed.
    ///
    /// # Errors
    /// [`EraError::WrongEra`] when there is no such stream.
    pub async fn open(access: Access, within: Duration) -> Result<Self, EraError> {
        let opened = tokio::time::timeout(within, get(&access)).await;
        let reply = opened.unwrap_or(Err(EraError::Failed(ConnectError::Timeout(within))))?;
        let over = Over::default();
        let mut incoming = Incoming::new(reply, over.clone());
        // A stream that says nothing of the kind may be one of streamable HTTP.
        let named =
            named(&mut incoming, within).await.map_err(|why| EraError::WrongEra(ConnectError::Handshake(why)))?;
        let post_to = access.endpoint().beside(&named).map_err(|why| EraError::Failed(ConnectError::Handshake(why)))?;
        incoming.names_only(post_to.clone(), access.endpoint().clone());
        Ok(Self { access, incoming, post_to, over })
    }

    /// Reads and posts from here on, as the two ends of a pipe.
    pub fn into_pipe(self, server: &str, feed: Feed, tasks: &Tasks) -> (Arc<Pipe>, Over) {
        let Self { access, incoming, post_to, over } = self;
        let (output, lines) = tokio::io::duplex(OUTBOX);
        let (called, told) = (access.endpoint().called().to_owned(), over.clone());
        let closed = async move { error::cut(&called, told.why()) };
        let ends = Ends(Box::new(incoming), Box::new(output), Runs::Remote);
        let pipe = Pipe::open(server, ends, Era::Legacy, feed, tasks, closed);
        tasks.spawn(Poster::new(access, post_to, Arc::downgrade(&pipe), over.clone()).run(lines));
        (pipe, over)
    }
}

/// That a link is over, and why. Cheap to clone.
#[derive(Clone, Default)]
pub struct Over(Arc<State>);

#[derive(Default)]
struct State {
    ended: CancellationToken,
    why: OnceLock<String>,
}

impl Over {
    /// It is over because of this; what was said first counts.
    fn end(&self, why: impl Into<String>) {
        self.0.why.get_or_init(|| why.into());
        self.0.ended.cancel();
    }

    fn token(&self) -> &CancellationToken {
        &self.0.ended
    }

    /// Why it is over; `None` when the server has just ended its stream, or we have.
    pub fn why(&self) -> Option<&str> {
        self.0.why.get().map(String::as_str).filter(|why| !why.is_empty())
    }

    /// The same, as it stands after the name of the server.
    pub fn words(&self) -> String {
        self.why().unwrap_or("it ended its stream").to_owned()
    }
}

/// The stream, once its head has come.
async fn get(access: &Access) -> Result<Reply, EraError> {
    let endpoint = access.endpoint();
    let mut headers = endpoint.headers().clone();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let sent = access.send(endpoint.bare(Method::GET, headers)).await;
    let mut reply = sent.map_err(|error| {
        EraError::Failed(match error {
            SendError::Unreachable(error) | SendError::Login(error) => error,
            SendError::Broken(why) => endpoint.unreachable(why),
        })
    })?;
    if reply.status.is_success() && reply.is_events() {
        return Ok(reply);
    }
    handshake::check_tells(access, &mut reply).await.map_err(EraError::Failed)?;
    if reply.status.is_success() {
        let why = "it answers GET with something that is no stream of events";
        return Err(EraError::WrongEra(ConnectError::Handshake(why.to_owned())));
    }
    let (status, body) = (reply.status.as_u16(), words::excerpt(&reply.page().await));
    Err(EraError::WrongEra(ConnectError::Status { status, body }))
}

/// Where the server wants messages, as it says it.
async fn named(incoming: &mut Incoming, within: Duration) -> Result<String, String> {
    let named = tokio::time::timeout(within, incoming.endpoint()).await;
    let seconds = within.as_secs_f64();
    named.unwrap_or_else(|_| Err(format!("its stream does not say within {seconds} s where to post messages")))
}

/// Whether an answer to a first POST leaves open that the server speaks this transport: it has nothing that takes one.
pub fn is_hinted_by(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
}

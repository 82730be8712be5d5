//! In which era, and over which transport, a server is tried.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::Transport;
use lb_wire::revision::Era;
use parking_lot::Mutex;

use super::{Connection, HANDSHAKES, Link, Server, Started, Wish, handshake};
use crate::child;
use crate::error::{ConnectError, EraError};
use crate::http::Stream;

/// How long a server may take to say that it speaks HTTP+SSE, where nobody has said that it does.
const PROBE_MAX: Duration = Duration::from_secs(10);

impl Server {
    /// Connects in the era of the front if the server speaks it, else in the other. All of it within one time, so that
    /// slow answers do not add up.
    pub(super) async fn connect_in_either(&self, wish: &Wish) -> Result<Arc<Connection>, ConnectError> {
        let within = self.spec.init_timeout.saturating_mul(HANDSHAKES);
        let connecting = tokio::time::timeout(within, self.connect_in_turn(wish));
        connecting.await.unwrap_or(Err(ConnectError::Timeout(within)))
    }

    async fn connect_in_turn(&self, wish: &Wish) -> Result<Arc<Connection>, ConnectError> {
        if self.spec.transport == Transport::Sse {
            return self.connect_by_stream(wish, self.spec.init_timeout).await.map_err(EraError::into_inner);
        }
        let by_stream = self.eras.lock().by_stream;
        if by_stream {
            match self.connect_by_stream(wish, self.spec.init_timeout).await {
                Ok(connection) => return Ok(connection),
                Err(EraError::Failed(error)) => return Err(error),
                // It is another one than it was.
                Err(EraError::WrongEra(_) | EraError::NoPost(_)) => self.eras.lock().by_stream = false,
            }
        }
        match self.connect_in_eras(wish).await {
            Ok(connection) => Ok(connection),
            Err(EraError::NoPost(error)) => self.try_by_stream(wish, error).await,
            Err(EraError::WrongEra(error) | EraError::Failed(error)) => Err(error),
        }
    }

    /// One that takes no POST of either era; `error` is what it said to that.
    async fn try_by_stream(&self, wish: &Wish, error: ConnectError) -> Result<Arc<Connection>, ConnectError> {
        match self.connect_by_stream(wish, PROBE_MAX.min(self.spec.init_timeout)).await {
            Ok(connection) => {
                self.eras.lock().by_stream = true;
                Ok(connection)
            }
            // There is such a stream, and something else is wrong.
            Err(EraError::Failed(found)) if !matches!(found, ConnectError::Timeout(_)) => Err(found),
            Err(EraError::Failed(_) | EraError::WrongEra(_) | EraError::NoPost(_)) => Err(error),
        }
    }

    /// [`EraError::NoPost`] when nothing that it said speaks against the transport that was before.
    async fn connect_in_eras(&self, wish: &Wish) -> Result<Arc<Connection>, EraError> {
        let own = wish.caller.era();
        let other = match own {
            Era::Legacy => Era::Modern,
            Era::Modern => Era::Legacy,
        };
        let mut first = None;
        let lacks_own = self.eras.lock().of(own) == Some(false);
        if !lacks_own {
            match self.connect_in(own, wish).await {
                Ok(connection) => return Ok(self.learned(own, connection)),
                Err(error @ EraError::Failed(_)) => return Err(error),
                Err(error @ (EraError::WrongEra(_) | EraError::NoPost(_))) => first = Some(error),
            }
        }
        match self.connect_in(other, wish).await {
            Ok(connection) => {
                let connection = self.learned(other, connection);
                // Only now is it known that the first answer was about the era and not about something else.
                self.lacks(own);
                Ok(connection)
            }
            // Not an attempt, as it says nothing about the server; or one that wants a login, which would answer: whatever
            // it said in the other era is not why it does not.
            Err(
                error @ EraError::Failed(
                    ConnectError::TooManyChildren(_) | ConnectError::Stopping | ConnectError::LoginNeeded(_),
                ),
            ) => Err(error),
            // It is another one than it was.
            Err(error @ (EraError::WrongEra(_) | EraError::NoPost(_))) if lacks_own => {
                match self.connect_in(own, wish).await {
                    Ok(connection) => Ok(self.learned(own, connection)),
                    Err(second) => Err(both(error, &second)),
                }
            }
            Err(second) => Err(match first {
                Some(first) => both(first, &second),
                None => second,
            }),
        }
    }

    fn learned(&self, era: Era, connection: Arc<Connection>) -> Arc<Connection> {
        self.eras.lock().set(era, true);
        connection
    }

    /// It is known not to speak an era: the other one is tried first. No more than that, as it may have changed.
    pub fn lacks(&self, era: Era) {
        self.eras.lock().set(era, false);
    }

    /// Connects over HTTP+SSE, a legacy connection whose two ends are far away. The stream is to be there within this time.
    async fn connect_by_stream(&self, wish: &Wish, within: Duration) -> Result<Arc<Connection>, EraError> {
        let Some(endpoint) = &self.endpoint else { return Err(EraError::Failed(ConnectError::Stopping)) };
        let stream = Stream::open(self.access(endpoint, wish), within).await?;
        let tasks = &self.environment.tasks;
        let (pipe, over) = stream.into_pipe(self.spec.name.as_str(), wish.feed.clone(), tasks);
        let inner = child::Started { pipe, child: None };
        let guard = Started { inner, room: Mutex::new(None), tasks: tasks.clone(), over: Some(over) };
        let shaken = handshake::over_pipe(&guard, Era::Legacy, wish, self.spec.init_timeout).await;
        // Whatever it says from here on, it is of this transport.
        let connected = shaken.and_then(|welcome| self.connection(Link::Pipe(guard), Era::Legacy, welcome, wish));
        connected.map_err(|error| EraError::Failed(error.into_inner()))
    }
}

/// What to make of a server that speaks neither era: what it said first is told, if there is nothing else to try.
fn both(first: EraError, second: &EraError) -> EraError {
    let takes_none = matches!(first, EraError::NoPost(_)) || matches!(second, EraError::NoPost(_));
    match second {
        EraError::Failed(_) => EraError::Failed(first.into_inner()),
        EraError::WrongEra(_) | EraError::NoPost(_) if takes_none => EraError::NoPost(first.into_inner()),
        EraError::WrongEra(_) | EraError::NoPost(_) => first,
    }
}

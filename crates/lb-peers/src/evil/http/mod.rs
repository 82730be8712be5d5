//! The server at `/mcp`, on bare sockets.

mod strike;

use std::io::Result;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::catalog::{Catalog, Outcome, acknowledged, list_changed};
use super::options::Options;
use super::stray::Strays;
use crate::raw::endpoint::{self, Endpoint, Verdict};
use crate::raw::handshake::Era;
use crate::raw::http1::{Conn, LAST_CHUNK, sse_chunk, sse_head};
use crate::raw::message::Message;

/// Messages that wait for a stream to take them; one that has more waiting is given up.
const STREAM_QUEUE_MAX: usize = 64;

/// Serves until killed.
///
/// # Errors
/// When the address cannot be used.
pub async fn serve(options: Options, address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    eprintln!("evil: ready");
    let catalog = Catalog::new(options.faults, options.eras);
    let endpoint = Endpoint::new(catalog.hello);
    let server = Arc::new(Server { catalog, endpoint, strays: Strays::default(), listens: Mutex::default() });
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        connections.spawn(Arc::clone(&server).converse(stream));
    }
}

/// Whether a connection may carry another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    KeepAlive,
    Close,
}

/// The way to the GET stream of a session, while there is one.
type Stream = Option<mpsc::Sender<String>>;

#[derive(Debug)]
struct Listen {
    id: String,
    stream: mpsc::Sender<String>,
}

struct Server {
    catalog: Catalog,
    endpoint: Endpoint<Stream>,
    strays: Strays,
    /// Modern listens that asked for tool list changes.
    listens: Mutex<Vec<Listen>>,
}

impl Server {
    async fn converse(self: Arc<Self>, stream: TcpStream) {
        let mut conn = Conn::new(stream);
        while let Ok(Some((head, body))) = endpoint::read(&mut conn).await {
            let after = match self.endpoint.admit(&head, &body) {
                Verdict::Reply(bytes) => conn.write(&bytes).await.map(|()| After::KeepAlive),
                Verdict::OneWay(_) => conn.write(&endpoint::accepted()).await.map(|()| After::KeepAlive),
                Verdict::Stream(session) => self.stream(&mut conn, session).await,
                Verdict::Request { message, era, session } => {
                    self.answer(&mut conn, &message, era, session.as_deref()).await
                }
            };
            match after {
                Ok(After::KeepAlive) => {}
                Ok(After::Close) => return,
                Err(error) => {
                    eprintln!("evil: {error}");
                    return;
                }
            }
        }
    }

    async fn answer(&self, conn: &mut Conn, message: &Message, era: Era, session: Option<&str>) -> Result<After> {
        let key = session.unwrap_or_default();
        match self.catalog.answer(message, era, key) {
            Outcome::Reply(status, reply) => {
                // Before the write, or the next strike could come sooner than this note.
                self.catalog.finish(key, message.id.as_deref().unwrap_or_default());
                self.reply(conn, status, &reply, message, session).await?;
                Ok(After::KeepAlive)
            }
            Outcome::Strike(strike) => {
                let after = self.strike(conn, &strike).await?;
                self.catalog.finish(key, &strike.id);
                Ok(after)
            }
            Outcome::Listen(id, tools) => self.listen(conn, id, tools).await,
        }
    }

    /// The plain answer, with a stray one before it where wrong-stream has left one.
    async fn reply(
        &self,
        conn: &mut Conn,
        status: u16,
        reply: &str,
        message: &Message,
        session: Option<&str>,
    ) -> Result<()> {
        let stray = match message.method() {
            "tools/call" => self.strays.take(session.unwrap_or_default()),
            _ => None,
        };
        if let Some(stray) = stray {
            let bytes = [sse_head(), sse_chunk(&stray.answer), sse_chunk(reply), LAST_CHUNK.to_vec()].concat();
            conn.write(&bytes).await?;
            stray.delivered(None);
            return Ok(());
        }
        let fresh = session.filter(|_| message.method() == "initialize");
        conn.write(&endpoint::json(status, fresh, reply.as_bytes())).await
    }

    /// A legacy GET stream. A second one takes the place of the first.
    async fn stream(&self, conn: &mut Conn, session: String) -> Result<After> {
        let (sender, receiver) = mpsc::channel(STREAM_QUEUE_MAX);
        // Entered before the head goes out, so that whoever has seen the head misses nothing.
        self.endpoint.with_sessions(|all| all.get_mut(&session).map(|stream| *stream = Some(sender)));
        conn.write(&sse_head()).await?;
        pump(conn, receiver).await
    }

    async fn listen(&self, conn: &mut Conn, id: String, tools: bool) -> Result<After> {
        let (sender, receiver) = mpsc::channel(STREAM_QUEUE_MAX);
        let first = [sse_head(), sse_chunk(&acknowledged(&id, tools))].concat();
        let listen = Listen { id, stream: sender };
        // A listen to nothing is kept by this call alone: it stays open and silent.
        let _silent = if tools {
            self.listens.lock().unwrap_or_else(PoisonError::into_inner).push(listen);
            None
        } else {
            Some(listen)
        };
        conn.write(&first).await?;
        pump(conn, receiver).await
    }

    /// Tells every stream but the GET stream of `except` that the list has changed.
    fn announce(&self, except: &str) {
        self.endpoint.with_sessions(|all| {
            for (_, stream) in all.iter_mut().filter(|(session, _)| *session != except) {
                // A stream that is full or gone misses the news, as it would with any server.
                if stream.as_ref().is_some_and(|stream| stream.try_send(list_changed(None)).is_err()) {
                    *stream = None;
                }
            }
        });
        let mut listens = self.listens.lock().unwrap_or_else(PoisonError::into_inner);
        listens.retain(|listen| listen.stream.try_send(list_changed(Some(&listen.id))).is_ok());
    }

    /// Puts a message on the GET stream of a session once that is open; gives it back when it does not open.
    async fn on_get_stream(&self, session: &str, json: String, patience: Duration) -> std::result::Result<(), String> {
        let open = async {
            loop {
                let stream = self.endpoint.with_sessions(|all| all.get(session).cloned().flatten());
                match stream {
                    Some(stream) if stream.try_send(json.clone()).is_ok() => return,
                    _ => sleep(Duration::from_millis(10)).await,
                }
            }
        };
        timeout(patience, open).await.map_err(|_| json.clone())
    }
}

/// Writes what comes until the peer leaves or nobody can send any more.
async fn pump(conn: &mut Conn, mut messages: mpsc::Receiver<String>) -> Result<After> {
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            _ = conn.peer_closed() => return Ok(After::Close),
        };
        match message {
            Some(json) => conn.write(&sse_chunk(&json)).await?,
            None => {
                conn.write(LAST_CHUNK).await?;
                return Ok(After::KeepAlive);
            }
        }
    }
}

//! The ledger at `/mcp`.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::streams::Streams;
use super::work::rest;
use super::{Outcome, Server, Work};
use crate::raw::endpoint::{self, Endpoint, Verdict};
use crate::raw::handshake::Era;
use crate::raw::http1::{Conn, LAST_CHUNK, response, sse_chunk, sse_chunk_with_id, sse_head};

/// Bytes of reports that are written at once where the work takes no time.
const BATCH_BYTES: usize = 64 * 1024;

struct Site {
    server: Arc<Server>,
    endpoint: Endpoint<()>,
    streams: Option<Streams>,
}

/// Serves until killed.
pub async fn serve(server: Arc<Server>, streams: Option<Streams>, address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    let site = Arc::new(Site { endpoint: Endpoint::new(server.hello), server, streams });
    for session in site.streams.iter().flat_map(Streams::sessions) {
        site.endpoint.restore(session);
    }
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        connections.spawn(converse(site.clone(), stream));
    }
}

async fn converse(site: Arc<Site>, stream: TcpStream) {
    let mut conn = Conn::new(stream);
    while let Ok(Some((head, body))) = endpoint::read(&mut conn).await {
        let written = match site.endpoint.admit(&head, &body) {
            Verdict::Reply(bytes) => conn.write(&bytes).await,
            Verdict::OneWay(_) => conn.write(&endpoint::accepted()).await,
            Verdict::Stream(_) => match head.header("last-event-id") {
                Some(event) if site.streams.is_some() => site.resume(&mut conn, event).await,
                _ => return quiet(&mut conn, sse_head()).await,
            },
            Verdict::Request { message, era, session } => match site.server.answer(&message, era) {
                Outcome::Listen(acknowledged) => {
                    return quiet(&mut conn, [sse_head(), sse_chunk(&acknowledged)].concat()).await;
                }
                Outcome::Work(work) => match site.streams.as_ref().filter(|_| era == Era::Legacy && 0 < work.notes) {
                    Some(streams) => events(&mut conn, streams.called(&body, &work), &work, 0).await,
                    None => toil(&mut conn, &work).await,
                },
                Outcome::Reply(status, reply) => {
                    let fresh = session.as_deref().filter(|_| message.method() == "initialize");
                    if let (Some(streams), Some(session)) = (&site.streams, fresh) {
                        streams.opened(session);
                    }
                    conn.write(&endpoint::json(status, fresh, reply.as_bytes())).await
                }
            },
        };
        if written.is_err() {
            return; // the client has left
        }
    }
}

impl Site {
    /// The rest of a stream, from the event on that this one names.
    async fn resume(&self, conn: &mut Conn, event: &str) -> Result<()> {
        match self.streams.as_ref().and_then(|streams| streams.resumed(event)) {
            Some((call, work, after)) => events(conn, call, &work, after).await,
            None => conn.write(&response(400, &[], b"no such event")).await,
        }
    }
}

/// The reports of a call after the one of this number, each with its id, and the answer.
async fn events(conn: &mut Conn, call: usize, work: &Work, after: u64) -> Result<()> {
    let id = |number: u64| format!("{call}-{number}");
    // An event without data comes first, so that there is an id to go on from as soon as there is a stream.
    conn.write(&[sse_head(), sse_chunk_with_id(&id(after), "")].concat()).await?;
    for number in after + 1..=work.notes {
        rest(work.pause()).await;
        conn.write(&sse_chunk_with_id(&id(number), &work.note(number))).await?;
    }
    let last = work.notes + 1;
    let answer = if after < last { sse_chunk_with_id(&id(last), &work.answer()) } else { Vec::new() };
    conn.write(&[&answer, LAST_CHUNK].concat()).await
}

/// A stream on which nothing follows; it stays until the client leaves.
async fn quiet(conn: &mut Conn, first: Vec<u8>) {
    if conn.write(&first).await.is_ok() {
        while !conn.peer_closed().await {}
    }
}

async fn toil(conn: &mut Conn, work: &Work) -> Result<()> {
    let pause = work.pause();
    if work.notes == 0 {
        rest(pause).await;
        return conn.write(&endpoint::json(200, None, work.answer().as_bytes())).await;
    }
    let mut batch = sse_head();
    for number in 1..=work.notes {
        rest(pause).await;
        batch.extend(sse_chunk(&work.note(number)));
        if !pause.is_zero() || BATCH_BYTES < batch.len() {
            conn.write(&std::mem::take(&mut batch)).await?;
        }
    }
    batch.extend(sse_chunk(&work.answer()));
    batch.extend_from_slice(LAST_CHUNK);
    conn.write(&batch).await
}

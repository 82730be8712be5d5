//! The ledger at `/mcp`.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::work::rest;
use super::{Outcome, Server, Work};
use crate::raw::endpoint::{self, Endpoint, Verdict};
use crate::raw::http1::{Conn, LAST_CHUNK, sse_chunk, sse_head};

/// Bytes of reports that are written at once where the work takes no time.
const BATCH_BYTES: usize = 64 * 1024;

struct Site {
    server: Arc<Server>,
    endpoint: Endpoint<()>,
}

/// Serves until killed.
pub async fn serve(server: Arc<Server>, address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    let site = Arc::new(Site { endpoint: Endpoint::new(server.hello), server });
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
            Verdict::Stream(_) => return quiet(&mut conn, sse_head()).await,
            Verdict::Request { message, era, session } => match site.server.answer(&message, era) {
                Outcome::Listen(acknowledged) => {
                    return quiet(&mut conn, [sse_head(), sse_chunk(&acknowledged)].concat()).await;
                }
                Outcome::Work(work) => toil(&mut conn, &work).await,
                Outcome::Reply(status, reply) => {
                    let fresh = session.as_deref().filter(|_| message.method() == "initialize");
                    conn.write(&endpoint::json(status, fresh, reply.as_bytes())).await
                }
            },
        };
        if written.is_err() {
            return; // the client has left
        }
    }
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

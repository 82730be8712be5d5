//! What a strike does to an HTTP response.

use std::io::Result;
use std::time::Duration;

use tokio::time::sleep;

use super::{After, Server};
use crate::evil::catalog::{Strike, list_changed};
use crate::evil::fault::{Fault, Transport};
use crate::evil::noise::{self, BATCH_BYTES, Sink};
use crate::evil::payload;
use crate::evil::stdio::{SLOW_STEP, slow_pieces};
use crate::raw::endpoint;
use crate::raw::handshake::Era;
use crate::raw::http1::{Conn, LAST_CHUNK, response, response_head, sse_chunk, sse_head};
use crate::raw::message::{quote, result};

/// How long wrong-stream waits for a GET stream it was told to use.
const GET_WAIT_MAX: Duration = Duration::from_secs(5);

impl Server {
    pub(super) async fn strike(&self, conn: &mut Conn, strike: &Strike) -> Result<After> {
        match strike.fault {
            Fault::DieBeforeReply => std::process::exit(3),
            Fault::DieAfterReply => {
                json(conn, &strike.answer()).await?;
                conn.shutdown().await?;
                std::process::exit(3)
            }
            Fault::HalfLine => return half(conn, &strike.answer()).await,
            Fault::Garbage => {
                let body = payload::random_bytes(300);
                conn.write(&response(200, &[("Content-Type", "application/json")], &body)).await?;
            }
            Fault::Flood | Fault::StaleIds | Fault::ProgressStorm => {
                let mut batch = Batch { conn, bytes: sse_head() };
                noise::send(&self.catalog, strike, &mut batch).await?;
                batch.message(&strike.answer()).await?;
                let mut last = batch.bytes;
                last.extend_from_slice(LAST_CHUNK);
                conn.write(&last).await?;
            }
            Fault::Hang => {
                while !conn.peer_closed().await {}
                return Ok(After::Close);
            }
            Fault::Slow => slowly(conn, &strike.answer()).await?,
            Fault::SwappedIds => {
                let id = self.catalog.swap.exchange(strike.id.clone()).await;
                json(conn, &strike.answer_as(&id)).await?;
            }
            Fault::HugeLine => {
                json(conn, &Strike { text: quote(&payload::huge()), ..strike.clone() }.answer()).await?;
            }
            Fault::OddContent => {
                json(conn, &result(&strike.id, &payload::odd_result(strike.era, Transport::Http))).await?;
            }
            Fault::ListChangedFirst => self.list_changed_first(conn, strike).await?,
            Fault::WrongStream => self.wrong_stream(conn, strike).await?,
            // Options refuse them: they are about a child process.
            Fault::CloseStdout | Fault::IgnoreTerm => json(conn, &strike.answer()).await?,
        }
        Ok(After::KeepAlive)
    }

    async fn list_changed_first(&self, conn: &mut Conn, strike: &Strike) -> Result<()> {
        self.catalog.change_list();
        self.announce(&strike.session);
        match strike.era {
            Era::Modern => json(conn, &strike.answer()).await,
            Era::Legacy => {
                let chunks = [sse_head(), sse_chunk(&list_changed(None)), sse_chunk(&strike.answer())];
                conn.write(&[chunks.concat(), LAST_CHUNK.to_vec()].concat()).await
            }
        }
    }

    /// Opens the call's own stream, answers elsewhere, and ends it.
    async fn wrong_stream(&self, conn: &mut Conn, strike: &Strike) -> Result<()> {
        conn.write(&sse_head()).await?;
        let mut own = Vec::new();
        if let Some(other) = self.strays.take(&strike.session) {
            // Two at once: each answer comes on the other's stream.
            own = sse_chunk(&other.answer);
            other.delivered(Some(strike.answer()));
        } else {
            let patience = match strike.via.as_deref() {
                Some("get") => GET_WAIT_MAX,
                Some("post") => Duration::ZERO,
                _ => Duration::from_millis(1),
            };
            if let Err(answer) = self.by_get(strike, patience).await {
                let in_return = self.strays.leave(&strike.session, answer).await;
                own.extend(in_return.map(|json| sse_chunk(&json)).unwrap_or_default());
            }
        }
        own.extend_from_slice(LAST_CHUNK);
        conn.write(&own).await
    }

    async fn by_get(&self, strike: &Strike, patience: Duration) -> std::result::Result<(), String> {
        if patience.is_zero() {
            return Err(strike.answer());
        }
        self.on_get_stream(&strike.session, strike.answer(), patience).await
    }
}

async fn json(conn: &mut Conn, answer: &str) -> Result<()> {
    conn.write(&endpoint::json(200, None, answer.as_bytes())).await
}

/// Announces the whole answer, sends half of it and closes.
async fn half(conn: &mut Conn, answer: &str) -> Result<After> {
    let length = format!("Content-Length: {}", answer.len());
    conn.write(&response_head(200, &[("Content-Type", "application/json")], &length)).await?;
    let (half, _) = answer.as_bytes().split_at(answer.len() / 2);
    conn.write(half).await?;
    conn.shutdown().await?;
    Ok(After::Close)
}

async fn slowly(conn: &mut Conn, answer: &str) -> Result<()> {
    let length = format!("Content-Length: {}", answer.len());
    conn.write(&response_head(200, &[("Content-Type", "application/json")], &length)).await?;
    for piece in slow_pieces(answer.as_bytes()) {
        conn.write(piece).await?;
        sleep(SLOW_STEP).await;
    }
    Ok(())
}

/// Events gathered into larger writes.
struct Batch<'a> {
    conn: &'a mut Conn,
    bytes: Vec<u8>,
}

impl Sink for Batch<'_> {
    async fn message(&mut self, json: &str) -> Result<()> {
        self.bytes.extend_from_slice(&sse_chunk(json));
        if self.bytes.len() < BATCH_BYTES {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.bytes);
        self.conn.write(&batch).await
    }
}

//! The ledger on stdin and stdout.

use std::io::Result;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Stdout};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::work::rest;
use super::{Outcome, Server, Work};
use crate::raw::message::{self, Message};

/// Bytes of reports that are written at once where the work takes no time.
const BATCH_BYTES: usize = 64 * 1024;

type Out = Arc<Mutex<Stdout>>;

/// Serves until stdin ends.
pub async fn serve(server: Arc<Server>) -> Result<()> {
    let out = Arc::new(Mutex::new(tokio::io::stdout()));
    let mut tasks = JoinSet::new();
    let mut stdin = BufReader::new(tokio::io::stdin());
    let mut line = Vec::new();
    while 0 < stdin.read_until(b'\n', &mut line).await? {
        while tasks.try_join_next().is_some() {}
        let (server, out, line) = (server.clone(), out.clone(), std::mem::take(&mut line));
        tasks.spawn(async move {
            if let Err(error) = answer(&server, &out, &line).await {
                eprintln!("ledger: {error}");
            }
        });
    }
    // Returning would wait for a write that nobody reads.
    std::process::exit(0)
}

async fn answer(server: &Server, out: &Out, line: &[u8]) -> Result<()> {
    let Some(message) = Message::parse(line) else {
        return write(out, message::error("null", -32700, "parse error", None)).await;
    };
    let (Some(id), Some(_)) = (&message.id, &message.method) else { return Ok(()) };
    let era = match server.hello.check(&message, None) {
        Ok(era) => era,
        Err(refusal) => return write(out, refusal.response(id)).await,
    };
    match server.answer(&message, era) {
        Outcome::Reply(_, reply) => write(out, reply).await,
        Outcome::Listen(acknowledged) => write(out, acknowledged).await,
        Outcome::Work(work) => toil(out, &work).await,
    }
}

async fn toil(out: &Out, work: &Work) -> Result<()> {
    let (pause, mut batch) = (work.pause(), String::new());
    for number in 1..=work.notes {
        rest(pause).await;
        batch += &work.note(number);
        if !pause.is_zero() || BATCH_BYTES < batch.len() {
            write(out, std::mem::take(&mut batch)).await?;
        } else {
            batch.push('\n');
        }
    }
    if work.notes == 0 {
        rest(pause).await;
    }
    write(out, batch + &work.answer()).await
}

async fn write(out: &Out, mut line: String) -> Result<()> {
    line.push('\n');
    let mut out = out.lock().await;
    out.write_all(line.as_bytes()).await?;
    out.flush().await
}

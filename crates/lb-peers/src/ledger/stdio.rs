//! The ledger on stdin and stdout.

use std::collections::HashMap;
use std::io::Result;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Stdout};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinSet;

use super::work::rest;
use super::{Outcome, Server, Work};
use crate::raw::message::{self, Message};

/// Bytes of reports that are written at once where the work takes no time.
const BATCH_BYTES: usize = 64 * 1024;

/// How long a question to the client may stay open.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Where lines go, and who waits for which answer, by the id of the question.
struct Pipes {
    out: Mutex<Stdout>,
    open: StdMutex<HashMap<String, oneshot::Sender<String>>>,
}

type Out = Arc<Pipes>;

/// Serves until stdin ends.
pub async fn serve(server: Arc<Server>) -> Result<()> {
    let out = Arc::new(Pipes { out: Mutex::new(tokio::io::stdout()), open: StdMutex::default() });
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
        return out.write(message::error("null", -32700, "parse error", None)).await;
    };
    let Some(id) = &message.id else { return Ok(()) };
    if message.method.is_none() {
        out.answered(id, line);
        return Ok(());
    }
    let era = match server.hello.check(&message, None) {
        Ok(era) => era,
        Err(refusal) => return out.write(refusal.response(id)).await,
    };
    match server.answer(&message, era) {
        Outcome::Reply(_, reply) => out.write(reply).await,
        Outcome::Listen(acknowledged) => out.write(acknowledged).await,
        Outcome::Work(work) => toil(out, &work).await,
    }
}

impl Pipes {
    fn answered(&self, id: &str, line: &[u8]) {
        let waiting = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        let text = String::from_utf8_lossy(line).trim_end().to_owned();
        if waiting.is_some_and(|waiting| waiting.send(text).is_err()) {
            eprintln!("ledger: nobody waits for {id} any more");
        }
    }

    /// Asks the client; what it said, as it stood on the line.
    async fn ask(&self, work: &Work) -> Result<String> {
        let (sender, answer) = oneshot::channel();
        let (id, question) = work.question();
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), sender);
        self.write(question).await?;
        let answer = tokio::time::timeout(ANSWER_MAX, answer).await;
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        Ok(answer.ok().and_then(std::result::Result::ok).unwrap_or_else(|| "no answer".to_owned()))
    }

    async fn write(&self, mut line: String) -> Result<()> {
        line.push('\n');
        let mut out = self.out.lock().await;
        out.write_all(line.as_bytes()).await?;
        out.flush().await
    }
}

async fn toil(out: &Out, work: &Work) -> Result<()> {
    let (pause, mut batch) = (work.pause(), String::new());
    for number in 1..=work.notes {
        rest(pause).await;
        batch += &work.note(number);
        if !pause.is_zero() || BATCH_BYTES < batch.len() {
            out.write(std::mem::take(&mut batch)).await?;
        } else {
            batch.push('\n');
        }
    }
    if work.notes == 0 {
        rest(pause).await;
    }
    let answer = if work.asks { work.answer_with(&out.ask(work).await?) } else { work.answer() };
    out.write(batch + &answer).await
}

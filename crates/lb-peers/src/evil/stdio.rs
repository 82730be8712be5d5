//! The server on stdin and stdout.

use std::io::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::stdio::dup2_stdout;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Stdout};
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::catalog::{Catalog, Outcome, Strike, acknowledged, list_changed};
use super::fault::{Fault, Transport};
use super::linger::{LIFE_MAX, ignore_term, start_copy};
use super::noise::{self, BATCH_BYTES, Sink};
use super::{options::Options, payload};
use crate::raw::handshake::Era;
use crate::raw::message::{self, Message, quote, result};

/// How long answers already under way may take once stdin has ended.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// Listens that are remembered.
const LISTENS_MAX: usize = 1000;

/// Serves until stdin ends.
///
/// # Errors
/// When stdin cannot be read.
pub async fn serve(options: Options) -> Result<()> {
    let server = Arc::new(Server::new(options));
    let mut tasks = JoinSet::new();
    let mut stdin = BufReader::new(tokio::io::stdin());
    let mut line = Vec::new();
    eprintln!("evil: ready");
    while 0 < stdin.read_until(b'\n', &mut line).await? {
        while tasks.try_join_next().is_some() {}
        tasks.spawn(Arc::clone(&server).take_in(std::mem::take(&mut line)));
    }
    if timeout(LAST_WORDS, async { while tasks.join_next().await.is_some() {} }).await.is_err() {
        eprintln!("evil: stdin ended, {} requests left unanswered", tasks.len());
    }
    if server.immortal.load(Ordering::Relaxed) {
        sleep(LIFE_MAX).await;
    }
    // Returning would wait for a write that nobody reads.
    std::process::exit(0)
}

struct Server {
    catalog: Catalog,
    stdout: tokio::sync::Mutex<Stdout>,
    /// Ids of the listens that asked for tool list changes.
    listens: Mutex<Vec<String>>,
    /// The end of stdin no longer ends the process.
    immortal: AtomicBool,
    copies: Mutex<Vec<Child>>,
}

impl Server {
    fn new(options: Options) -> Self {
        Self {
            catalog: Catalog::new(options.faults, options.eras),
            stdout: tokio::sync::Mutex::new(tokio::io::stdout()),
            listens: Mutex::default(),
            immortal: AtomicBool::new(false),
            copies: Mutex::default(),
        }
    }

    async fn take_in(self: Arc<Self>, line: Vec<u8>) {
        if let Err(error) = self.answer(&line).await {
            eprintln!("evil: {error}");
        }
    }

    async fn answer(&self, line: &[u8]) -> Result<()> {
        let Some(message) = Message::parse(line) else {
            return self.line(&message::error("null", -32700, "parse error", None)).await;
        };
        let (Some(id), Some(_)) = (&message.id, &message.method) else {
            self.forget_listen(&message);
            return Ok(());
        };
        let era = match self.catalog.hello.check(&message, None) {
            Ok(era) => era,
            Err(refusal) => return self.line(&refusal.response(id)).await,
        };
        match self.catalog.answer(&message, era, "") {
            Outcome::Reply(_, reply) => {
                // Before the write, or the next strike could come sooner than this note.
                self.catalog.finish("", id);
                self.line(&reply).await
            }
            Outcome::Strike(strike) => self.strike(strike).await,
            Outcome::Listen(id, tools) => self.listen(id, tools).await,
        }
    }

    async fn strike(&self, strike: Strike) -> Result<()> {
        match strike.fault {
            Fault::DieBeforeReply => std::process::exit(3),
            Fault::DieAfterReply => {
                self.line(&strike.answer()).await?;
                std::process::exit(3)
            }
            Fault::HalfLine => return self.half_line(&strike.answer()).await,
            Fault::Hang => std::future::pending().await,
            Fault::Slow => self.slowly(&strike.answer()).await?,
            Fault::Garbage => {
                let mut bytes = payload::garbage_lines();
                bytes.extend_from_slice(strike.answer().as_bytes());
                bytes.push(b'\n');
                self.raw(&bytes).await?;
            }
            Fault::Flood | Fault::StaleIds | Fault::ProgressStorm => {
                let mut batch = Batch { server: self, bytes: Vec::new() };
                noise::send(&self.catalog, &strike, &mut batch).await?;
                batch.message(&strike.answer()).await?;
                self.raw(&batch.bytes).await?;
            }
            Fault::SwappedIds => {
                let id = self.catalog.swap.exchange(strike.id.clone()).await;
                self.line(&strike.answer_as(&id)).await?;
            }
            Fault::HugeLine => self.line(&Strike { text: quote(&payload::huge()), ..strike.clone() }.answer()).await?,
            Fault::CloseStdout => self.close_stdout().await?,
            Fault::IgnoreTerm => self.ignore_term(&strike).await?,
            Fault::OddContent => {
                let odd = payload::odd_result(strike.era, Transport::Stdio);
                self.line(&result(&strike.id, &odd)).await?;
            }
            Fault::ListChangedFirst => self.list_changed_first(&strike).await?,
            // Options refuse it: there is only one stream here.
            Fault::WrongStream => self.line(&strike.answer()).await?,
        }
        self.catalog.finish("", &strike.id);
        Ok(())
    }

    /// Writes half of the answer and keeps stdout to itself for ever: whatever follows would end the line.
    async fn half_line(&self, answer: &str) -> Result<()> {
        let mut stdout = self.stdout.lock().await;
        let (half, _) = answer.as_bytes().split_at(answer.len() / 2);
        stdout.write_all(half).await?;
        stdout.flush().await?;
        std::future::pending().await
    }

    async fn slowly(&self, answer: &str) -> Result<()> {
        let mut stdout = self.stdout.lock().await;
        for piece in slow_pieces(answer.as_bytes()) {
            stdout.write_all(piece).await?;
            stdout.flush().await?;
            sleep(SLOW_STEP).await;
        }
        stdout.write_all(b"\n").await?;
        stdout.flush().await
    }

    /// Puts the null device in the place of stdout, which closes the pipe for good.
    async fn close_stdout(&self) -> Result<()> {
        let mut stdout = self.stdout.lock().await;
        stdout.flush().await?;
        let null = std::fs::File::options().write(true).open("/dev/null")?;
        Ok(dup2_stdout(null)?)
    }

    async fn ignore_term(&self, strike: &Strike) -> Result<()> {
        ignore_term()?;
        self.immortal.store(true, Ordering::Relaxed);
        let child = start_copy().await?;
        let text = format!("pid {} child {}", std::process::id(), child.id().unwrap_or_default());
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        self.line(&Strike { text: quote(&text), ..strike.clone() }.answer()).await
    }

    async fn list_changed_first(&self, strike: &Strike) -> Result<()> {
        self.catalog.change_list();
        let mut bytes = Vec::new();
        for line in self.list_changed_lines(strike.era) {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(strike.answer().as_bytes());
        bytes.push(b'\n');
        self.raw(&bytes).await
    }

    fn list_changed_lines(&self, era: Era) -> Vec<String> {
        let listens = self.listens.lock().unwrap_or_else(PoisonError::into_inner);
        let untagged = (era == Era::Legacy).then(|| list_changed(None));
        untagged.into_iter().chain(listens.iter().map(|id| list_changed(Some(id)))).collect()
    }

    async fn listen(&self, id: String, tools: bool) -> Result<()> {
        let line = acknowledged(&id, tools) + "\n";
        // Entered with stdout in hand: no change is missed, and none comes before the acknowledgement.
        let mut stdout = self.stdout.lock().await;
        self.remember_listen(id, tools);
        stdout.write_all(line.as_bytes()).await?;
        stdout.flush().await
    }

    fn remember_listen(&self, id: String, tools: bool) {
        let mut listens = self.listens.lock().unwrap_or_else(PoisonError::into_inner);
        if tools && listens.len() < LISTENS_MAX {
            listens.push(id);
        }
    }

    fn forget_listen(&self, message: &Message) {
        if message.method() == "notifications/cancelled"
            && let Some(id) = message.params.get("requestId")
        {
            self.listens.lock().unwrap_or_else(PoisonError::into_inner).retain(|listen| listen != id.get());
        }
    }

    async fn line(&self, json: &str) -> Result<()> {
        let mut bytes = json.as_bytes().to_vec();
        bytes.push(b'\n');
        self.raw(&bytes).await
    }

    async fn raw(&self, bytes: &[u8]) -> Result<()> {
        let mut stdout = self.stdout.lock().await;
        stdout.write_all(bytes).await?;
        stdout.flush().await
    }
}

/// The pause between two pieces of a slow answer.
pub const SLOW_STEP: Duration = Duration::from_millis(20);

/// The pieces of a slow answer: single bytes, or more where the answer is so long that it would take over 4.8 s.
pub fn slow_pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(bytes.len().div_ceil(240).max(1))
}

/// Lines gathered into larger writes. Other answers may come between two batches.
struct Batch<'a> {
    server: &'a Server,
    bytes: Vec<u8>,
}

impl Sink for Batch<'_> {
    async fn message(&mut self, json: &str) -> Result<()> {
        self.bytes.extend_from_slice(json.as_bytes());
        self.bytes.push(b'\n');
        if self.bytes.len() < BATCH_BYTES {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.bytes);
        self.server.raw(&batch).await
    }
}

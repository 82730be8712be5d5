//! Being told to stop: signals are heard from the beginning to the very end, and the end is bounded.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use lb_front::Front;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

use crate::logs::Words;

/// How long the end may take beside what calls under way are given: sessions, children, tasks, what is told of them.
pub const REST_MAX: Duration = Duration::from_secs(25);
/// How long whoever reads what is said may take: a stop does not wait for somebody who reads nothing.
const SAY_MAX: Duration = Duration::from_secs(1);

/// Told to stop, or not.
pub struct Stop {
    asked: watch::Receiver<bool>,
    begun: Arc<Notify>,
}

impl Stop {
    /// Listens for Ctrl-C and SIGTERM. The first one asks for an end in order, the second ends the process at once with
    /// 130. Once the end has begun, it may take as long as calls then may, and `rest_max` for the rest; after that the
    /// process ends with 1, whatever is left. What is left of children is ended by their supervisors.
    ///
    /// All of that happens in a thread of its own: what holds up every other one, such as a pipe for logs that nobody
    /// reads or a disk that does not answer, holds up no end.
    pub fn listen(calls_max: impl Fn() -> Duration + Send + 'static, rest_max: Duration) -> Self {
        let (tell, asked) = watch::channel(false);
        let begun = Arc::new(Notify::new());
        let stop = Self { asked, begun: begun.clone() };
        let (ready, is_ready) = sync_channel(1);
        let hear = async move {
            let mut signals = match Signals::new() {
                Ok(signals) => signals,
                Err(error) => {
                    ready.send(Err(error)).ok();
                    return;
                }
            };
            ready.send(Ok(())).ok();
            tokio::select! {
                () = signals.next() => say(&tell),
                () = begun.notified() => {}
            }
            let limit = calls_max().saturating_add(rest_max);
            let twice = async {
                if !*tell.borrow() {
                    signals.next().await;
                    say(&tell);
                }
                signals.next().await;
            };
            tokio::select! {
                () = twice => std::process::exit(130),
                () = tokio::time::sleep(limit) => at_once(limit),
            }
        };
        let hearing = move || Builder::new_current_thread().enable_all().build().map(|runtime| runtime.block_on(hear));
        let started = thread::Builder::new().name("stop".to_owned()).spawn(hearing);
        // Whoever reads next that it listens may tell it to stop. Nobody answers when the thread could not begin.
        let heard = started.and_then(|_| is_ready.recv().unwrap_or_else(|gone| Err(io::Error::other(gone))));
        if let Err(error) = heard {
            tracing::warn!(%error, "cannot hear signals: they end the process at once");
        }
        stop
    }

    /// Resolves at the first signal.
    pub fn asked(&self) -> impl Future<Output = ()> + use<> {
        let mut asked = self.asked.clone();
        async move {
            if asked.wait_for(|asked| *asked).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The same, and says what is waited for, and for how long.
    pub fn asked_with(&self, front: Front, limit: impl Fn() -> Duration) -> impl Future<Output = ()> {
        let asked = self.asked();
        async move {
            asked.await;
            let (seconds, calls) = (limit().as_secs_f64(), front.running());
            let what = if calls == 1 { "a call that runs".to_owned() } else { format!("{calls} calls that run") };
            if calls != 0 {
                Words::info("waiting_for_calls", format!("waiting up to {seconds} s for {what}")).say();
            }
        }
    }

    /// The end has begun for another reason, such as the end of the input: its time runs.
    pub fn begin(&self) {
        self.begun.notify_one();
    }
}

fn say(tell: &watch::Sender<bool>) {
    aside(|| {
        Words::info("stopping", "stopping; once more to stop at once").say();
        tracing::info!("shutdown_start");
    });
    tell.send_replace(true);
}

fn at_once(limit: Duration) {
    let why = format!("could not stop in order within {} s; stopping at once", limit.as_secs_f64());
    aside(|| Words::warning("stopping_at_once", why).say());
    std::process::exit(1);
}

/// Says something in a thread of its own, and waits a moment for it.
fn aside(speak: impl FnOnce() + Send + 'static) {
    let (tell, said) = sync_channel(1);
    let speaker = thread::Builder::new().spawn(move || {
        speak();
        // Nobody waits any more, perhaps.
        tell.send(()).ok();
    });
    // An error is the end of the time.
    drop(speaker.map(|_| said.recv_timeout(SAY_MAX)));
}

/// Ctrl-C and SIGTERM, none of which is lost between two looks.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

//! Being told to stop: signals are heard from the beginning to the very end, and the end is bounded.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lb_exchange::Tasks;
use lb_front::Front;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

use crate::logs::Words;

/// How long the end may take beside what calls under way are given: sessions, children, tasks, what is told of them.
const REST_MAX: Duration = Duration::from_secs(25);

/// Told to stop, or not.
pub struct Stop {
    asked: watch::Receiver<bool>,
    begun: Arc<Notify>,
}

impl Stop {
    /// Listens for Ctrl-C and SIGTERM. The first one asks for an end in order, the second ends the process at once with
    /// 130. Once the end has begun, it may take as long as calls then may, and a while for the rest; after that the
    /// process ends whatever is left.
    pub fn listen(calls_max: impl Fn() -> Duration + Send + 'static) -> Self {
        let (tell, asked) = watch::channel(false);
        let begun = Arc::new(Notify::new());
        let stop = Self { asked, begun: begun.clone() };
        let mut signals = match Signals::new() {
            Ok(signals) => signals,
            Err(error) => {
                tracing::warn!(%error, "cannot hear signals: they end the process at once");
                return stop;
            }
        };
        // A set of its own, which nobody closes: it must hear the second signal to the very end.
        Tasks::default().spawn(async move {
            tokio::select! {
                () = signals.next() => say(&tell),
                () = begun.notified() => {}
            }
            let limit = calls_max().saturating_add(REST_MAX);
            let twice = async {
                if !*tell.borrow() {
                    signals.next().await;
                    say(&tell);
                }
                signals.next().await;
            };
            tokio::select! {
                () = twice => std::process::exit(130),
                () = tokio::time::sleep(limit) => {
                    let why = format!("could not stop in order within {} s; stopping at once", limit.as_secs());
                    Words::warning("stopping_at_once", why).say();
                    std::process::exit(1);
                }
            }
        });
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
    Words::info("stopping", "stopping; once more to stop at once").say();
    tracing::info!("shutdown_start");
    tell.send_replace(true);
}

/// Ctrl-C and SIGTERM, none of which is lost between two looks.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

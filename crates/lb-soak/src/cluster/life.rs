//! What clients do all the time, until they are told to come to an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lb_peers::raw::handshake::Era;
use tokio::task::JoinSet;

use super::client::{Client, Place, Surface, job};
use crate::caller::{Caller, Door, Way};
use crate::history::How;
use crate::random::Random;

/// What is counted.
pub const OPENED: &str = "sessions";

/// New sessions that were refused with `Retry-After`, and those of them that were not refused at once.
pub const SENT_AWAY: &str = "new sessions sent away";
/// See [`SENT_AWAY`].
pub const SENT_AWAY_SLOWLY: &str = "new sessions sent away only after a second";
/// Ten times what is promised.
const TOLD_SLOWLY_AFTER: Duration = Duration::from_secs(1);

/// A kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Calls one server.
    Calls(&'static str),
    /// Calls it and follows streams, which it cuts and resumes.
    Streams(&'static str),
    /// Calls a server that asks back.
    Answers,
    /// Uses the tools, sets timers and waits for events.
    Waits,
    /// Without a session.
    Modern(&'static str),
    /// The same, of a server that asks back.
    ModernAnswers(&'static str),
    /// Without a session of its own making: uses the tools, sets timers and waits for events. There is one of these: all
    /// modern clients of a principal share one inbox, and what one was told no other is.
    ModernWaits,
    /// Without a session: listens to a server, and calls it.
    Listens(&'static str),
    /// Comes, calls once and goes, again and again.
    Newcomer,
}

/// All of them, in the order in which clients are made.
pub const KINDS: [Kind; 13] = [
    Kind::Waits,
    Kind::Streams("child"),
    Kind::Modern("child"),
    Kind::Answers,
    Kind::Modern("remote"),
    Kind::ModernAnswers("remote"),
    Kind::Waits,
    Kind::Streams("remote"),
    Kind::Listens("remote"),
    Kind::Calls("child"),
    Kind::Modern("child"),
    Kind::ModernAnswers("child"),
    Kind::ModernWaits,
];

/// Clients in tasks of their own.
pub struct Crowd {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
}

impl Crowd {
    /// So many clients, of all these kinds in turn, each with a pause of up to `pause_ms` between requests.
    pub fn start(place: &Place, kinds: &[Kind], count: usize, pause_ms: u64, random: &mut Random) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for (number, kind) in kinds.iter().copied().cycle().take(count).enumerate() {
            let kind = if kinds.len() <= number && kind == Kind::ModernWaits { Kind::Modern("child") } else { kind };
            let life = Life { place: place.clone(), stop: stop.clone(), pause_ms, random: random.fork() };
            tasks.spawn(life.lead(kind, number));
        }
        Self { tasks, stop }
    }

    /// Lets them come to an end: they take what there is, and end their sessions.
    ///
    /// # Panics
    /// With whoever panicked.
    pub async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(done) = self.tasks.join_next().await {
            done.expect("a client goes on to its end");
        }
    }
}

struct Life {
    place: Place,
    stop: Arc<AtomicBool>,
    pause_ms: u64,
    random: Random,
}

impl Life {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    async fn lead(mut self, kind: Kind, number: usize) {
        let (era, surface, word) = match kind {
            Kind::Modern(server) => return self.modern(server, number).await,
            Kind::Calls(server) => (Era::Legacy, Surface::Server(server), "calls"),
            Kind::Streams(server) => (Era::Legacy, Surface::Server(server), "streams"),
            Kind::Answers => (Era::Legacy, Surface::Server("child"), "answers"),
            Kind::Waits => (Era::Legacy, Surface::Tools("child"), "waits"),
            Kind::Newcomer => (Era::Legacy, Surface::Server("remote"), "newcomer"),
            Kind::ModernAnswers(server) => (Era::Modern, Surface::Server(server), "modern-answers"),
            Kind::ModernWaits => (Era::Modern, Surface::Tools("remote"), "modern-waits"),
            Kind::Listens(server) => (Era::Modern, Surface::Server(server), "listens"),
        };
        let client = Client::of(era, &self.place, surface, &format!("{word}{number}"), self.random.fork());
        match kind {
            Kind::Newcomer => self.newcomers(client).await,
            _ => self.seated(kind, client).await,
        }
    }

    async fn seated(mut self, kind: Kind, mut client: Client) {
        while self.goes_on() {
            if !client.is_in() {
                if client.open().await == How::Result {
                    self.place.history.count(OPENED, 1);
                } else {
                    tokio::time::sleep(self.place.pause).await;
                }
                continue;
            }
            self.step(kind, &mut client).await;
            tokio::time::sleep(Duration::from_millis(self.random.below(self.pause_ms.max(1)))).await;
        }
        if matches!(kind, Kind::Waits | Kind::ModernWaits) {
            client.catch_up().await;
        }
        client.end().await;
    }

    async fn step(&mut self, kind: Kind, client: &mut Client) {
        let dice = self.random.below(100);
        match kind {
            Kind::Calls(_) => drop(client.work(job(self.random.below(60), 0), false, None).await),
            Kind::Streams(_) => {
                let notes = 5 + self.random.below(20);
                let cut = (dice < 40).then(|| self.random.below(notes));
                client.work(job(200 + self.random.below(1_500), notes), false, cut).await;
            }
            Kind::Answers => {
                let cut = (dice < 25).then_some(1);
                client.work(job(20 + self.random.below(200), 0), true, cut).await;
            }
            Kind::ModernAnswers(_) => drop(client.work(job(20 + self.random.below(200), 0), true, None).await),
            Kind::Listens(_) if dice < 50 => {
                client.listen(Duration::from_millis(200 + self.random.below(2_000))).await;
            }
            Kind::Listens(_) => drop(client.work(job(self.random.below(60), 0), false, None).await),
            Kind::Waits | Kind::ModernWaits if !client.has_cursor() => client.take_cursor().await,
            Kind::Waits | Kind::ModernWaits => match dice {
                0..25 => drop(client.work(job(self.random.below(300), 0), false, None).await),
                25..45 => drop(client.arm(Duration::from_millis(50 + self.random.below(2_000)), false).await),
                45..48 => drop(client.arm(Duration::from_millis(1_000), true).await),
                _ => drop(client.wait(Duration::from_millis(200 + self.random.below(1_800))).await),
            },
            Kind::Modern(_) | Kind::Newcomer => {}
        }
    }

    async fn newcomers(mut self, mut client: Client) {
        while self.goes_on() {
            let (start, how) = (std::time::Instant::now(), client.open().await);
            self.place.history.count(OPENED, i64::from(how == How::Result));
            if how == How::Shed {
                let slow = TOLD_SLOWLY_AFTER < start.elapsed();
                self.place.history.count(SENT_AWAY, 1);
                self.place.history.count(SENT_AWAY_SLOWLY, i64::from(slow));
                if slow {
                    let (name, took) = (&client.name, start.elapsed());
                    self.place.history.note(format!("{name} was sent away after {took:?}"));
                }
            }
            if client.is_in() {
                client.work(job(self.random.below(20), 0), false, None).await;
            }
            client.end().await;
            tokio::time::sleep(Duration::from_millis(self.random.below(self.pause_ms.max(1)))).await;
        }
    }

    async fn modern(mut self, server: &str, number: usize) {
        let program = (String::new(), std::path::PathBuf::new(), String::new());
        let door = Door { address: self.place.address(), program };
        let history = self.place.history.clone();
        let label = format!("modern{number}");
        let opened = Caller::open(&door, &history, Way::HttpModern, server, &label, &mut self.random).await;
        let mut caller = opened.expect("the balancer is there");
        caller.manners.follow = true;
        while self.goes_on() {
            let notes = if self.random.below(3) == 0 { 4 } else { 0 };
            let how = caller.call(job(self.random.below(200), notes)).await;
            let pause = Duration::from_millis(self.random.below(self.pause_ms.max(1)));
            tokio::time::sleep(if how == How::Result { pause } else { self.place.pause }).await;
        }
    }
}

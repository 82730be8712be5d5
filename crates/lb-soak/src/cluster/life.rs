//! What clients do all the time, until they are told to come to an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
    /// Comes, calls once and goes, again and again.
    Newcomer,
}

/// All of them, in the order in which clients are made.
pub const KINDS: [Kind; 8] = [
    Kind::Waits,
    Kind::Streams("child"),
    Kind::Answers,
    Kind::Modern("remote"),
    Kind::Waits,
    Kind::Streams("remote"),
    Kind::Calls("child"),
    Kind::Modern("child"),
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
        let random = self.random.fork();
        let client = |surface, word: &str| Client::new(&self.place, surface, &format!("{word}{number}"), random);
        match kind {
            Kind::Calls(server) => {
                let client = client(Surface::Server(server), "calls");
                self.seated(kind, client).await;
            }
            Kind::Streams(server) => {
                let client = client(Surface::Server(server), "streams");
                self.seated(kind, client).await;
            }
            Kind::Answers => {
                let client = client(Surface::Server("child"), "answers");
                self.seated(kind, client).await;
            }
            Kind::Waits => {
                let client = client(Surface::Tools("child"), "waits");
                self.seated(kind, client).await;
            }
            Kind::Newcomer => {
                let client = client(Surface::Server("remote"), "newcomer");
                self.newcomers(client).await;
            }
            Kind::Modern(server) => self.modern(server, number).await,
        }
    }

    async fn seated(mut self, kind: Kind, mut client: Client) {
        while self.goes_on() {
            if !client.is_in() {
                if client.open().await == How::Result {
                    self.place.history.count(OPENED, 1);
                } else {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
                continue;
            }
            self.step(kind, &mut client).await;
            tokio::time::sleep(Duration::from_millis(self.random.below(self.pause_ms.max(1)))).await;
        }
        if kind == Kind::Waits {
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
            Kind::Waits if !client.has_cursor() => client.take_cursor().await,
            Kind::Waits => match dice {
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
            let pause = if how == How::Result { self.random.below(self.pause_ms.max(1)) } else { 300 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
}

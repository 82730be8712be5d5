//! Clients that go on calling, as fast as they can or at a rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::caller::Caller;
use crate::jobs::Job;

/// Clients in tasks of their own.
pub struct Load {
    callers: JoinSet<(Caller, u64)>,
    stop: Arc<AtomicBool>,
    start: Instant,
}

impl Load {
    /// Each calls, pauses and calls again.
    pub fn start(callers: Vec<Caller>, job: Job, pause: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for mut caller in callers {
            let stop = stop.clone();
            tasks.spawn(async move {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    caller.call(job).await;
                    count += 1;
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                }
                (caller, count)
            });
        }
        Self { callers: tasks, stop, start: Instant::now() }
    }

    /// Lets them finish: the clients, and the calls per second that they made together.
    pub async fn stop(mut self) -> (Vec<Caller>, f64) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut callers, mut calls) = (Vec::new(), 0.0);
        while let Some(done) = self.callers.join_next().await {
            let (caller, count) = done.expect("a client goes on to its end");
            callers.push(caller);
            calls += count as f64;
        }
        (callers, calls / self.start.elapsed().as_secs_f64().max(0.001))
    }

    /// As fast as they can, for some time.
    pub async fn saturate(callers: Vec<Caller>, job: Job, time: Duration) -> (Vec<Caller>, f64) {
        let load = Self::start(callers, job, Duration::ZERO);
        tokio::time::sleep(time).await;
        load.stop().await
    }

    /// At a rate per second over all of them: calls are due by the clock, however long the ones before took.
    pub async fn at_rate(callers: Vec<Caller>, job: Job, rate: f64, time: Duration) -> Vec<Caller> {
        let (start, count) = (Instant::now(), callers.len().max(1));
        let every = Duration::from_secs_f64(count as f64 / rate.max(1.0));
        let mut tasks = JoinSet::new();
        for (number, mut caller) in callers.into_iter().enumerate() {
            let first = every.mul_f64(number as f64 / count as f64);
            tasks.spawn(async move {
                let mut due = first;
                while due < time {
                    tokio::time::sleep(due.saturating_sub(start.elapsed())).await;
                    caller.call(job).await;
                    due += every;
                }
                caller
            });
        }
        tasks.join_all().await
    }
}

/// Ends all of them.
pub async fn end(callers: Vec<Caller>) {
    for caller in callers {
        caller.end().await;
    }
}

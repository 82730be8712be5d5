//! Saying every few seconds that this node lives.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lb_exchange::Tasks;
use lb_store::{Applied, Batch, Error};
use tokio::time::{Instant, sleep_until, timeout};

use super::{LEASE, Membership, NodeInfo, NodeStore, RENEW_EVERY, WATCH_EVERY, unix_now};

/// The wait before a renewal that failed is tried again, at first and at most: several of them fit into the lease.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));

/// Renews until the node leaves, is dropped, or its tasks stop. Cancel safe: the node then expires.
pub(super) async fn run(member: Weak<Membership>, joined: Instant, tasks: Tasks) {
    let known = member.upgrade().map(|member| (member.bell.clone(), member.left.clone(), member.store_life()));
    let Some((bell, left, mut life)) = known else { return };
    let mut due = joined + RENEW_EVERY;
    // Whether others may have missed a renewal, and so may we.
    let (mut wake, mut pause, mut unsettled) = (due, RETRY.0, false);
    let mut failures = 0_u32;
    loop {
        let look = Instant::now() + WATCH_EVERY;
        let rung = tokio::select! {
            () = tasks.stopping() => return,
            () = left.cancelled() => return,
            () = bell.notified() => true,
            () = sleep_until(wake.min(look)) => false,
        };
        let Some(member) = member.upgrade() else { return };
        let began = Instant::now();
        let is_new = std::mem::replace(&mut life, member.look_at_store()) != life;
        // A connection that was closed is made anew by asking.
        let is_cut = wake == due && member.store.facts().away_since.is_some();
        if !(rung || wake <= began || is_new || is_cut) {
            continue;
        }
        unsettled |= is_new;
        let renewed = tokio::select! {
            () = tasks.stopping() => return,
            () = left.cancelled() => return,
            renewed = member.renew_and_look(began.saturating_duration_since(due)) => renewed,
        };
        unsettled |= std::mem::replace(&mut life, member.look_at_store()) != life;
        match renewed {
            Ok(()) => {
                if std::mem::take(&mut unsettled)
                    && let Err(error) = member.settle(true).await
                {
                    tracing::debug!(%error, "the store is away again");
                    unsettled = true;
                }
                due = began + RENEW_EVERY;
                (wake, pause, failures) = (due, RETRY.0, 0);
            }
            Err(error) => {
                member.trouble.note();
                unsettled = true;
                failures += 1;
                // Said after ever longer times: whoever reads the log knows by then.
                if failures.is_power_of_two() {
                    tracing::warn!(%error, node = %member.me.id, failures, "the node could not say that it lives, and tries again");
                }
                wake = Instant::now() + pause.mul_f64(rand::random_range(0.5..1.0));
                pause = (pause * 2).min(RETRY.1);
            }
        }
        member.tell_doubt();
    }
}

impl Membership {
    async fn renew_and_look(&self, late: Duration) -> Result<(), Error> {
        self.renew(late).await?;
        self.look_around().await;
        Ok(())
    }

    /// Notices that the store is another one than it was, or lives anew: it may have lost what it was told last. Which
    /// of its lives this is.
    pub(super) fn look_at_store(&self) -> u64 {
        let lives = self.store.facts().lives;
        if self.lives.swap(lives, Ordering::AcqRel) != lives {
            self.forgotten();
        }
        lives
    }

    /// The store may have lost what it was told last, by us and by others.
    pub(super) fn forgotten(&self) {
        self.trouble.note();
        self.reborn.note();
        self.lease.lost();
    }

    /// Rings once for each generation.
    fn tell_doubt(&self) {
        let generation = self.generation();
        if self.doubted.swap(generation, Ordering::AcqRel) != generation {
            self.doubt.notify_one();
        }
    }

    /// Says once that this node lives. `late` is how long ago that was due.
    pub(super) async fn renew(&self, late: Duration) -> Result<(), Error> {
        let mut written = self.written.lock().await;
        if self.left.is_cancelled() {
            return Ok(());
        }
        let began = Instant::now();
        let value = self.card(late, written.took).written();
        let mut batch = Batch::new().set(&self.key, value.clone(), LEASE);
        if let Some(last) = &written.value {
            batch = batch.when(&self.key, Some(last.clone()));
        }
        let write = async {
            if let Applied::Refused(_) = self.store.apply(batch).await? {
                // It has expired, or the store came back empty, or an answer of it was lost.
                if !self.is_there().await? {
                    self.lease.lost();
                    self.trouble.note();
                }
                self.store.set(&self.key, value.clone(), LEASE).await?;
            }
            Ok(())
        };
        // A store that never answers must not hold up the next try.
        timeout(RENEW_EVERY, write).await.unwrap_or(Err(Error::Timeout(RENEW_EVERY)))?;
        written.value = Some(value);
        written.took = began.elapsed();
        self.lease.renewed(began, Instant::now());
        Ok(())
    }

    fn card(&self, late: Duration, took: Duration) -> NodeInfo {
        let facts = self.store.facts();
        NodeInfo {
            id: self.me.id.clone(),
            boot: self.me.boot.clone(),
            url: self.about.url.clone(),
            version: self.about.version.clone(),
            started: self.started,
            seen: unix_now(),
            draining: self.draining.load(Ordering::Relaxed),
            sessions: self.sessions.load(Ordering::Relaxed),
            streams: self.streams.load(Ordering::Relaxed),
            lag: late,
            store: NodeStore { kind: card_kind(facts.kind).into(), ok: facts.away_since.is_none(), rtt: took },
            place: self.about.host.as_ref().map(|host| host.place.clone()),
        }
    }
}

fn card_kind(kind: lb_store::Kind) -> &'static str {
    match kind {
        lb_store::Kind::Memory => "memory",
        lb_store::Kind::Disk => "disk",
        lb_store::Kind::Valkey | lb_store::Kind::Cluster => "valkey",
    }
}

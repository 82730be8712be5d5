//! Saying every few seconds that this node lives.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lb_exchange::Tasks;
use lb_store::{Applied, Batch, Error};
use tokio::time::{Instant, sleep_until, timeout};

use super::{LEASE, Membership, NodeInfo, NodeStore, RENEW_EVERY, unix_now};

/// The wait before a renewal that failed is tried again, at first and at most: several of them fit into the lease.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));

/// Renews until the node leaves, is dropped, or its tasks stop. Cancel safe: the node then expires.
pub(super) async fn run(member: Weak<Membership>, joined: Instant, tasks: Tasks) {
    let Some((bell, left)) = member.upgrade().map(|member| (member.bell.clone(), member.left.clone())) else { return };
    let mut due = joined + RENEW_EVERY;
    let (mut wake, mut pause, mut is_away) = (due, RETRY.0, false);
    loop {
        tokio::select! {
            () = tasks.stopping() => return,
            () = left.cancelled() => return,
            () = bell.notified() => {}
            () = sleep_until(wake) => {}
        }
        let Some(member) = member.upgrade() else { return };
        let began = Instant::now();
        let renewed = tokio::select! {
            () = tasks.stopping() => return,
            () = left.cancelled() => return,
            renewed = member.renew_and_look(began.saturating_duration_since(due)) => renewed,
        };
        match renewed {
            Ok(()) => {
                if std::mem::take(&mut is_away)
                    && let Err(error) = member.settle(true).await
                {
                    tracing::debug!(%error, "the store is away again");
                    is_away = true;
                }
                due = began + RENEW_EVERY;
                (wake, pause) = (due, RETRY.0);
            }
            Err(error) => {
                member.trouble.note();
                is_away = true;
                tracing::warn!(%error, node = %member.me.id, "the node could not say that it lives, and tries again");
                wake = Instant::now() + pause.mul_f64(rand::random_range(0.5..1.0));
                pause = (pause * 2).min(RETRY.1);
            }
        }
    }
}

impl Membership {
    async fn renew_and_look(&self, late: Duration) -> Result<(), Error> {
        self.renew(late).await?;
        self.look_around().await;
        Ok(())
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

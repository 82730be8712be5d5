//! Who is here: the sessions of a gateway, for an operator.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lb_session::Moment;

use crate::gateway::Gateway;
use crate::live::{Live, hash};
use crate::seat::LegacySeat;

/// One session, as an operator may see it.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// 12 hex of the hash of its id: the id itself is a secret.
    pub id: String,
    /// When it began, since the Unix epoch.
    pub created_at: Duration,
    /// When a client last used it, since the Unix epoch.
    pub last_activity: Duration,
    /// Requests of clients so far.
    pub request_count: u64,
    /// Streams that are open for what no request asked for.
    pub open_streams: usize,
    /// Tasks that are being worked on.
    pub working_tasks: usize,
    /// Requests of servers that wait for an answer.
    pub pending_client: usize,
    /// Its servers, and how they stand.
    pub backends: Vec<(String, &'static str)>,
}

/// When a session began, and how often it was used.
#[derive(Debug)]
pub(crate) struct Usage {
    began: Moment,
    requests: std::sync::atomic::AtomicU64,
}

impl Usage {
    pub(crate) fn new(began: Moment) -> Self {
        Self { began, requests: 0.into() }
    }

    /// One more request.
    pub(crate) fn add(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}

impl Gateway {
    /// The sessions, those that began first in front.
    #[must_use]
    pub fn session_views(&self) -> Vec<SessionView> {
        let now = self.clock()();
        let mut views: Vec<_> = self.everybody().iter().map(|seat| of_seat(seat, now)).collect();
        views.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        views
    }
}

fn of_seat(seat: &LegacySeat, now: Moment) -> SessionView {
    let unused = now.up.saturating_sub(Duration::from_secs(seat.touched.load(Ordering::Relaxed)));
    let plain = SessionView {
        id: hash(seat.id.as_str()),
        created_at: seat.usage.began.unix,
        last_activity: now.unix.saturating_sub(unused).max(seat.usage.began.unix),
        request_count: seat.usage.requests.load(Ordering::Relaxed),
        open_streams: usize::from(seat.ear.is_open()),
        working_tasks: 0,
        pending_client: 0,
        backends: Vec::new(),
    };
    match seat.live() {
        Some(live) => {
            let SessionView { id, working_tasks, pending_client, backends, .. } = of_live(live, now);
            SessionView { id, working_tasks, pending_client, backends, ..plain }
        }
        None => SessionView { backends: seat.server_standing().into_iter().collect(), ..plain },
    }
}

fn of_live(live: &Live, now: Moment) -> SessionView {
    let (working_tasks, pending_client) =
        live.cell().with(|session| (session.working().count(), session.pending_count()));
    let standing = live.servers().into_iter().map(|server| (server.name.to_string(), server.status.as_str()));
    SessionView {
        id: live.hash().to_owned(),
        created_at: live.usage().began.unix,
        last_activity: now.unix.saturating_sub(live.unused_for()),
        request_count: live.usage().requests.load(Ordering::Relaxed),
        open_streams: 0,
        working_tasks,
        pending_client,
        backends: standing.collect(),
    }
}

//! A client's request on a connection: from the lists that are known, after a check of mirrored headers, or straight.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lb_exchange::{Call, Driver, End, Exchange, Outcome, Step};
use lb_wire::param::ToolParams;
use lb_wire::revision::{Era, code};
use lb_wire::{Raw, compose};

use super::{Connection, Link};
use crate::lane::{self, Turn, Waiting};
use crate::lists::{Lookup, Ticket};
use crate::outbound;

/// How long a list is kept of a server that does not say whether it tells of changes.
const UNANNOUNCED: Duration = Duration::from_secs(60);

impl Connection {
    /// Opens a request of a client.
    ///
    /// # Errors
    /// The call itself, when the server is gone and nothing was sent: it can go out on another connection.
    pub fn open(self: &Arc<Self>, call: Call) -> Result<Exchange, Box<Call>> {
        // A listen lasts as long as its client.
        if call.message.method() == "subscriptions/listen" {
            return self.open_now(call);
        }
        match self.lane.turn() {
            Turn::Now(room) => self.open_now(call).map(|exchange| exchange.taking(room)),
            Turn::Later(waiting) => Ok(self.open_later(waiting, call)),
            Turn::Never => Ok(Exchange::ready(lane::refusal(self.name.as_str(), lane::QUEUE_MAX))),
        }
    }

    fn open_later(self: &Arc<Self>, waiting: Waiting, call: Call) -> Exchange {
        let connection = self.clone();
        Exchange::deferred(async move {
            let opened = match waiting.turn().await {
                Some(room) => connection.open_now(call).map(|exchange| exchange.taking(room)),
                None => Err(Box::new(call)),
            };
            match opened {
                Ok(exchange) => exchange,
                Err(_) => Exchange::ready(End::ours(Outcome::Error(connection.closed().await))),
            }
        })
    }

    fn open_now(self: &Arc<Self>, call: Call) -> Result<Exchange, Box<Call>> {
        let now = Instant::now();
        self.used(&call, now);
        Ok(match self.intake().lists.look_up(&call.message, now) {
            Lookup::Known(result) => Exchange::ready(End::from_server(Outcome::Result(result), self.era)),
            Lookup::Ask(ticket) => {
                let inner = self.send(call)?;
                let remote = inner.remote().clone();
                let ticket = Some(ticket);
                Exchange::new(Keeping { inner, connection: self.clone(), ticket }, remote)
            }
            Lookup::NoList if self.checks_headers(&call) => self.checked(call)?,
            Lookup::NoList if self.writes_headers(&call) => self.once_known(call, |it, _, call| it.send(call)),
            Lookup::NoList => self.send(call)?,
        })
    }

    /// Notes that the connection is needed, now or for good.
    fn used(&self, call: &Call, now: Instant) {
        let millis = u64::try_from((now - self.usage.since).as_millis()).unwrap_or(u64::MAX);
        self.usage.last.store(millis, Ordering::Relaxed);
        match call.message.method() {
            "resources/subscribe" => self.usage.subscribed.store(true, Ordering::Relaxed),
            // In the modern era the server decides what becomes a task.
            "tools/call" if self.makes_tasks && (self.era == Era::Modern || call.message.member("task").is_some()) => {
                self.usage.tasked.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn send(&self, call: Call) -> Result<Exchange, Box<Call>> {
        let level = self.log_level.lock().clone();
        match &self.link {
            Link::Pipe(started) => started.pipe().call(&call, level.as_ref()).ok_or_else(|| Box::new(call)),
            Link::Http(connection) => Ok(connection.call(call, level)),
        }
    }

    /// A server on a pipe never sees headers, so that comparing them is up to us.
    fn checks_headers(&self, call: &Call) -> bool {
        let sent = self.era == Era::Modern && call.headers.is_some();
        sent && matches!(self.link, Link::Pipe(_)) && call.message.method() == "tools/call"
    }

    /// A client without headers mirrors nothing, so that writing them for a modern server is up to us, too.
    fn writes_headers(&self, call: &Call) -> bool {
        let wanted = self.era == Era::Modern && call.headers.is_none();
        let over_http = wanted && matches!(self.link, Link::Http(_)) && call.message.method() == "tools/call";
        over_http && self.intake().lists.params().is_none()
    }

    fn checked(self: &Arc<Self>, call: Call) -> Result<Exchange, Box<Call>> {
        match self.intake().lists.params() {
            Some(params) => self.send_if_matching(&params, call),
            None => Ok(self.once_known(call, Self::send_if_matching)),
        }
    }

    /// What `send` makes of a call once it is known which arguments the server mirrors in headers.
    fn once_known(
        self: &Arc<Self>,
        call: Call,
        send: fn(&Self, &ToolParams, Call) -> Result<Exchange, Box<Call>>,
    ) -> Exchange {
        let connection = self.clone();
        Exchange::deferred(async move {
            let params = connection.read_params().await;
            match send(&connection, &params, call) {
                Ok(exchange) => exchange,
                Err(_) => Exchange::ready(End::ours(Outcome::Error(connection.closed().await))),
            }
        })
    }

    fn send_if_matching(&self, params: &ToolParams, call: Call) -> Result<Exchange, Box<Call>> {
        let name = call.message.member("name");
        let name = name.as_ref().and_then(Raw::to_text).unwrap_or_default();
        let headers = call.headers.iter().flatten().map(|(name, value)| (name.as_str(), value.as_ref()));
        match params.check(&name, call.message.member_bytes("arguments"), headers) {
            Ok(()) => self.send(call),
            Err(mismatch) => Ok(Exchange::ready(End::error(code::HEADER_MISMATCH, &mismatch.to_string(), None))),
        }
    }

    /// Reads the whole list of tools for the arguments that it mirrors in headers.
    async fn read_params(&self) -> Arc<ToolParams> {
        let mut params = ToolParams::default();
        let mut cursor: Option<Raw> = None;
        for _ in 0..PAGES_MAX {
            let meta = outbound::own_meta(None, &Raw::empty_object());
            let request = match &cursor {
                Some(cursor) => compose::object(&[("_meta", &meta), ("cursor", cursor)]),
                None => compose::object(&[("_meta", &meta)]),
            };
            // A list that could not be read is asked for again with the next call.
            let Outcome::Result(page) = self.request("tools/list", Some(&request)).await else { return params.into() };
            params.merge(ToolParams::from_tools_list(page.as_bytes()));
            cursor = page.member("nextCursor");
            if cursor.is_none() {
                break;
            }
        }
        let params = Arc::new(params);
        self.intake().lists.set_params(params.clone());
        params
    }

    /// How long a list may be kept; `None` for not at all.
    fn keeps(&self, capability: &str, result: &Raw) -> Option<Option<Duration>> {
        if self.era == Era::Modern {
            let ttl = result.member("ttlMs").and_then(|ttl| ttl.as_str().parse().ok()).unwrap_or(0);
            return (0 < ttl).then(|| Some(Duration::from_millis(ttl)));
        }
        let told = match &self.link {
            Link::Pipe(_) => true,
            Link::Http(connection) => connection.is_watching(),
        };
        match (told, self.declares(capability, Some("listChanged"))) {
            (true, true) => Some(None),
            (_, false) => Some(Some(UNANNOUNCED)),
            (false, true) => None,
        }
    }
}

/// Pages of a list that are read; a server with more has a cursor that never ends.
const PAGES_MAX: usize = 1000;

/// Keeps the answer to a list request on its way through.
struct Keeping {
    inner: Exchange,
    connection: Arc<Connection>,
    ticket: Option<Ticket>,
}

impl Driver for Keeping {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let step = std::task::ready!(self.inner.poll_step(cx));
        if let Step::End(End { outcome: Outcome::Result(result), .. }) = &step
            && let Some(ticket) = self.ticket.take()
            && let Some(for_time) = self.connection.keeps(ticket.capability(), result)
        {
            self.connection.intake().lists.keep(ticket, result, for_time, Instant::now());
        }
        Poll::Ready(step)
    }
}

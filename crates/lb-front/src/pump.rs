//! What goes on when a client is gone: a legacy call moves once into its stored stream, a modern one is cancelled.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lb_exchange::{Front, Happened, Holder, Loss};
use tokio::time::Instant;

use crate::alarm::{Alarm, far};
use crate::calls::Calls;
use crate::registry::Shared;
use crate::running::{Client, Said};
use crate::stream::Sink;

/// The front that holds a new call of this client.
pub(crate) fn front_of(client: &Client) -> Holder {
    let loss = match client {
        Client::Legacy(_) => Loss::Keeps { cursor: false },
        Client::Modern(_) => Loss::Cancels,
    };
    let tasks = client.seat().is_some_and(|seat| seat.keeps_calls());
    Holder::Front(Front { loss, tasks, parks: false })
}

/// The one place that decides what becomes of calls whose client is gone.
pub(crate) fn lose(shared: &Arc<Shared>, client: &Client, calls: Calls, holder: Holder, sink: Option<Sink>) {
    let over = calls.are_over();
    match holder.on(if over { Happened::Ended } else { Happened::Lost }) {
        Holder::Stream { cursor } => {
            let pump = Pump { shared: shared.clone(), client: client.clone(), calls, sink: None, alarm: None };
            let pump = match sink {
                Some(sink) if cursor => pump.into_stream(sink),
                sink => {
                    if let Some(sink) = sink {
                        sink.forget();
                    }
                    pump.unheard()
                }
            };
            shared.middle.adopt(Box::pin(pump));
        }
        // All has been said; what was not taken can be asked for by whoever has a cursor.
        Holder::Done => {
            if let Some(sink) = sink {
                match holder.on(Happened::Lost) {
                    Holder::Stream { cursor: false } => sink.forget(),
                    _ => sink.finish(),
                }
            }
        }
        // The surface keeps what comes; there is nobody to say it to.
        Holder::Task => {
            if let Some(sink) = sink {
                sink.forget();
            }
            calls.leave_alone();
            let pump = Pump { shared: shared.clone(), client: client.clone(), calls, sink: None, alarm: None };
            shared.middle.adopt(Box::pin(pump));
        }
        // Dropping an exchange before its end cancels it.
        Holder::Front(_) | Holder::Parked { .. } | Holder::Script | Holder::Cancelled => drop(calls),
    }
}

/// Calls without a client: what they say goes to the stored stream, if the client can ask for it.
struct Pump {
    shared: Arc<Shared>,
    client: Client,
    calls: Calls,
    sink: Option<Sink>,
    alarm: Option<Alarm>,
}

impl Future for Pump {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            let can_ask = this.sink.is_some() || this.has_listener();
            match this.calls.poll(cx, can_ask) {
                Poll::Ready(Some(said)) => this.say(said),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => {
                    let due = this.calls.due().unwrap_or_else(|| far(Instant::now()));
                    let alarm = this.alarm.get_or_insert_with(|| Alarm::new(due));
                    std::task::ready!(alarm.poll(due, cx));
                }
            }
        }
    }
}

impl Pump {
    /// The client may come back for what is said.
    fn into_stream(mut self, sink: Sink) -> Self {
        self.shared.returns.go_on(&*sink.seat, sink.stream, self.calls.remotes());
        self.sink = Some(sink);
        self
    }

    /// The client cannot come back: what it was asked and has not answered must find it another way.
    fn unheard(mut self) -> Self {
        self.calls.leave_alone();
        let listens = self.has_listener();
        for line in self.calls.unheard(listens) {
            self.say(Said::Ask(line));
        }
        self
    }

    fn say(&self, said: Said) {
        match (said, &self.sink) {
            (Said::Note(line) | Said::Ask(line), Some(sink)) => {
                sink.append(Some(line));
            }
            (Said::Pause(_), Some(sink)) => {
                if let Some(call) = self.calls.first() {
                    self.shared.returns.pause(&*sink.seat, sink.stream, &call.remote());
                }
            }
            (Said::End(ended), Some(sink)) => {
                let stored = ended.answer.and_then(|answer| sink.append(Some(answer.into_line())));
                if let (Some(_), Some(receipt)) = (stored, ended.receipt) {
                    receipt.commit();
                }
            }
            (Said::Ask(line), None) => {
                if let Some(seat) = self.client.seat() {
                    let streams = seat.streams();
                    streams.append(streams.standalone(), Some(line));
                }
            }
            (Said::End(_), None) => tracing::debug!("a result was dropped: its client left before it had a cursor"),
            (Said::Note(_) | Said::Pause(_), None) => {}
        }
    }

    fn has_listener(&self) -> bool {
        self.client.seat().is_some_and(|seat| self.shared.listeners.has(seat.id()))
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            self.shared.returns.over(&*sink.seat, sink.stream);
            sink.finish();
        }
    }
}

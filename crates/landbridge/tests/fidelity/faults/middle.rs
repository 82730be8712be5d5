//! A gateway that alters what it passes on, for clients of both eras.

use std::sync::Arc;
use std::task::{Context, Poll};

use lb_exchange::{
    BoxFuture, Call, Caller, Cancel, Desk, Driver, End, Exchange, Hello, Middle, Mount, Outcome, Refusal, Seat,
    SessionId, Step, Streams, Visitor, Welcome,
};
use lb_gateway::Gateway;
use lb_wire::{Message, compose};

use super::{Fault, Way};

/// A gateway with a fault.
pub struct Faulty {
    pub gateway: Gateway,
    pub fault: Fault,
    pub way: Way,
}

impl Faulty {
    fn seated(&self, seat: Arc<dyn Seat>) -> Arc<dyn Seat> {
        Arc::new(FaultySeat { seat, fault: self.fault, way: self.way })
    }
}

/// Opens a call with its params or its result altered.
fn open(mut call: Call, fault: Fault, way: Way, inner: impl FnOnce(Call) -> Exchange) -> Exchange {
    if way == Way::There {
        let body = call.message.body().expect("a call has params");
        let id = call.message.id().expect("a call has an id");
        let altered = compose::request(id, call.message.method(), Some(&fault.plant(&body)));
        call.message = Message::scan(altered.bytes().clone()).expect("still a message");
    }
    let inner = inner(call);
    let remote = inner.remote().clone();
    let fault = if way == Way::Back { fault } else { Fault::None };
    Exchange::new(Altered { inner, fault }, remote)
}

impl Middle for Faulty {
    fn open(&self, call: Call) -> Exchange {
        open(call, self.fault, self.way, |call| self.gateway.open(call))
    }

    fn begin(&self, hello: Hello) -> BoxFuture<'_, Result<Welcome, Refusal>> {
        Box::pin(async {
            let Welcome { seat, result } = self.gateway.begin(hello).await?;
            Ok(Welcome { seat: self.seated(seat), result })
        })
    }

    fn seat(&self, id: &str, mount: &Mount, who: &Visitor) -> Option<Arc<dyn Seat>> {
        Some(self.seated(self.gateway.seat(id, mount, who)?))
    }

    fn adopt(&self, pump: BoxFuture<'static, ()>) {
        self.gateway.adopt(pump);
    }

    fn servers(&self, who: &Visitor) -> Vec<String> {
        self.gateway.servers(who)
    }

    fn has(&self, mount: &Mount) -> bool {
        self.gateway.has(mount)
    }
}

struct FaultySeat {
    seat: Arc<dyn Seat>,
    fault: Fault,
    way: Way,
}

impl Seat for FaultySeat {
    fn id(&self) -> &SessionId {
        self.seat.id()
    }

    fn caller(&self) -> &Arc<Caller> {
        self.seat.caller()
    }

    fn desk(&self) -> &Desk {
        self.seat.desk()
    }

    fn streams(&self) -> &dyn Streams {
        self.seat.streams()
    }

    fn open(self: Arc<Self>, call: Call) -> Exchange {
        open(call, self.fault, self.way, |call| self.seat.clone().open(call))
    }

    fn notified(&self, message: Message) {
        self.seat.notified(message);
    }

    fn listen(&self) -> Exchange {
        self.seat.listen()
    }

    fn end(&self, why: Cancel) {
        self.seat.end(why);
    }
}

struct Altered {
    inner: Exchange,
    fault: Fault,
}

impl Driver for Altered {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        self.inner.poll_step(cx).map(|step| match step {
            Step::End(End { outcome: Outcome::Result(raw), era, receipt, feed_mark, failed }) => {
                let outcome = Outcome::Result(self.fault.plant(&raw));
                Step::End(End { outcome, era, receipt, feed_mark, failed })
            }
            step => step,
        })
    }
}

//! One call of a connection, as a future that resolves each time the call says something.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::alarm::Alarm;
use crate::running::{Running, Said};

/// A call until it says something; gives itself back with what it said.
pub(crate) struct Turn(Option<Box<Inner>>);

struct Inner {
    running: Running,
    batch: Option<u64>,
    alarm: Option<Alarm>,
}

impl Turn {
    pub(crate) fn new(running: Running, batch: Option<u64>) -> Self {
        Self(Some(Box::new(Inner { running, batch, alarm: None })))
    }

    /// The batch it belongs to.
    pub(crate) fn batch(&self) -> Option<u64> {
        self.0.as_ref().and_then(|inner| inner.batch)
    }

    /// Whether it comes to an end by itself.
    pub(crate) fn is_working(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| !inner.running.is_endless())
    }

    /// Whether it says nothing more.
    pub(crate) fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(|inner| inner.running.is_over())
    }
}

impl Future for Turn {
    type Output = (Said, Self);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(inner) = &mut self.0 else { return Poll::Pending };
        loop {
            if let Poll::Ready(said) = inner.running.poll(cx, true) {
                return Poll::Ready((said, Self(self.0.take())));
            }
            let Some(due) = inner.running.due() else { return Poll::Pending };
            let alarm = inner.alarm.get_or_insert_with(|| Alarm::new(due));
            std::task::ready!(alarm.poll(due, cx));
        }
    }
}

//! What the tests share.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use lb_session::{Happening, Moment};

/// A moment, in milliseconds after the start.
pub fn at(millis: u64) -> Moment {
    let time = Duration::from_millis(millis);
    Moment { up: time, unix: Duration::from_secs(1_800_000_000) + time }
}

/// An event that is told one by one.
pub fn plain() -> Happening {
    Happening::ServerHealthRestored
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread.
pub fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(seen) => return seen,
            Poll::Pending => std::thread::park(),
        }
    }
}

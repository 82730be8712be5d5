//! One connection: served until it ends, is idle, stalls, or the shutdown takes it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use lb_exchange::Bell;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::pages::Reach;
use crate::phase::Level;
use crate::pulse::{Pulse, Watched};
use crate::service::{Server, Service};
use crate::settings::Settings;

/// What hyper may buffer of a head before it answers 431; the bound that counts is in `guard`.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Serves one connection.
///
/// Cancel safe: dropping it drops the connection, which is losing every client on it.
pub(crate) async fn serve_connection(socket: TcpStream, reach: Reach, server: Arc<Server>) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "could not set TCP_NODELAY");
    }
    let pulse = Arc::new(Pulse::new());
    let io = TokioIo::new(Watched::new(socket, pulse.clone()));
    let service = Service::new(server.clone(), pulse.clone(), reach);
    let mut builder = http1::Builder::new();
    // Our own watch covers heads and idle time: hyper's would count idle time as part of the next head.
    builder.header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX).keep_alive(true);
    let mut connection = pin!(builder.serve_connection(io, service));

    let mut sleep = pin!(tokio::time::sleep_until(Instant::now() + server.settings.idle_max));
    let (bell, mut watching, mut known) = (Bell::default(), None, Level::Serving);
    std::future::poll_fn(|cx| {
        watching.get_or_insert_with(|| server.phase.watch(cx.waker()));
        let level = server.phase.level();
        if known < level {
            known = level;
            connection.as_mut().graceful_shutdown();
        }
        if level == Level::Aborting {
            return Poll::Ready(());
        }
        if let Poll::Ready(outcome) = bell.poll(cx, |cx| connection.as_mut().poll(cx)) {
            if let Err(error) = outcome {
                tracing::debug!(%error, "connection ended");
            }
            return Poll::Ready(());
        }
        poll_overdue(&pulse, &server.settings, sleep.as_mut(), cx)
    })
    .await;
}

/// Ready when the client has failed to do what it should.
fn poll_overdue(pulse: &Pulse, settings: &Settings, mut sleep: Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<()> {
    // The sleep is set again only when it must fire earlier or has fired, so that a busy connection leaves it alone.
    while let Some(due) = pulse.due(settings) {
        if due < sleep.deadline() {
            sleep.as_mut().reset(due);
        }
        std::task::ready!(sleep.as_mut().poll(cx));
        if due <= sleep.deadline() {
            tracing::debug!("connection closed: idle or stalled for too long");
            return Poll::Ready(());
        }
        sleep.as_mut().reset(due);
    }
    Poll::Pending
}

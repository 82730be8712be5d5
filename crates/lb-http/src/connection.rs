//! One connection: served until it ends, is idle, stalls, or the shutdown takes it.

use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use lb_exchange::Bell;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;

use crate::accept::Accepted;
use crate::connections::Entered;
use crate::peer::Peer;
use crate::phase::Level;
use crate::pulse::{Pulse, Watched};
use crate::server::Server;
use crate::service::Service;
use crate::settings::Settings;
use crate::socket::Socket;

/// What hyper may buffer of a head before it answers 431; the bound that counts is in `guard`.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Serves one connection, which counts as open until it has ended.
///
/// Cancel safe: dropping it drops the connection, which is losing every client on it.
pub(crate) async fn serve_connection(
    socket: Accepted,
    tls: Option<TlsAcceptor>,
    peer: Peer,
    server: Arc<Server>,
    _counted: Entered,
) {
    let settings = server.settings.load();
    if let Accepted::Tcp(socket) = &socket {
        let done = socket.set_nodelay(true).and_then(|()| give_up_after(socket, &settings));
        if let Err(error) = done {
            tracing::debug!(%error, "could not set the options of a socket");
        }
    }
    // Boxed: few connections have it, and it is large.
    let socket = match tls {
        None => plain(socket),
        Some(acceptor) => {
            // As with a connection that has no request: whoever came late is let stay until the very end.
            let last = if peer.late { Level::Aborting } else { Level::Finishing };
            let shaken = tokio::select! {
                shaken = Box::pin(handshake(socket, acceptor, &settings)) => shaken,
                () = server.phase.reached(last) => Err(io::Error::other("the shutdown came first")),
            };
            match shaken {
                Ok(socket) => socket,
                Err(error) => return tracing::debug!(%error, "no TLS handshake"),
            }
        }
    };
    let pulse = Arc::new(Pulse::new(server.in_flight.clone()));
    let io = TokioIo::new(Watched::new(socket, pulse.clone()));
    let service = Service::new(server.clone(), pulse.clone(), peer);
    let mut builder = http1::Builder::new();
    // Our own watch covers heads and idle time: hyper's would count idle time as part of the next head.
    builder.header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX).keep_alive(true);
    let mut connection = pin!(builder.serve_connection(io, service));

    let mut sleep = pin!(tokio::time::sleep_until(Instant::now() + settings.idle_max));
    let (bell, mut watching, mut finishing) = (Bell::default(), None, false);
    std::future::poll_fn(|cx| {
        watching.get_or_insert_with(|| server.phase.watch(cx.waker()));
        let level = server.phase.level();
        // Whoever came late has one answer to get, and every answer closes.
        if Level::Finishing <= level && !finishing && !peer.late {
            finishing = true;
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
        poll_overdue(&pulse, &settings, sleep.as_mut(), cx)
    })
    .await;
}

fn plain(socket: Accepted) -> Socket {
    match socket {
        Accepted::Tcp(socket) => Socket::Tcp(socket),
        Accepted::Unix(socket) => Socket::Unix(socket),
    }
}

async fn handshake(socket: Accepted, acceptor: TlsAcceptor, settings: &Settings) -> io::Result<Socket> {
    let shaking = async {
        Ok(match socket {
            Accepted::Tcp(socket) => Socket::Tls(Box::new(acceptor.accept(socket).await?)),
            Accepted::Unix(socket) => Socket::UnixTls(Box::new(acceptor.accept(socket).await?)),
        })
    };
    let limited = tokio::time::timeout(settings.handshake_max, shaking).await;
    limited.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// A peer that has vanished is noticed when it has acknowledged nothing for so long, and not after a quarter of an
/// hour.
#[cfg(target_os = "linux")]
fn give_up_after(socket: impl AsFd, settings: &Settings) -> io::Result<()> {
    let millis = u32::try_from(settings.write_stall_max.as_millis()).unwrap_or(u32::MAX);
    Ok(rustix::net::sockopt::set_tcp_user_timeout(socket, millis)?)
}

/// Other systems have no such option; the watch on stalled writes remains.
#[cfg(not(target_os = "linux"))]
fn give_up_after(_: impl AsFd, _: &Settings) -> io::Result<()> {
    Ok(())
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

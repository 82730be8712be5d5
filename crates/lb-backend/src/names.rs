//! From the name of a host to a connection. An address is looked at when the name has become one, and what was looked at
//! is what is connected to: no other answer can come between.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use lb_exchange::BoxFuture;
use tokio::net::TcpStream;

/// How long an address may take to be connected to while there is another to try.
const EACH_MAX: Duration = Duration::from_secs(5);

/// Tells the addresses that a host has now.
pub trait Lookup: Send + Sync {
    /// Looks it up. An address in place of a name is its own answer.
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// Looks up hosts and connects to them. Whoever checks addresses does it with the same one, so that there is one place in
/// which names become addresses.
#[derive(Clone, Default)]
pub struct Names(Option<Arc<dyn Lookup>>);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum NoWay {
    /// The name has no address that can be known.
    #[error("it cannot be looked up")]
    Unknown(#[source] io::Error),
    /// None of its addresses may be connected to.
    #[error("its address may not be connected to")]
    Forbidden,
    /// None of those that may be could be.
    #[error("it cannot be connected to")]
    Failed(#[source] io::Error),
}

impl Names {
    /// Looks up with this instead of what the system has.
    #[must_use]
    pub fn by(lookup: Arc<dyn Lookup>) -> Self {
        Self(Some(lookup))
    }

    /// The addresses that a host has now.
    ///
    /// Cancel safe: yes.
    ///
    /// # Errors
    /// It has none, or nobody could say.
    pub async fn find(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match &self.0 {
            Some(lookup) => lookup.lookup(host, port).await,
            None => tokio::net::lookup_host((host, port)).await.map(Iterator::collect),
        }
    }

    /// A connection to the first of its addresses that may be connected to and can be. Whoever asks says how long all of
    /// it may take.
    ///
    /// Cancel safe: yes, what was begun is closed.
    ///
    /// # Errors
    /// Why there is none; with several addresses, what became of the last.
    pub async fn connect(&self, host: &str, port: u16, allows: impl Fn(IpAddr) -> bool) -> Result<TcpStream, NoWay> {
        let found = self.find(host, port).await.map_err(NoWay::Unknown)?;
        let mut allowed = found.into_iter().filter(|address| allows(address.ip())).peekable();
        let mut why = NoWay::Forbidden;
        while let Some(address) = allowed.next() {
            let connecting = TcpStream::connect(address);
            let connected = match allowed.peek() {
                None => connecting.await,
                Some(_) => match tokio::time::timeout(EACH_MAX, connecting).await {
                    Ok(connected) => connected,
                    Err(late) => Err(io::Error::new(io::ErrorKind::TimedOut, late)),
                },
            };
            match connected {
                Ok(stream) => return Ok(stream),
                Err(error) => why = NoWay::Failed(error),
            }
        }
        Err(why)
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Names(given)" } else { "Names(of the system)" })
    }
}

#[cfg(test)]
mod tests;

//! Where clients connect: addresses, unix sockets, and sockets that somebody else has opened for us.

mod unix;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;

use rustix::net::AddressFamily;
use tokio::net::{TcpListener, TcpSocket, UnixListener};

use crate::settings::NodeSettings;
use crate::tls::Tls;
pub(crate) use unix::SocketFile;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address or a name with a port: `127.0.0.1:8080`, `localhost:0`, `[::1]:80`.
    Tcp(String),
    /// A socket in the file system, for one user: `unix:/run/user/1000/landbridge/http.sock`.
    Unix(PathBuf),
}

/// It is no place to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give HOST:PORT, as in 127.0.0.1:8080, or unix: and an absolute path")]
pub struct PlaceError;

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            let good = path.is_absolute() && path.file_name().is_some();
            return if good { Ok(Self::Unix(path)) } else { Err(PlaceError) };
        }
        let (host, port) = text.rsplit_once(':').ok_or(PlaceError)?;
        let named = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(bare) => bare.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains([':', '/', '[', ']']),
        };
        let numbered = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
        if named && numbered { Ok(Self::Tcp(text.to_owned())) } else { Err(PlaceError) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Why we cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is taken.
    #[error("Address already in use; choose another with --listen {host}:0, which takes any free port")]
    InUse {
        /// The host that was asked for.
        host: String,
    },
    /// The system says no.
    #[error("{0}")]
    System(#[from] io::Error),
    /// Only addresses can be shared between processes.
    #[error("a unix socket cannot be shared by --reuse-port: hand it over with LISTEN_FDS, or listen on an address")]
    ReuseUnix,
    /// Others could reach into the folder of the socket.
    #[error("others can use {folder}: give the socket a folder of its own with mode 0700, which is made if missing")]
    Folder {
        /// The folder.
        folder: PathBuf,
    },
    /// Somebody answers on the socket.
    #[error("another process answers on {path}; stop it first")]
    Answered {
        /// The socket.
        path: PathBuf,
    },
    /// There is a file that is no socket.
    #[error("{path} exists and is no socket; remove it or choose another path")]
    NoSocket {
        /// The file.
        path: PathBuf,
    },
    /// The inherited descriptor cannot be listened on.
    #[error("the inherited descriptor is no listening socket of TCP or unix; check the socket unit")]
    Inherited,
}

/// What becomes of a listener when the shutdown begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// Nobody else listens: new connections are told so, until the end.
    Refuse,
    /// Another process has bound the same address: what waits is served, and the rest is the other's.
    Empty,
    /// The same socket stays open elsewhere: what waits in it is for whoever has it next.
    Leave,
}

/// Who connects to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Clients.
    Clients,
    /// Other nodes, which must prove that they are.
    Nodes,
}

/// A socket on which clients connect.
#[derive(Debug)]
pub struct Listener {
    pub(crate) source: Source,
    pub(crate) tls: Option<Tls>,
    pub(crate) farewell: Farewell,
    pub(crate) side: Side,
}

/// The socket itself.
#[derive(Debug)]
pub(crate) enum Source {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        /// Goes with it, if it is ours.
        _file: Option<SocketFile>,
    },
}

impl Listener {
    /// Listens alone.
    ///
    /// # Errors
    /// The place is taken, or cannot be used; the message says what to do.
    pub async fn bind(place: &Place) -> Result<Self, ListenError> {
        let source = match place {
            Place::Tcp(address) => Source::Tcp(bind_tcp(address, Sharing::Alone).await?),
            Place::Unix(path) => {
                let (listener, file) = unix::bind(path)?;
                Source::Unix { listener, _file: Some(file) }
            }
        };
        Ok(Self { source, tls: None, farewell: Farewell::Refuse, side: Side::Clients })
    }

    /// Listens on an address that other processes of this user may bind too (`SO_REUSEPORT`), so that a new one can
    /// take over from an old one.
    ///
    /// # Errors
    /// As [`Self::bind`]; unix sockets cannot be shared.
    pub async fn bind_shared(place: &Place) -> Result<Self, ListenError> {
        let Place::Tcp(address) = place else { return Err(ListenError::ReuseUnix) };
        let source = Source::Tcp(bind_tcp(address, Sharing::Shared).await?);
        Ok(Self { source, tls: None, farewell: Farewell::Empty, side: Side::Clients })
    }

    /// Listens on a socket that was opened for us, as by systemd.
    ///
    /// # Errors
    /// It is no listening socket.
    pub fn adopt(socket: OwnedFd) -> Result<Self, ListenError> {
        if !rustix::net::sockopt::socket_acceptconn(&socket).is_ok_and(|listening| listening) {
            return Err(ListenError::Inherited);
        }
        let family = rustix::net::getsockname(&socket).map_err(io::Error::from)?.address_family();
        let source = match family {
            AddressFamily::INET | AddressFamily::INET6 => {
                let listener = std::net::TcpListener::from(socket);
                listener.set_nonblocking(true)?;
                Source::Tcp(TcpListener::from_std(listener)?)
            }
            AddressFamily::UNIX => {
                let listener = std::os::unix::net::UnixListener::from(socket);
                listener.set_nonblocking(true)?;
                Source::Unix { listener: UnixListener::from_std(listener)?, _file: None }
            }
            _ => return Err(ListenError::Inherited),
        };
        Ok(Self { source, tls: None, farewell: Farewell::Leave, side: Side::Clients })
    }

    /// Listens for other nodes alone: nobody without a key of the cluster gets an answer there. The node's own URL must
    /// lead to it, directly or through something that speaks TLS for it.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn bind_for_nodes(settings: &NodeSettings) -> Result<Self, ListenError> {
        Ok(Self { side: Side::Nodes, ..Self::bind(&settings.listen).await? })
    }

    /// The same with TLS.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Its address, unless it is a unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.source {
            Source::Tcp(listener) => listener.local_addr().ok(),
            Source::Unix { .. } => None,
        }
    }
}

impl Listener {
    /// The path of a unix socket, if it has one.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match &self.source {
            Source::Tcp(_) => None,
            Source::Unix { listener, .. } => listener.local_addr().ok()?.as_pathname().map(PathBuf::from),
        }
    }
}

/// A listener that stays open, and says no, until the end.
impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self { source: Source::Tcp(listener), tls: None, farewell: Farewell::Refuse, side: Side::Clients }
    }
}

/// Where it is, for people: `http://127.0.0.1:8080`, `https://[::1]:443`, `unix:/run/x/http.sock`.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match (&self.source, self.address()) {
            (Source::Tcp(_), Some(address)) => write!(f, "{scheme}://{address}"),
            (Source::Tcp(_), None) => write!(f, "{scheme}"),
            (Source::Unix { listener, .. }, _) => match listener.local_addr() {
                Ok(address) => match address.as_pathname() {
                    Some(path) => write!(f, "unix:{}", path.display()),
                    None => f.write_str("unix:"),
                },
                Err(_) => f.write_str("unix:"),
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    Alone,
    Shared,
}

async fn bind_tcp(address: &str, sharing: Sharing) -> Result<TcpListener, ListenError> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for found in tokio::net::lookup_host(address).await? {
        match bind_one(found, sharing) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    match (last.kind(), address.rsplit_once(':')) {
        (io::ErrorKind::AddrInUse, Some((host, _))) => Err(ListenError::InUse { host: host.to_owned() }),
        _ => Err(ListenError::System(last)),
    }
}

fn bind_one(address: SocketAddr, sharing: Sharing) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // What an earlier process left in TIME_WAIT shall not keep us from starting.
    socket.set_reuseaddr(true)?;
    if sharing == Sharing::Shared {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_addresses_with_a_port_or_absolute_paths() {
        for text in ["127.0.0.1:0", "localhost:65535", "[::1]:80", "0.0.0.0:8080", "unix:/run/x/http.sock"] {
            assert_eq!(text.parse::<Place>().map(|place| place.to_string()), Ok(text.to_owned()));
        }
        let bad = [
            "",
            "9999",
            ":9999",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:99999",
            "127.0.0.1:+1",
            "::1:80",
            "[x]:1",
            "http://localhost:1",
            "localhost:1/mcp",
            "unix:",
            "unix:relative.sock",
            "unix:/",
        ];
        for text in bad {
            assert_eq!(text.parse::<Place>(), Err(PlaceError), "input {text:?}");
        }
    }

    #[tokio::test]
    async fn an_address_is_taken_by_one_unless_all_share_it() {
        let anywhere = "127.0.0.1:0".parse().unwrap();
        let alone = Listener::bind(&anywhere).await.unwrap();
        let place = Place::Tcp(alone.address().unwrap().to_string());
        for refused in [Listener::bind(&place).await, Listener::bind_shared(&place).await] {
            let told = refused.unwrap_err().to_string();
            assert!(told.contains("already in use") && told.contains("--listen 127.0.0.1:0"), "{told}");
        }
        let shared = Listener::bind_shared(&anywhere).await.unwrap();
        let place = Place::Tcp(shared.address().unwrap().to_string());
        assert!(Listener::bind_shared(&place).await.is_ok());
        assert!(matches!(Listener::bind(&place).await, Err(ListenError::InUse { .. })));
        assert_eq!(shared.to_string(), format!("http://{place}"));
    }

    #[tokio::test]
    async fn only_listening_sockets_are_adopted() {
        let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listening.local_addr().unwrap();
        let adopted = Listener::adopt(listening.into()).unwrap();
        assert_eq!((adopted.address(), adopted.farewell), (Some(address), Farewell::Leave));
        let connected = std::net::TcpStream::connect(address).unwrap();
        assert!(matches!(Listener::adopt(connected.into()), Err(ListenError::Inherited)));
        let (pipe, _other) = std::io::pipe().unwrap();
        assert!(matches!(Listener::adopt(pipe.into()), Err(ListenError::Inherited)));
    }
}

//! The bus that programs of one login speak to each other on: connecting to it, and calling others there.
//!
//! Only what a keyring needs: one call at a time, over a socket of this machine. Nothing is listened to.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::Unusable;
use super::wire::{Answer, Head, Method, Reader, call};

/// No answer that is waited for has more.
const BYTES_MAX: usize = 256 << 10;
/// A line of the greeting.
const LINE_BYTES_MAX: usize = 1 << 10;

/// A connection to the bus. Cancel safe: no; one whose call was given up must not be used again.
#[derive(Debug)]
pub struct Bus {
    stream: UnixStream,
    serial: u32,
}

impl Bus {
    /// Connects to the first of its addresses that is a socket of this machine.
    pub async fn connect(address: &str) -> Result<Self, Unusable> {
        Self::connect_as(address, rustix::process::getuid().as_raw()).await
    }

    /// The same as this user, whose bus it must be: an address that is old, in a shell of before or one that was handed on,
    /// may have somebody else behind it by now, who would be given the key.
    async fn connect_as(address: &str, user: u32) -> Result<Self, Unusable> {
        let place = address.split(';').find_map(place).ok_or_else(|| odd("its address is of no known kind"))?;
        let mut bus = Self { stream: UnixStream::connect(place).await.map_err(broken)?, serial: 0 };
        if bus.stream.peer_cred().map_err(broken)?.uid() != user {
            return Err(odd("it is another user's"));
        }
        bus.greet(user).await?;
        let hello = Method {
            service: "org.freedesktop.DBus",
            path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus",
            name: "Hello",
            signature: "",
        };
        bus.call(hello, &[], |_| Some(())).await?;
        Ok(bus)
    }

    /// Says who we are, which the system vouches for.
    async fn greet(&mut self, user: u32) -> Result<(), Unusable> {
        let shown: String = user.to_string().bytes().map(|byte| format!("{byte:02x}")).collect();
        self.stream.write_all(format!("\0AUTH EXTERNAL {shown}\r\n").as_bytes()).await.map_err(broken)?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            if LINE_BYTES_MAX < line.len() {
                return Err(odd("it greets with too many words"));
            }
            line.push(self.stream.read_u8().await.map_err(broken)?);
        }
        if !line.starts_with(b"OK ") {
            return Err(odd("it does not let us in"));
        }
        self.stream.write_all(b"BEGIN\r\n").await.map_err(broken)
    }

    /// Calls somebody, and reads what they answer.
    pub async fn call<T>(
        &mut self,
        method: Method<'_>,
        body: &[u8],
        read: impl FnOnce(&mut Reader<'_>) -> Option<T>,
    ) -> Result<T, Unusable> {
        self.serial += 1;
        self.stream.write_all(&call(method, self.serial, body)).await.map_err(broken)?;
        loop {
            let mut head = [0; Head::BYTES];
            self.stream.read_exact(&mut head).await.map_err(broken)?;
            let head = Head::read(&head).ok_or_else(|| odd("it says what is no message"))?;
            let bytes = head.rest().filter(|bytes| *bytes <= BYTES_MAX).ok_or_else(|| odd("it says too much"))?;
            let mut rest = vec![0; bytes];
            self.stream.read_exact(&mut rest).await.map_err(broken)?;
            return match super::wire::answer(&head, &rest, self.serial) {
                // Signals come unasked.
                None => continue,
                Some(Answer::Failed(name)) => Err(Unusable::Failed(format!("{}: {name}", method.name))),
                Some(Answer::Returned(mut values)) => {
                    read(&mut values).ok_or_else(|| odd("it answers what was not asked"))
                }
            };
        }
    }
}

/// The socket that an address names; one that is no file begins with a zero.
fn place(address: &str) -> Option<PathBuf> {
    let pairs = address.strip_prefix("unix:")?;
    pairs.split(',').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = plain(value)?;
        let value = match name {
            "path" => value,
            "abstract" => [&[0], &*value].concat(),
            _ => return None,
        };
        Some(OsString::from_vec(value).into())
    })
}

/// A value without its escapes.
fn plain(value: &str) -> Option<Vec<u8>> {
    let mut bytes = value.bytes();
    let mut found = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        found.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    Some(found)
}

fn odd(what: &str) -> Unusable {
    Unusable::Failed(format!("the session bus cannot be used: {what}"))
}

fn broken(error: std::io::Error) -> Unusable {
    Unusable::Failed(format!("the session bus cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_sockets_are_known() {
        let path = |text: &str| text.split(';').find_map(place).map(|path| path.display().to_string());
        for (address, want) in [
            ("unix:path=/run/user/1000/bus", Some("/run/user/1000/bus")),
            ("unix:guid=12,path=/run/a%20b", Some("/run/a b")),
            ("unix:abstract=/tmp/dbus-x,guid=1", Some("\0/tmp/dbus-x")),
            ("tcp:host=a,port=1;unix:path=/b", Some("/b")),
            ("unix:path=/b%2", None),
            ("unix:tmpdir=/tmp", None),
            ("autolaunch:", None),
            ("", None),
        ] {
            assert_eq!(path(address).as_deref(), want, "{address}");
        }
    }

    #[tokio::test]
    async fn a_bus_of_another_user_is_told_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bus");
        let listener = tokio::net::UnixListener::bind(&path).expect("a socket");
        let (address, us) = (format!("unix:path={}", path.display()), rustix::process::getuid().as_raw());
        let heard = async {
            let (mut stream, _) = listener.accept().await.expect("somebody");
            stream.read(&mut [0; 99]).await.expect("they hang up")
        };
        let (refused, heard) = tokio::join!(Bus::connect_as(&address, us + 1), heard);
        assert_eq!(refused.err(), Some(odd("it is another user's")));
        assert_eq!(heard, 0, "bytes");
    }
}

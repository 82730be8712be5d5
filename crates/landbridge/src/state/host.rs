//! What processes on one machine know of each other without asking: which of them are gone.
//!
//! Each node holds a socket without a file, named by its id, which the kernel takes back however the process ends. Who
//! can have that name knows that the node is dead, and need not wait for the end of its lease. Such sockets belong to a
//! boot of the machine and to a network on it; nodes tell each other those, and say nothing about nodes elsewhere.

use lb_gateway::{About, Host};

/// Shows that this process lives, for as long as it is held.
#[derive(Debug)]
pub struct Sign(#[expect(dead_code, reason = "only that it is open counts")] Held);

impl Sign {
    /// Shows that the process which joins with this lives, and says where that can be seen. `None` where nobody can see
    /// it.
    pub fn show(about: &mut About) -> Option<Self> {
        let place = place()?;
        let sign = Self(hold(&about.id)?);
        about.host = Some(Host { place: place.into(), is_gone });
        Some(sign)
    }
}

/// Whether no process of this place has this id.
fn is_gone(id: &str) -> bool {
    hold(id).is_some()
}

#[cfg(target_os = "linux")]
type Held = std::os::unix::net::UnixListener;

/// Where such names are seen.
#[cfg(target_os = "linux")]
fn place() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let network = std::fs::read_link("/proc/self/ns/net").ok()?;
    Some(format!("{} {}", boot.trim(), network.display()))
}

#[cfg(target_os = "linux")]
fn hold(id: &str) -> Option<Held> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let address = SocketAddr::from_abstract_name(format!("landbridge-node-{id}")).ok()?;
    UnixListener::bind_addr(&address).ok()
}

#[cfg(not(target_os = "linux"))]
type Held = std::convert::Infallible;

#[cfg(not(target_os = "linux"))]
fn place() -> Option<String> {
    None
}

#[cfg(not(target_os = "linux"))]
fn hold(_: &str) -> Option<Held> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_gone_when_its_process_is_and_not_before() {
        let mut about = About::new(None, None, "1");
        let sign = Sign::show(&mut about).expect("a sign");
        let host = about.host.clone().expect("a place");
        assert!(host.place.contains("net:["), "{}", host.place);
        assert!(!(host.is_gone)(&about.id) && !(host.is_gone)(&about.id), "looking does no harm");
        drop(sign);
        assert!((host.is_gone)(&about.id) && (host.is_gone)(&about.id));
    }
}

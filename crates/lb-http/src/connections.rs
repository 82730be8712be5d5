//! Connections that are open: how many in all, how many of each address, and who waits for one to end.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::listen::Side;
use crate::peer::Peer;
use crate::rate::Source;

/// All open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: Mutex<Open>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Open {
    /// Those that came in time, and those that came when the shutdown had begun.
    timely: usize,
    late: usize,
    /// Those of them that come from other nodes.
    nodes: usize,
    by_source: HashMap<Source, usize>,
}

impl Open {
    fn of(&self, side: Side) -> usize {
        match side {
            Side::Clients => self.timely + self.late - self.nodes,
            Side::Nodes => self.nodes,
        }
    }
}

/// One open connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Entered {
    connections: Arc<Connections>,
    counted: Option<Source>,
    late: bool,
    side: Side,
}

impl Connections {
    /// Takes one in, unless its address, where that counts, has enough of them. A host of IPv6 counts as one.
    pub(crate) fn enter(
        self: &Arc<Self>,
        counted: Option<IpAddr>,
        per_address_max: usize,
        peer: Peer,
    ) -> Option<Entered> {
        let counted = counted.map(Source::of);
        let mut open = self.lock();
        if let Some(source) = counted {
            let of_source = open.by_source.entry(source).or_default();
            if per_address_max <= *of_source {
                return None;
            }
            *of_source += 1;
        }
        *(if peer.late { &mut open.late } else { &mut open.timely }) += 1;
        open.nodes += usize::from(peer.side == Side::Nodes);
        drop(open);
        Some(Entered { connections: self.clone(), counted, late: peer.late, side: peer.side })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        let open = self.lock();
        open.timely + open.late
    }

    /// How many there are of one side. Clients shall not keep other nodes out, nor these them.
    pub(crate) fn of(&self, side: Side) -> usize {
        self.lock().of(side)
    }

    /// Resolves when there are fewer than this of one side.
    pub(crate) async fn fewer_than(&self, side: Side, max: usize) {
        self.until(|open| open.of(side) < max).await;
    }

    /// Resolves when none is left of those that came in time.
    pub(crate) async fn timely_ended(&self) {
        self.until(|open| open.timely == 0).await;
    }

    /// Resolves when none is left.
    pub(crate) async fn all_ended(&self) {
        self.until(|open| open.timely + open.late == 0).await;
    }

    /// Resolves when any of them ends.
    pub(crate) async fn next_end(&self) {
        self.ended.notified().await;
    }

    async fn until(&self, met: impl Fn(&Open) -> bool) {
        loop {
            let ended = self.ended.notified();
            if met(&self.lock()) {
                return;
            }
            ended.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        *(if self.late { &mut open.late } else { &mut open.timely }) -= 1;
        open.nodes -= usize::from(self.side == Side::Nodes);
        if let Some(source) = self.counted
            && let Some(of_source) = open.by_source.get_mut(&source)
        {
            *of_source -= 1;
            if *of_source == 0 {
                open.by_source.remove(&source);
            }
        }
        drop(open);
        self.connections.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMELY: Peer = Peer::OWN_USER;

    #[tokio::test]
    async fn an_address_has_its_share_and_gets_it_back() {
        let connections = Arc::new(Connections::default());
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse::<IpAddr>().ok());
        let first = connections.enter(a, 2, TIMELY).unwrap();
        let second = connections.enter(a, 2, TIMELY).unwrap();
        assert!(connections.enter(a, 2, TIMELY).is_none(), "enough");
        let other = connections.enter(b, 2, TIMELY).unwrap();
        let free = connections.enter(None, 0, Peer { late: true, ..TIMELY }).unwrap();
        assert_eq!(connections.len(), 4);
        drop(first);
        let third = connections.enter(a, 2, TIMELY).unwrap();
        drop((second, third, other));
        connections.timely_ended().await;
        assert!(connections.lock().by_source.is_empty(), "nothing is kept of addresses that are gone");
        drop(free);
        connections.all_ended().await;
    }

    #[test]
    fn a_host_of_ipv6_has_one_share_whatever_address_it_takes() {
        let connections = Arc::new(Connections::default());
        let [a, b, other] = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|text| text.parse::<IpAddr>().ok());
        let first = connections.enter(a, 1, TIMELY).unwrap();
        assert!(connections.enter(b, 1, TIMELY).is_none(), "the same host");
        assert!(connections.enter(other, 1, TIMELY).is_some());
        drop(first);
        assert!(connections.enter(b, 1, TIMELY).is_some());
    }

    #[tokio::test]
    async fn who_waits_for_room_is_woken_when_there_is() {
        let connections = Arc::new(Connections::default());
        let only = connections.enter(None, 0, TIMELY).unwrap();
        let waiting =
            tokio::time::timeout(std::time::Duration::from_secs(20), connections.fewer_than(Side::Clients, 1));
        let (waited, ()) = tokio::join!(waiting, async { drop(only) });
        assert!(waited.is_ok());
    }

    #[tokio::test]
    async fn clients_and_nodes_do_not_keep_each_other_out() {
        let connections = Arc::new(Connections::default());
        let client = connections.enter(None, 0, TIMELY).unwrap();
        let node = connections.enter(None, 0, Peer { side: Side::Nodes, ..TIMELY }).unwrap();
        assert_eq!((connections.len(), connections.of(Side::Clients), connections.of(Side::Nodes)), (2, 1, 1));
        drop(client);
        connections.fewer_than(Side::Clients, 1).await;
        assert_eq!(connections.of(Side::Nodes), 1);
        drop(node);
        connections.all_ended().await;
    }
}

//! What all connections share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use lb_exchange::Principal;
use lb_front::Front;

use crate::budget::Budget;
use crate::connections::Connections;
use crate::current::Current;
use crate::hop::Hops;
use crate::nodes::Nodes;
use crate::phase::Phase;
use crate::pulse::InFlight;
use crate::rate::Buckets;
use crate::settings::Settings;
use crate::shed::Shed;

/// What all connections share.
pub(crate) struct Server {
    pub(crate) front: Arc<Front>,
    pub(crate) settings: Current,
    pub(crate) phase: Arc<Phase>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) buckets: Buckets,
    pub(crate) bodies: Budget,
    pub(crate) shed: Arc<Shed>,
    pub(crate) principal: Principal,
    pub(crate) nodes: Nodes,
    pub(crate) hops: Hops,
    pub(crate) started: Instant,
    /// Request ids are this and a count.
    pub(crate) nonce: String,
    pub(crate) requests: AtomicU64,
}

impl Server {
    pub(crate) fn new(front: Arc<Front>, settings: Settings) -> Self {
        Self {
            front,
            bodies: Budget::default(),
            shed: Arc::default(),
            settings: Current::new(settings),
            phase: Arc::default(),
            connections: Arc::default(),
            in_flight: Arc::default(),
            buckets: Buckets::default(),
            principal: Principal::local(),
            nodes: Nodes::default(),
            hops: Hops::default(),
            started: Instant::now(),
            nonce: format!("{:08x}-", rand::random::<u32>()),
            requests: AtomicU64::new(0),
        }
    }
}

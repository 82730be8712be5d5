//! Hears what is published, on a connection and a thread of its own.
//!
//! A command connection cannot do it: a busy subscriber would hold up answers. The thread begins with the first
//! subscription and ends with the store. After a lost connection it subscribes again and then tells every subscriber
//! that it may have missed something.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::StreamExt;
use parking_lot::Mutex;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::hub::{Hub, Notice};
use crate::valkey::failure;
use crate::valkey::link::jittered;
use crate::valkey::nodes::Nodes;
use crate::{Error, Key};

/// How many orders wait.
pub(super) const ORDERS_MAX: usize = 1_024;

/// How often a silent connection is checked.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// What the thread is asked to do.
pub(super) enum Order {
    /// Hear a channel; answered when the server has confirmed it.
    Subscribe(Key, oneshot::Sender<Result<(), Error>>),
    /// Nobody hears it any more.
    Unsubscribe(Key),
}

/// Says that nobody hears a channel; if that does not fit, the server tells us what nobody hears until it is asked again.
pub(super) fn silence(orders: &Sender<Order>, channel: &Key) {
    if orders.try_send(Order::Unsubscribe(channel.clone())).is_err() {
        tracing::debug!(%channel, "the server goes on to tell of a channel that nobody hears");
    }
}

pub(super) struct Pump {
    pub(super) nodes: Arc<Nodes>,
    pub(super) hub: Weak<Hub>,
    pub(super) orders: Receiver<Order>,
    pub(super) prefix: String,
    pub(super) timeout: Duration,
    /// What the server has once confirmed, so that a gap can be told.
    pub(super) heard: HashSet<Key>,
}

/// Why a connection is over.
enum End {
    /// The store is dropped.
    Store,
    Lost,
}

impl Pump {
    /// Starts the thread; gives the orders back when the system has no room for one.
    pub(super) fn start(self) -> Result<(), (Error, Option<Receiver<Order>>)> {
        let failed = |error: std::io::Error| Error::Away { since: SystemTime::now(), why: error.to_string() };
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return Err((failed(error), Some(self.orders))),
        };
        // A thread that does not start drops what it was given.
        let place = Arc::new(Mutex::new(Some(self)));
        let thread = std::thread::Builder::new().name("lb-store-hear".to_owned());
        let taken = place.clone();
        let started = thread.spawn(move || {
            let pump = taken.lock().take();
            if let Some(pump) = pump {
                runtime.block_on(pump.run());
            }
        });
        match started {
            Ok(_) => Ok(()),
            Err(error) => Err((failed(error), place.lock().take().map(|pump| pump.orders))),
        }
    }

    async fn run(mut self) {
        let mut since = SystemTime::now();
        for tries in 0_usize.. {
            match self.connect(tries).await {
                Ok((sink, stream)) => {
                    if let End::Store = self.hear(sink, stream).await {
                        return;
                    }
                    since = SystemTime::now();
                }
                Err(error) => {
                    let Some(()) = self.refuse(error, since) else { return };
                }
            }
            tokio::time::sleep(jittered(Duration::from_millis(200))).await;
        }
    }

    async fn connect(&self, tries: usize) -> Result<(PubSubSink, PubSubStream), Error> {
        let client = self.nodes.client(tries)?;
        match timeout(self.timeout / 2, client.get_async_pubsub()).await {
            Ok(Ok(connection)) => Ok(connection.split()),
            Ok(Err(error)) => Err(failure::read(&error, self.nodes.password(), SystemTime::now())),
            Err(_) => Err(Error::Timeout(self.timeout / 2)),
        }
    }

    /// Tells those who wait that it does not work; `None` when the store is dropped.
    fn refuse(&mut self, error: Error, since: SystemTime) -> Option<()> {
        let error = if error.is_temporary() { Error::Away { since, why: error.to_string() } } else { error };
        loop {
            match self.orders.try_recv() {
                Ok(Order::Subscribe(_, answer)) => drop(answer.send(Err(error.clone()))),
                Ok(Order::Unsubscribe(_)) => {}
                Err(tokio::sync::mpsc::error::TryRecvError::Empty) => return Some(()),
                Err(tokio::sync::mpsc::error::TryRecvError::Disconnected) => return None,
            }
        }
    }

    /// Subscribes to what is heard, and carries messages until the connection or the store ends.
    async fn hear(&mut self, mut sink: PubSubSink, mut stream: PubSubStream) -> End {
        let Some(hub) = self.hub.upgrade() else { return End::Store };
        self.heard.retain(|channel| hub.hears(channel));
        for channel in self.heard.clone() {
            if self.subscribe(&mut sink, &channel).await.is_err() {
                return End::Lost;
            }
            hub.deliver(&channel, &Notice::Missed);
        }
        drop(hub);
        loop {
            tokio::select! {
                order = self.orders.recv() => match order {
                    None => return End::Store,
                    Some(order) => if self.obey(order, &mut sink).await.is_err() { return End::Lost },
                },
                message = stream.next() => match message {
                    None => return End::Lost,
                    Some(message) => if self.carry(&message).is_none() { return End::Store },
                },
                () = tokio::time::sleep(CHECK_EVERY) => {
                    let checked = timeout(self.timeout, sink.ping::<redis::Value>()).await;
                    if !matches!(checked, Ok(Ok(_))) { return End::Lost }
                }
            }
        }
    }

    async fn obey(&mut self, order: Order, sink: &mut PubSubSink) -> Result<(), Error> {
        match order {
            Order::Subscribe(channel, answer) => {
                let done = self.subscribe(sink, &channel).await;
                // Whoever asked may have given up.
                drop(answer.send(done.clone()));
                done
            }
            Order::Unsubscribe(channel) => {
                if self.hub.upgrade().is_some_and(|hub| hub.hears(&channel)) {
                    return Ok(());
                }
                self.heard.remove(&channel);
                self.in_time(sink.unsubscribe(self.name(&channel))).await
            }
        }
    }

    async fn subscribe(&mut self, sink: &mut PubSubSink, channel: &Key) -> Result<(), Error> {
        self.in_time(sink.subscribe(self.name(channel))).await?;
        self.heard.insert(channel.clone());
        Ok(())
    }

    async fn in_time(&self, work: impl Future<Output = Result<(), redis::RedisError>>) -> Result<(), Error> {
        match timeout(self.timeout, work).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(failure::read(&error, self.nodes.password(), SystemTime::now())),
            Err(_) => Err(Error::Timeout(self.timeout)),
        }
    }

    /// Hands a message on; `None` when the store is dropped.
    fn carry(&self, message: &redis::Msg) -> Option<()> {
        let hub = self.hub.upgrade()?;
        let channel = message.get_channel_name().strip_prefix(&self.prefix).and_then(Key::read);
        if let Some(channel) = channel {
            hub.deliver(&channel, &Notice::Message(Bytes::copy_from_slice(message.get_payload_bytes())));
        }
        Some(())
    }

    fn name(&self, channel: &Key) -> String {
        format!("{}{channel}", self.prefix)
    }
}

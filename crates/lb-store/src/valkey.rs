//! A store on a Valkey or Redis server from 6.2 on, or on a cluster of them, for any number of processes.
//!
//! A user of the server needs, on keys and channels of the prefix: `get set del incrby setrange pexpire type xadd xrange
//! xtrim xinfo time scan publish subscribe unsubscribe ping info evalsha script|load`, and `cluster|slots` in a cluster.

mod failure;
mod link;
mod nodes;
mod pump;
mod script;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, TryStreamExt, future, stream};
use parking_lot::Mutex;
use redis::{FromRedisValue, Value, cmd};
use tokio::sync::{mpsc, oneshot};

use crate::batch::NUMBER_MAX;
use crate::hub::{Hub, MESSAGE_BYTES_MAX};
use crate::plan;
use crate::settings::within;
use crate::store::{Facts, Kind, Pending, Scan, Warning};
use crate::valkey::link::{Ask, Twice};
use crate::valkey::nodes::{Address, Nodes};
use crate::valkey::pump::{ORDERS_MAX, Order, Pump};
use crate::valkey::script::Call;
use crate::{Applied, Batch, Error, Key, Limits, Servers, Settings, Store, Subscription};

/// How many keys one step of a scan looks at.
const SCAN_COUNT: usize = 512;

/// The oldest server that knows all commands.
const VERSION_MIN: (u32, u32) = (6, 2);

/// Keys on a server.
pub(crate) struct Valkey {
    nodes: Arc<Nodes>,
    prefix: String,
    limits: Limits,
    timeout: Duration,
    hub: Arc<Hub>,
    orders: mpsc::Sender<Order>,
    /// Taken by the thread that hears, when it begins.
    unheard: Mutex<Option<mpsc::Receiver<Order>>>,
    latency: Mutex<Option<Duration>>,
    warnings: Vec<Warning>,
}

impl Valkey {
    /// Connects, and looks whether the server will do.
    pub(crate) async fn open(servers: &Servers, settings: &Settings) -> Result<Self, Error> {
        let nodes = Arc::new(Nodes::new(servers, settings)?);
        let (orders, unheard) = mpsc::channel(ORDERS_MAX);
        let to_thread = orders.clone();
        let store = Self {
            nodes,
            prefix: settings.prefix.clone(),
            limits: settings.limits.clone(),
            timeout: settings.timeout,
            hub: Hub::with(Box::new(move |channel| pump::silence(&to_thread, channel))),
            orders,
            unheard: Mutex::new(Some(unheard)),
            latency: Mutex::default(),
            warnings: Vec::new(),
        };
        store.ping().await?;
        let warnings = store.inspect().await?;
        Ok(Self { warnings, ..store })
    }

    /// Refuses servers that are too old, and finds what an operator should change.
    async fn inspect(&self) -> Result<Vec<Warning>, Error> {
        let mut warnings = Vec::new();
        for address in self.nodes.all().await? {
            if let Some(version) = field(&self.info(&address, "server").await?, "redis_version")
                && is_older(version)
            {
                let (major, minor) = VERSION_MIN;
                return Err(Error::Refused(format!("the server has version {version}; it needs {major}.{minor}")));
            }
            match field(&self.info(&address, "memory").await?, "maxmemory_policy") {
                None | Some("noeviction") => {}
                Some(policy) => warnings.push(Warning::Evicts { policy: policy.to_owned() }),
            }
        }
        warnings.dedup();
        Ok(warnings)
    }

    async fn info(&self, address: &Address, section: &str) -> Result<String, Error> {
        let mut ask = cmd("INFO");
        ask.arg(section);
        match self.nodes.ask_at(address, ask).await {
            // Some who run servers for others hide it.
            Err(Error::Refused(_)) => Ok(String::new()),
            other => read(other?),
        }
    }

    fn name(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }

    async fn hear(&self, channel: &Key) -> Result<Subscription, Error> {
        // Before the server is asked, so that nothing is lost in between.
        let subscription = self.hub.subscribe(channel);
        let unheard = self.unheard.lock().take();
        if let Some(orders) = unheard {
            let (nodes, prefix) = (self.nodes.clone(), self.prefix.clone());
            let hub = Arc::downgrade(&self.hub);
            let pump = Pump { nodes, hub, orders, prefix, timeout: self.timeout, heard: HashSet::new() };
            if let Err((error, orders)) = pump.start() {
                // The next one tries it again.
                *self.unheard.lock() = orders;
                return Err(error);
            }
        }
        let (answer, answered) = oneshot::channel();
        let order = Order::Subscribe(channel.clone(), answer);
        let asked = async { if self.orders.send(order).await.is_ok() { answered.await.ok() } else { None } };
        match tokio::time::timeout(self.timeout, asked).await {
            Err(_) | Ok(None) => Err(Error::Timeout(self.timeout)),
            Ok(Some(done)) => done.map(|()| subscription),
        }
    }
}

impl Store for Valkey {
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Option<Bytes>> {
        let get = async move {
            let mut ask = cmd("GET");
            ask.arg(self.name(key));
            match self.nodes.ask(key, Twice::Harmless, Ask::Command(ask)).await {
                Err(Error::Refused(why)) if why.contains("WRONGTYPE") => Err(plan::stream(key)),
                other => Ok(read::<Option<Vec<u8>>>(other?)?.map(Bytes::from)),
            }
        };
        get.boxed()
    }

    fn apply(&self, batch: Batch) -> Pending<'_, Applied> {
        let apply = async move {
            batch.check(&self.limits)?;
            let call = Call::new(batch, &self.prefix);
            let Some(key) = call.key() else { return Ok(Applied::Done(Vec::new())) };
            call.read(self.nodes.ask(key, Twice::Harmful, call.ask()).await?)
        };
        apply.boxed()
    }

    fn range<'a>(&'a self, key: &'a Key, after: u64, limit: usize) -> Pending<'a, Vec<(u64, Bytes)>> {
        let range = async move {
            // The kind of the key is looked at in any case.
            let count = u64::try_from(limit).unwrap_or(NUMBER_MAX).clamp(1, NUMBER_MAX);
            let first = after.min(NUMBER_MAX) + 1;
            let mut ask = cmd("XRANGE");
            ask.arg(self.name(key)).arg(format!("{first}-0")).arg("+").arg("COUNT").arg(count);
            let entries: Vec<(String, Vec<Vec<u8>>)> =
                match self.nodes.ask(key, Twice::Harmless, Ask::Command(ask)).await {
                    Err(Error::Refused(why)) if why.contains("WRONGTYPE") => return Err(plan::not_a_stream(key)),
                    other => read(other?)?,
                };
            entries.into_iter().take(limit).map(entry).collect()
        };
        range.boxed()
    }

    fn scan(&self, prefix: &str) -> Scan {
        let pattern = format!("{}*", escaped(&format!("{}{prefix}", self.prefix)));
        let page = Page { nodes: self.nodes.clone(), pattern, prefix: self.prefix.clone(), left: None, cursor: 0 };
        stream::try_unfold(page, Page::next).map_ok(|keys| stream::iter(keys.into_iter().map(Ok))).try_flatten().boxed()
    }

    fn publish<'a>(&'a self, channel: &'a Key, message: Bytes) -> Pending<'a, ()> {
        if let Err(error) = within(message.len(), MESSAGE_BYTES_MAX) {
            return future::ready(Err(error)).boxed();
        }
        let publish = async move {
            let mut ask = cmd("PUBLISH");
            ask.arg(self.name(channel)).arg(&*message);
            self.nodes.ask(channel, Twice::Harmful, Ask::Command(ask)).await.map(drop)
        };
        publish.boxed()
    }

    fn subscribe<'a>(&'a self, channel: &'a Key) -> Pending<'a, Subscription> {
        self.hear(channel).boxed()
    }

    fn ping(&self) -> Pending<'_, ()> {
        let ping = async {
            let begun = Instant::now();
            for address in self.nodes.all().await? {
                self.nodes.ask_at(&address, cmd("PING")).await?;
            }
            *self.latency.lock() = Some(begun.elapsed());
            Ok(())
        };
        ping.boxed()
    }

    fn time(&self) -> Pending<'_, Option<SystemTime>> {
        let time = async {
            // Of several servers always the same one, whose clock is then everybody's.
            let answer = self.nodes.ask(&Key::parse("clock")?, Twice::Harmless, Ask::Command(cmd("TIME"))).await?;
            let (seconds, micros): (u64, u64) = read(answer)?;
            Ok(Some(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(micros)))
        };
        time.boxed()
    }

    fn facts(&self) -> Facts {
        let kind = if self.nodes.is_cluster() { Kind::Cluster } else { Kind::Valkey };
        let (away_since, last_error) = self.nodes.trouble();
        let (latency, warnings) = (*self.latency.lock(), self.warnings.clone());
        Facts { away_since, last_error, latency, warnings, lives: self.nodes.lives(), ..Facts::well(kind) }
    }
}

impl std::fmt::Debug for Valkey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Valkey").field("facts", &self.facts()).finish_non_exhaustive()
    }
}

/// Where a scan is.
struct Page {
    nodes: Arc<Nodes>,
    pattern: String,
    prefix: String,
    /// The servers that are left, the present one last; `None` before the first one.
    left: Option<Vec<Address>>,
    cursor: u64,
}

impl Page {
    async fn next(mut self) -> Result<Option<(Vec<Key>, Self)>, Error> {
        if self.left.is_none() {
            self.left = Some(self.nodes.all().await?);
        }
        let Some(address) = self.left.as_ref().and_then(|left| left.last().cloned()) else { return Ok(None) };
        let mut ask = cmd("SCAN");
        ask.arg(self.cursor).arg("MATCH").arg(&self.pattern).arg("COUNT").arg(SCAN_COUNT);
        let (cursor, names): (u64, Vec<Vec<u8>>) = read(self.nodes.ask_at(&address, ask).await?)?;
        self.cursor = cursor;
        if cursor == 0
            && let Some(left) = &mut self.left
        {
            left.pop();
        }
        let keys = names.iter().filter_map(|name| std::str::from_utf8(name).ok()?.strip_prefix(&self.prefix));
        let keys = keys.filter_map(Key::read).collect();
        Ok(Some((keys, self)))
    }
}

fn read<T: FromRedisValue>(answer: Value) -> Result<T, Error> {
    redis::from_redis_value(answer).map_err(|_| Error::WrongShape("the server answered with something else"))
}

/// An entry of a stream as the server tells it: its id, and one field with the bytes.
fn entry((id, fields): (String, Vec<Vec<u8>>)) -> Result<(u64, Bytes), Error> {
    const WRONG: Error = Error::WrongShape("the stream holds what this program did not write");
    let seq = id.split_once('-').and_then(|(seq, _)| seq.parse().ok()).ok_or(WRONG)?;
    // One of another shape is somebody else's: it is empty, so that it does not stand in the way of the others.
    let entry = <[Vec<u8>; 2]>::try_from(fields).map_or_else(|_| Bytes::new(), |[_, entry]| entry.into());
    Ok((seq, entry))
}

/// What has a meaning in a pattern stands for itself.
fn escaped(text: &str) -> String {
    let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '^' | '\\');
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// A line `name:value` of `INFO`.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn is_older(version: &str) -> bool {
    let mut parts = version.split('.').map_while(|part| part.parse().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => (major, minor) < VERSION_MIN,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_before_6_2_are_too_old() {
        for (version, old) in
            [("6.2.0", false), ("7.0.15", false), ("10.1", false), ("6.0.16", true), ("5.0", true), ("?", false)]
        {
            assert_eq!(is_older(version), old, "version {version}");
        }
        assert_eq!(field("a:1\r\nredis_version:7.2.4\r\n", "redis_version"), Some("7.2.4"));
    }

    #[test]
    fn patterns_match_their_text_only() {
        assert_eq!(escaped("a*b?[c]\\^-"), "a\\*b\\?\\[c\\]\\\\\\^-");
    }
}

//! Several who wait in one session while the process that serves them is stopped and the next one begins.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use lb_peers::raw::http::Headers;
use lb_peers::tools::Reply;
use serde_json::{Value, json};

use crate::world::{End, Keep, STRICT, World, exchange, headers_of, one};

const READERS: usize = 8;
/// How many notifications one call makes: with a call at a time, fewer than are kept for those who did not read.
const BURST: u64 = 20;

/// Everything that anybody of one session was told.
struct Table {
    address: std::net::SocketAddr,
    headers: Headers,
    ids: Cell<u64>,
    told: RefCell<Vec<Value>>,
}

impl Table {
    /// A result, or `None` for whatever a stop makes of it.
    async fn call(&self, tool: &str, arguments: Value) -> Option<Reply> {
        let id = self.ids.get();
        self.ids.set(id + 1);
        let params = json!({ "name": tool, "arguments": arguments });
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let reply = exchange(self.address, &self.headers, id, &request).await.ok().flatten()?;
        self.note(&reply);
        (reply.status == 200 && reply.rpc_error().is_none() && !reply.is_error()).then_some(reply)
    }

    fn note(&self, reply: &Reply) {
        let mut told = self.told.borrow_mut();
        told.extend(reply.events());
        let context = reply.context().unwrap_or_default();
        let rows = context["notifications"].as_array().cloned().unwrap_or_default();
        told.extend(rows.into_iter().map(|row| json!({ "type": "notification", "data": row })));
    }

    /// Waits for activity again and again, until it is not answered.
    async fn read(&self) {
        while self.call("await_activity", json!({ "timeout_ms": 1_000 })).await.is_some() {}
    }

    /// Makes activity again and again, until it is not answered; gives the first number that was not acknowledged.
    async fn write(&self, mut from: u64) -> u64 {
        loop {
            let args = json!({ "server": "one", "tool": "burst", "args": { "from": from, "count": BURST } });
            if self.call("execute_tool", args).await.is_none() {
                return from;
            }
            from += BURST;
        }
    }
}

async fn readers_share_events(keep: Keep) {
    let mut world = World::start(keep, one(), STRICT).await;
    let desk = world.desk().await;
    let headers = headers_of(&desk.client.session_id().expect("a session"));
    let (ids, told) = (Cell::new(1_000), RefCell::default());
    let table = Table { address: world.address(), headers, ids, told };
    let (mut from, mut acknowledged) = (0, Vec::new());
    for ms in [400, 150, 700] {
        let readers = join_all((0..READERS).map(|_| table.read()));
        let stop = async {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            world.end(End::Stop).await;
        };
        let (_, until, ()) = tokio::join!(readers, table.write(from), stop);
        acknowledged.extend(from..until);
        // What the last call made is not known.
        from = until + BURST;
        world.begin().await;
    }
    while let Some(reply) = table.call("await_activity", json!({ "timeout_ms": 200 })).await {
        if reply.json()["events"].as_array().is_none_or(Vec::is_empty) {
            break;
        }
    }
    let told = table.told.into_inner();
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for number in told.iter().filter_map(|event| event["data"]["params"]["n"].as_u64()) {
        *times.entry(number).or_default() += 1;
    }
    assert!(100 < acknowledged.len(), "something happened: {}", acknowledged.len());
    let missing: Vec<_> = acknowledged.iter().filter(|number| !times.contains_key(number)).collect();
    assert!(missing.is_empty(), "nobody was told of {missing:?} of {}", acknowledged.len());
    let twice: Vec<_> = times.iter().filter(|(_, times)| 1 < **times).collect();
    assert!(twice.is_empty(), "told twice: {twice:?}");
    let dropped: Vec<_> = told.iter().filter(|event| event["type"] == "events_dropped").collect();
    assert!(dropped.is_empty(), "nothing is lost by a stop: {dropped:?}");
}

#[tokio::test]
async fn every_event_comes_to_one_of_many_readers_once_over_stops_on_disk() {
    readers_share_events(Keep::Disk).await;
}

#[tokio::test]
async fn every_event_comes_to_one_of_many_readers_once_over_stops_on_valkey() {
    readers_share_events(Keep::Valkey).await;
}

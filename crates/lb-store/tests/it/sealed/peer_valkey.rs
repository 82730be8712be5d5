//! Another user of the same server writes into our keys.

use std::sync::Arc;

use lb_peers::valkey::Program;
use lb_store::{Limits, Store};

use super::keys;
use crate::servers::Server;
use crate::suite::{self, Fixture, LONG, key, limits};

struct SealedValkey(Server);

impl Fixture for SealedValkey {
    const SEALED: bool = true;

    async fn start(limits: Limits) -> Self {
        let mut server = Server::start(Program::Valkey, limits);
        server.settings.seal = Some(keys(&[1]));
        Self(server)
    }

    async fn store(&self) -> Arc<dyn Store> {
        self.0.store().await
    }

    async fn finish(self) {
        self.0.finish();
    }
}

suite::conformance!(SealedValkey, 5);

impl SealedValkey {
    /// What somebody does who knows the server and not the key.
    fn evil(&self, script: &str, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| format!("landbridge:{name}")).collect();
        let count = names.len().to_string();
        let mut words = vec!["EVAL", script, &count];
        words.extend(names.iter().map(String::as_str));
        let answer = self.0.valkey.command(&words);
        assert!(!answer.starts_with('-'), "{answer}");
    }
}

const FLIP: &str = "local v = redis.call('GET', KEYS[1]) local at = math.floor(#v / 2) \
    local b = string.byte(v, at) if b >= 128 then b = b - 128 else b = b + 128 end \
    return redis.call('SET', KEYS[1], string.sub(v, 1, at - 1) .. string.char(b) .. string.sub(v, at + 1), 'KEEPTTL')";
const SWAP: &str = "local a, b = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]) \
    redis.call('SET', KEYS[1], b, 'KEEPTTL') return redis.call('SET', KEYS[2], a, 'KEEPTTL')";
const COPY: &str = "return redis.call('SET', KEYS[2], redis.call('GET', KEYS[1]), 'PX', 60000)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_a_swap_and_a_foreign_record_are_refused_and_the_rest_goes_on() {
    let fixture = SealedValkey::start(limits()).await;
    let store = fixture.store().await;
    let names = ["session:{a}:head", "session:{b}:head", "session:{c}:head", "session:{d}:head"];
    for name in names {
        store.set(&key(name), format!("of {name}"), LONG).await.unwrap();
    }
    fixture.evil(FLIP, &names[..1]);
    fixture.evil(SWAP, &names[1..3]);
    for (count, name) in (1..).zip(&names[..3]) {
        assert_eq!(store.get(&key(name)).await.unwrap(), None, "{name}");
        assert_eq!(store.facts().refused, count);
    }
    assert_eq!(store.get(&key(names[3])).await.unwrap(), Some("of session:{d}:head".into()));

    // A session of another one's making: plain, sealed with another key, and copied from a good one.
    let foreign = ["session:{e}:head", "session:{f}:head", "session:{g}:head"];
    fixture
        .evil(r#"return redis.call('SET', KEYS[1], '{"version":"1","principal":"root"}', 'PX', 60000)"#, &foreign[..1]);
    let mut others = fixture.0.settings.clone();
    others.seal = Some(keys(&[9]));
    lb_store::open(&others).await.unwrap().set(&key(foreign[1]), "theirs", LONG).await.unwrap();
    fixture.evil(COPY, &[names[3], foreign[2]]);
    for name in foreign {
        assert_eq!(store.get(&key(name)).await.unwrap(), None, "{name}");
        assert_eq!(store.take(&key(name)).await.unwrap(), None, "{name}");
    }
    assert_eq!(store.facts().refused, 9);
    // What was damaged can be written anew, by those also who first look whether it is there.
    assert!(store.set_if_absent(&key(names[0]), "again", LONG).await.unwrap());
    assert_eq!(store.get(&key(names[0])).await.unwrap(), Some("again".into()));
    store.ping().await.unwrap();
    fixture.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_somebody_else_has_put_into_a_stream_are_left_out() {
    let fixture = SealedValkey::start(limits()).await;
    let store = fixture.store().await;
    let (mine, other) = ("session:{a}:events", "session:{b}:events");
    for name in [mine, other] {
        for seq in [1, 2, 5] {
            store.append(&key(name), seq, format!("{seq} of {name}"), 99, LONG).await.unwrap();
        }
    }
    let evil = "local e = redis.call('XRANGE', KEYS[2], '5-0', '5-0')[1][2] \
        local own = redis.call('XRANGE', KEYS[1], '1-0', '1-0')[1][2] \
        redis.call('XADD', KEYS[1], '6-0', e[1], e[2]) redis.call('XADD', KEYS[1], '7-0', own[1], own[2]) \
        redis.call('XADD', KEYS[1], '8-0', 'e', '{}') redis.call('XADD', KEYS[1], '9-0', 'x', '1', 'y', '2') return 1";
    fixture.evil(evil, &[mine, other]);
    store.append(&key(mine), 10, "10", 99, LONG).await.unwrap();
    let positions = |page: Vec<(u64, bytes::Bytes)>| page.into_iter().map(|(seq, _)| seq).collect::<Vec<_>>();
    assert_eq!(positions(store.range(&key(mine), 0, 99).await.unwrap()), [1, 2, 5, 10]);
    assert_eq!(store.facts().refused, 4);
    // A page is full in spite of them.
    assert_eq!(positions(store.range(&key(mine), 2, 2).await.unwrap()), [5, 10]);
    assert_eq!(store.range(&key(mine), 2, 0).await.unwrap(), []);
    fixture.finish().await;
}

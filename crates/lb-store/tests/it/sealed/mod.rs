//! Stores that are sealed, and what those who write to the server without the key can do to them.

mod peer_valkey;

use std::sync::Arc;
use std::time::Duration;

use lb_store::{Applied, Batch, Limits, Refusal, SealKeys, Settings, Store};

use crate::suite::{self, Fixture, LONG, key};

/// Keys from secrets of one repeated byte each.
fn keys(secrets: &[u8]) -> SealKeys {
    let secrets: Vec<_> = secrets.iter().map(|byte| [*byte; 32]).collect();
    SealKeys::new(&secrets).unwrap()
}

struct Sealed(Arc<dyn Store>);

impl Fixture for Sealed {
    const SEALED: bool = true;

    async fn start(limits: Limits) -> Self {
        let settings = Settings { limits, seal: Some(keys(&[1])), ..Settings::parse("memory").unwrap() };
        Self(lb_store::open(&settings).await.unwrap())
    }

    async fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    async fn finish(self) {}
}

suite::conformance!(Sealed, 300);

#[tokio::test]
async fn a_file_is_sealed_too_and_opens_with_either_key_of_a_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let open = |secrets: &'static [u8]| {
        let settings = Settings::parse(&format!("disk:{}", folder.path().display())).unwrap();
        async move { lb_store::open(&Settings { seal: Some(keys(secrets)), ..settings }).await.unwrap() }
    };
    let (owner, log) = (key("{s}owner"), key("{s}log"));
    let old = open(&[1]).await;
    old.set(&owner, "1 me", LONG).await.unwrap();
    old.append(&log, 1, "a secret of somebody", 9, LONG).await.unwrap();
    drop(old);
    let file = std::fs::read(folder.path().join("state.redb")).unwrap();
    assert!(!file.windows(8).any(|part| part == b"a secret"), "it can be read");

    let both = open(&[2, 1]).await;
    assert_eq!(both.range(&log, 0, 9).await.unwrap(), [(1, "a secret of somebody".into())]);
    // A guard holds for what the older key has sealed, and what is written is sealed with the newer one.
    let write = || Batch::new().when(&owner, Some("1 me".into())).append(&log, 2, "more", 9, LONG);
    assert!(matches!(both.apply(write()).await.unwrap(), Applied::Done(_)));
    assert!(both.compare_and_set(&owner, Some("1 me".into()), "2 me", LONG).await.unwrap());
    assert_eq!(both.apply(write()).await.unwrap(), Applied::Refused(Refusal::Guard(0)));
    assert_eq!(both.facts().refused, 0);
    drop(both);
    let new = open(&[2]).await;
    assert_eq!(new.get(&owner).await.unwrap(), Some("2 me".into()));
    assert_eq!(new.range(&log, 0, 9).await.unwrap(), [(2, "more".into())], "and not what only the older one opens");
    assert_eq!(new.facts().refused, 1);
}

#[tokio::test]
async fn what_another_key_has_sealed_counts_as_absent_and_may_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let open = |secrets: &'static [u8]| {
        let settings = Settings::parse(&format!("disk:{}", folder.path().display())).unwrap();
        async move { lb_store::open(&Settings { seal: Some(keys(secrets)), ..settings }).await.unwrap() }
    };
    let (k, n, c) = (key("{t}k"), key("{t}n"), key("{t}c"));
    let theirs = open(&[1]).await;
    theirs.set(&k, "theirs", LONG).await.unwrap();
    theirs.add(&n, 3, LONG).await.unwrap();
    theirs.claim(&c, "them", LONG).await.unwrap();
    drop(theirs);
    let ours = open(&[2]).await;
    assert_eq!(ours.get(&k).await.unwrap(), None);
    assert_eq!(ours.take(&key("{t}x")).await.unwrap(), None);
    // What the store counts and who holds what is nobody's secret, and is never in the way.
    for there in [&n, &c] {
        assert!(!ours.set_if_absent(there, "ours", Duration::from_secs(1)).await.unwrap(), "{there}");
    }
    assert!(ours.set_if_absent(&k, "ours", LONG).await.unwrap());
    assert!(!ours.set_if_absent(&k, "again", LONG).await.unwrap());
    assert_eq!(ours.get(&k).await.unwrap(), Some("ours".into()));
    assert_eq!(ours.add(&n, 1, LONG).await.unwrap(), 4);
}

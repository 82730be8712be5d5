//! What is kept: as bytes, for whom, and when it counts as another.

use std::sync::Arc;

use lb_exchange::{Caller, Capabilities, Feed, Principal};
use lb_wire::Raw;
use lb_wire::revision::{Era, Revision};

use super::read::merged;
use super::snapshot::{list_of, read_all, write_all};
use super::{Cache, Class, Slot, Snapshot};
use crate::listen::Ear;
use crate::live::Listing;

const WELCOME: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"prompts":{}}}"#;

fn class(revision: Revision, capabilities: &'static str) -> Class {
    Class { revision, capabilities: Raw::from_static(capabilities), ours: false, principal: None }
}

fn snapshot(tools: &'static str) -> Snapshot {
    let mut snapshot = Snapshot::new(Era::Legacy, &Raw::from_static(WELCOME));
    for which in Listing::ALL {
        snapshot.put(which, list_of(which, &[]));
    }
    snapshot.put(Listing::Tools, Raw::from_static(tools));
    snapshot.checked();
    snapshot
}

fn cache() -> Cache {
    let (shelf, tasks, slots, saving, listens, apart) = Default::default();
    Cache { shelf, key: String::new(), tasks, slots, saving, listens, apart }
}

#[test]
fn pages_become_one_list_with_every_other_member_as_it_was() {
    for (pages, want) in [
        (&[r#"{ "tools" : [ {"name":"a"} ], "x":1.0 }"#][..], r#"{ "tools" : [ {"name":"a"} ], "x":1.0 }"#),
        (
            &[
                r#"{"_meta":{"a":1.0},"tools":[{"n":1.0}, 2],"nextCursor":"1"}"#,
                r#"{"tools":[],"nextCursor":"2"}"#,
                r#"{"tools":[3],"_meta":{}}"#,
            ],
            r#"{"_meta":{"a":1.0},"tools":[{"n":1.0},2,3]}"#,
        ),
        (&[r#"{"tools":[1],"nextCursor":null}"#], r#"{"tools":[1]}"#),
        (&[], r#"{"tools":[]}"#),
    ] {
        let pages: Vec<Raw> = pages.iter().map(|page| Raw::from_static(page)).collect();
        assert_eq!(merged(Listing::Tools, &pages).as_str(), want);
    }
}

#[test]
fn what_is_written_is_read_again_byte_for_byte() {
    let tools = r#"{ "tools":[{"name":"\u00e4","n":1.0}],"_meta":{} }"#;
    let (class, kept) = (class(Revision::V2025_06_18, r#"{"roots": {}}"#), snapshot(tools));
    let bytes = write_all(&[(&class, kept.clone())]);
    let [(read_class, read)] = read_all(bytes.clone()).expect("it can be read").try_into().expect("one");
    assert_eq!(read_class, class);
    assert_eq!((read.era(), read.welcome()), (Era::Legacy, kept.welcome()));
    assert_eq!(read.list(Listing::Tools).map(Raw::as_str), Some(tools));
    assert!(read.is_whole() && read.age().as_secs() < 60);
    for end in 0..bytes.len() {
        assert!(read_all(bytes[..end].to_vec()).is_none(), "half of it is none: {end}");
    }
    let text = String::from_utf8(bytes).expect("text");
    for (from, to) in [("\"format\":1", "\"format\":2"), ("\"kept\":", "\"lept\":")] {
        assert!(read_all(text.replacen(from, to, 1).into_bytes()).is_none(), "{to}");
    }
    for (from, to) in
        [("2025-06-18", "2025-06-19"), ("legacy", "future"), ("\"resourceTemplates\":{", "\"templates\":{")]
    {
        let read = read_all(text.replacen(from, to, 1).into_bytes()).expect("a file of ours");
        assert!(read.is_empty(), "{to}: a row that means nothing is left out");
    }
}

#[test]
fn a_list_that_could_not_be_read_is_empty_until_it_can_be_and_never_replaces_one() {
    let mut fresh = Snapshot::new(Era::Legacy, &Raw::from_static(WELCOME));
    for which in Listing::ALL {
        fresh.failed(which);
    }
    assert_eq!(fresh.list(Listing::Templates).map(Raw::as_str), Some(r#"{"resourceTemplates":[]}"#));
    assert!(!fresh.is_whole());
    for which in Listing::ALL {
        fresh.put(which, list_of(which, &[]));
    }
    assert!(fresh.is_whole());
    let mut kept = snapshot(r#"{"tools":[1]}"#);
    kept.failed(Listing::Tools);
    assert_eq!(kept.list(Listing::Tools).map(Raw::as_str), Some(r#"{"tools":[1]}"#));
    assert!(kept.is_whole());
}

#[test]
fn clients_that_declare_the_same_are_told_the_same_until_the_server_says_otherwise() {
    let cache = cache();
    let slot = cache.slot(&class(Revision::V2025_06_18, "{}"));
    *slot.snapshot.lock() = Some(snapshot(r#"{"tools":[1]}"#));
    let known = |class: Class| cache.slot(&class).snapshot().is_some();
    assert!(known(class(Revision::V2024_11_05, "{}")), "another legacy revision is a good guess");
    assert!(!known(class(Revision::V2026_07_28, "{}")), "another era is not");
    assert!(!known(class(Revision::V2025_06_18, r#"{"sampling":{}}"#)), "nor is one that can do more");
    assert!(!known(Class::ours()));
    for n in 0..20 {
        let capabilities = Raw::value(&serde_json::json!({ "n": n }));
        cache.slot(&Class { capabilities, ..class(Revision::V2025_06_18, "{}") });
    }
    assert!(cache.slots.lock().len() <= super::SLOTS_MAX, "clients cannot fill the memory");
}

#[test]
fn only_a_change_that_is_one_and_was_announced_is_told() {
    let slot = Slot::new(class(Revision::V2025_06_18, "{}"), Some(snapshot(r#"{"tools":[1]}"#)));
    let ear = Arc::new(Ear::new(Feed::default()));
    slot.tell(&ear);
    let told = |which, list: &'static str| {
        slot.put(which, Raw::from_static(list));
        ear.feed().drain().len()
    };
    assert_eq!(told(Listing::Tools, r#"{"tools":[1]}"#), 0, "the same");
    assert_eq!(told(Listing::Tools, r#"{"tools":[2]}"#), 1);
    assert_eq!(told(Listing::Tools, r#"{"tools":[2]}"#), 0);
    assert_eq!(told(Listing::Prompts, r#"{"prompts":[2]}"#), 0, "the server never said that it tells");
}

#[test]
fn where_each_principal_logs_in_nobody_is_told_what_another_is() {
    let mut cache = cache();
    cache.apart = true;
    let [ada, bob] = ["ada", "bob"].map(Principal::named);
    let caller = |who: &Principal| Caller {
        principal: who.clone(),
        client: None,
        family: None,
        revision: Revision::V2025_06_18,
        capabilities: Capabilities::none(),
        client_info: None,
    };
    let (own, ours) = (cache.class_of(&caller(&ada)), cache.ours(&ada));
    for class in [&own, &ours] {
        *cache.slot(class).snapshot.lock() = Some(snapshot(r#"{"tools":[{"name":"of ada"}]}"#));
    }
    assert!(cache.slot(&cache.class_of(&caller(&bob))).snapshot().is_none(), "not even as a guess");
    assert!(cache.slot(&cache.ours(&bob)).snapshot().is_none());
    assert!(cache.slot(&cache.class_of(&caller(&ada))).snapshot().is_some());
    let known: Vec<_> = cache.known().into_iter().map(|(whose, known)| (whose, known.count(Listing::Tools))).collect();
    assert_eq!(known, [(Some(ada), 1)]);
    // The same over a restart.
    let kept = cache.slot(&own).snapshot().expect("kept");
    let [(read, _)] = read_all(write_all(&[(&own, kept)])).expect("it can be read").try_into().expect("one");
    assert_eq!(read, own);
}

use std::time::Duration;

use lb_backend::{Children, Environment};
use lb_exchange::{Principal, Secret, ServerSpec, Tasks};
use lb_store::Settings;

use super::*;
use crate::gateway::{Gateway, Setup};
use crate::live::Policy;
use crate::nodes::{About, Membership};
use crate::{Change, Keeping};

fn process(store: &Arc<dyn Store>, is_shared: bool, policy: Policy) -> Gateway {
    let environment = Environment {
        supervisor: "no-children-here".into(),
        embedded: Arc::default(),
        tasks: Tasks::default(),
        children: Children::new(0),
        logins: None,
        names: lb_backend::Names::default(),
    };
    let keeping = Keeping {
        store: store.clone(),
        nodes: Membership::alone(store.clone(), About::new(Some("local"), None, "1")).expect("a name"),
        gather: Duration::from_millis(1),
        ttl: Duration::from_secs(60),
        shared: is_shared,
        wait_for_streams: false,
    };
    let setup = Setup { keeping: Some(keeping), policy, ..Setup::default() };
    Gateway::new(Vec::new(), &environment, setup).expect("a gateway")
}

fn remote(name: &str, url: &str) -> ServerSpec {
    let target = Target::http(url, vec![("X-Key".to_owned(), Secret::new("s"))]).expect("a URL");
    ServerSpec::new(ServerName::parse(name).expect("a name"), target)
}

async fn add(gateway: &Gateway, spec: ServerSpec) {
    let change = gateway.shared().define(spec, Scope::Principal(Principal::local()), None).await;
    assert!(matches!(change, Change::Added | Change::Updated));
}

fn urls(gateway: &Gateway) -> Vec<String> {
    gateway.shared().registry().all().iter().map(|entry| entry.spec().target.address()).collect()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn memory() -> Arc<dyn Store> {
    lb_store::open(&Settings::parse("memory").expect("a store")).await.expect("a store")
}

/// What the store holds, removals left out.
async fn kept(store: &Arc<dyn Store>) -> usize {
    let mut count = 0;
    for key in store.scan(PREFIX).try_collect::<Vec<_>>().await.expect("an answer") {
        let value = store.get(&key).await.expect("an answer");
        count += usize::from(value.is_some_and(|value| value != GONE));
    }
    count
}

async fn until_kept(store: &Arc<dyn Store>, wanted: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while kept(store).await != wanted {
        assert!(Instant::now() < deadline, "it was not written");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_added_server_is_there_after_a_restart_and_a_removed_one_is_not() {
    let store = memory().await;
    let first = process(&store, false, Policy::default());
    add(&first, remote("a", "https://a.example/mcp")).await;
    add(&first, remote("b", "https://b.example/mcp")).await;
    first.shared().drop_server(&ServerName::parse("b").expect("a name"), |_| true).await;
    until_kept(&store, 1).await;
    let second = process(&store, false, Policy::default());
    until("it is not there", || urls(&second) == ["https://a.example/mcp"]).await;
    let entry = second.shared().registry().folded("a").expect("a server");
    assert_eq!(entry.scope, Scope::Principal(Principal::local()));
    assert!(matches!(&entry.spec().target, Target::Http { headers, .. } if headers[0].1.expose() == "s"));
}

#[tokio::test]
async fn nodes_learn_of_each_others_servers() {
    let store = memory().await;
    let (first, second) = (process(&store, true, Policy::default()), process(&store, true, Policy::default()));
    add(&first, remote("a", "https://a.example/mcp")).await;
    until("it was not told", || urls(&second) == ["https://a.example/mcp"]).await;
    add(&second, remote("a", "https://other.example/mcp")).await;
    until("the change was not told", || urls(&first) == ["https://other.example/mcp"]).await;
    first.shared().drop_server(&ServerName::parse("a").expect("a name"), |_| true).await;
    until("its end was not told", || urls(&second).is_empty()).await;
    assert_eq!(kept(&store).await, 0);
}

#[tokio::test]
async fn a_program_is_not_started_where_clients_may_not_start_any() {
    let store = memory().await;
    let first = process(&store, false, Policy { allow_spawn: true, ..Policy::default() });
    let (args, env, cwd, inherit_env) = (Vec::new(), Vec::new(), None, false);
    let target = Target::Child { command: "true".to_owned(), args, env, cwd, inherit_env };
    add(&first, ServerSpec::new(ServerName::parse("a").expect("a name"), target)).await;
    add(&first, remote("b", "https://b.example/mcp")).await;
    until_kept(&store, 2).await;
    let second = process(&store, false, Policy::default());
    until("the other is not there", || urls(&second) == ["https://b.example/mcp"]).await;
}

#[tokio::test]
async fn a_store_that_has_lost_everything_takes_no_server_away() {
    let store = memory().await;
    let first = process(&store, true, Policy::default());
    add(&first, remote("a", "https://a.example/mcp")).await;
    add(&first, remote("b", "https://b.example/mcp")).await;
    until_kept(&store, 2).await;
    for key in store.scan(PREFIX).try_collect::<Vec<_>>().await.expect("an answer") {
        store.delete(&key).await.expect("it goes");
    }
    store.publish(&Key::parse(CHANNEL).expect("a key"), "changed".into()).await.expect("it is told");
    until_kept(&store, 2).await;
    assert_eq!(urls(&first).len(), 2, "they are still served");
}

#[tokio::test]
async fn what_was_taken_up_is_not_written_back_over_a_newer_change() {
    let store = memory().await;
    let (first, second) = (process(&store, true, Policy::default()), process(&store, true, Policy::default()));
    add(&first, remote("a", "https://one.example/mcp")).await;
    until("it was not told", || urls(&second) == ["https://one.example/mcp"]).await;
    let added = second.shared().added_servers().expect("they are kept").clone();
    // As if it had just been taken up, and the registry's note came late.
    let key = Key::parse(&format!("{PREFIX}a")).expect("a key");
    let newer = store.get(&key).await.expect("an answer").expect("it is there");
    let newer = String::from_utf8(newer.to_vec()).expect("text").replace("one.example", "two.example");
    store.set(&key, newer.clone(), TTL).await.expect("written");
    added.mark(&ServerName::parse("a").expect("a name"));
    added.write(second.shared()).await.expect("nothing to write");
    assert_eq!(store.get(&key).await.expect("an answer"), Some(newer.into()), "the newer one stays");
}

#[tokio::test(start_paused = true)]
async fn a_server_is_kept_as_long_as_a_process_looks_after_it() {
    let store = memory().await;
    let added = AddedServers::new(store.clone(), false);
    added.put("a", "a value".into()).await.expect("written");
    added.put("b", GONE).await.expect("written");
    for _ in 0..40 {
        tokio::time::advance(EXTEND_EVERY).await;
        added.found().await.expect("an answer");
    }
    let found: Vec<_> = added.found().await.expect("an answer").into_keys().collect();
    assert_eq!(found, ["a"], "a removal is forgotten in time");
}

fn of(who: &str) -> Scope {
    Scope::Principal(Principal::named(who))
}

/// Whose server of this name a node has.
fn owner(gateway: &Gateway, name: &str) -> Option<Scope> {
    gateway.shared().registry().folded(name).map(|entry| entry.scope.clone())
}

/// Takes a name at a node and defines a server there, as whoever adds one does; whether it could be.
async fn adds(gateway: &Gateway, spec: ServerSpec, who: &str) -> bool {
    let Some(_claim) = gateway.shared().claim(&spec, &of(who), None).await else { return false };
    // Another node may be told of it before it is defined here.
    tokio::task::yield_now().await;
    gateway.shared().define(spec, of(who), None).await != Change::Refused
}

#[tokio::test]
async fn a_name_that_two_nodes_take_at_once_is_the_first_ones() {
    let store = memory().await;
    let (first, second) = (process(&store, true, Policy::default()), process(&store, true, Policy::default()));
    for round in 0..20 {
        let name = format!("n{round}");
        let (one, other) = tokio::join!(
            adds(&first, remote(&name, "https://one.example/mcp"), "u_1"),
            adds(&second, remote(&name, "https://two.example/mcp"), "u_2"),
        );
        assert!(one != other, "round {round}: {one} {other}");
        let winner = Some(of(if one { "u_1" } else { "u_2" }));
        until("both know whose it is", || owner(&first, &name) == winner && owner(&second, &name) == winner).await;
    }
    // Whoever has it may define it anew, at either node, and what was not defined after all is free again.
    let whose = if owner(&first, "n0") == Some(of("u_1")) { "u_1" } else { "u_2" };
    assert!(adds(&second, remote("n0", "https://new.example/mcp"), whose).await);
    drop(first.shared().claim(&remote("free", "https://one.example/mcp"), &of("u_1"), None).await.expect("free"));
    let free =
        async || second.shared().claim(&remote("free", "https://two.example/mcp"), &of("u_2"), None).await.is_some();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !free().await {
        assert!(Instant::now() < deadline, "it is free again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_was_defined_while_the_store_was_away_takes_no_name_from_another() {
    let store = memory().await;
    let first = process(&store, true, Policy::default());
    first.shared().define(remote("a", "https://one.example/mcp"), of("u_1"), None).await;
    until_kept(&store, 1).await;
    let written = |url: &str, who: &str| {
        Added { spec: remote("a", url), scope: of(who), by: None }.written().expect("it can be written")
    };
    // A node that knew nothing of it.
    let late = || AddedServers::new(store.clone(), true);
    for value in [written("https://two.example/mcp", "u_2"), GONE] {
        let Ok(Put::Taken(theirs)) = late().put("a", value).await else { panic!("it is taken") };
        assert_eq!(Added::read(theirs).map(|added| added.scope), Some(of("u_1")));
    }
    assert!(matches!(late().put("a", written("https://new.example/mcp", "u_1")).await, Ok(Put::Done)), "their own");
    // One that defined it meanwhile takes up what counts.
    let second = process(&store, true, Policy::default());
    second.shared().define(remote("a", "https://two.example/mcp"), of("u_2"), None).await;
    until("they do not agree", || owner(&first, "a") == owner(&second, "a") && owner(&first, "a").is_some()).await;
}

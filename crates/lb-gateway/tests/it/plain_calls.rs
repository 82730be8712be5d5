//! A plain call on a warm connection starts no task, and wants nothing of a store.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{Mount, ServerName, ServerSpec, Target, Tasks};
use lb_front::{Front, Settings};
use lb_gateway::{About, Gateway, Keeping, Membership, Setup};
use lb_store::Store;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::counted::Counted;
use crate::servers;

const CALLS: u64 = 200;

/// How long it is until what is to be written is written.
const GATHER: Duration = Duration::from_millis(5);

fn name(text: &str) -> ServerName {
    ServerName::parse(text).expect("a name")
}

/// Calls of both eras on servers of both kinds; gives how often the store was asked for something when there is one.
async fn calls_start_no_task(store: Option<Arc<Counted>>) {
    let _alone = crate::ALONE.lock().await;
    let mut serving = JoinSet::new();
    let url = servers::http(&mut serving).await;
    let tasks = Tasks::default();
    let specs = vec![
        ServerSpec::new(name("http"), Target::Http { url, headers: Vec::new() }),
        ServerSpec::new(name("pipe"), Target::Embedded("plain".into())),
    ];
    let keeping = match &store {
        Some(store) => Some(keeping(store, &tasks).await),
        None => None,
    };
    let setup = Setup { keeping, ..Setup::default() };
    let gateway = Gateway::new(specs, &servers::environment(&tasks), setup).expect("a gateway");
    let front = Front::new(Arc::new(gateway.clone()), Settings::default());
    for server in ["http", "pipe"] {
        for modern in [false, true] {
            let mut client = Client { front: front.clone(), mount: Mount::Server(name(server)), session: None };
            if !modern {
                client.seat().await;
            }
            // Warm: connected, greeted, and whatever the first call still has to learn or write down.
            client.call(1, modern).await;
            client.call(2, modern).await;
            let asked = settled(store.as_ref()).await;
            let before = Tasks::spawned();
            for id in 3..3 + CALLS {
                client.call(id, modern).await;
            }
            assert_eq!(Tasks::spawned() - before, 0, "{server}, modern: {modern}");
            assert_eq!(settled(store.as_ref()).await, asked, "{server}, modern: {modern}");
        }
    }
    assert!(0 < Tasks::spawned(), "the count counts");
    assert!(store.is_none_or(|store| 0 < store.asked()), "so does that of the store");
    gateway.close().await;
    assert!(tasks.close(Duration::from_secs(5)).await, "every task ends");
}

async fn keeping(store: &Arc<Counted>, tasks: &Tasks) -> Keeping {
    let store: Arc<dyn Store> = store.clone();
    let about = About { id: "n".into(), boot: "1".into(), url: None, version: "0".to_owned(), host: None };
    Keeping {
        store: store.clone(),
        nodes: Membership::join(store, about, tasks).await.expect("a store that answers"),
        gather: GATHER,
        ttl: Duration::from_secs(3_600),
        shared: false,
        wait_for_streams: false,
    }
}

/// How often the store was asked, once it has not been for some time.
async fn settled(store: Option<&Arc<Counted>>) -> usize {
    let Some(store) = store else { return 0 };
    loop {
        let asked = store.asked();
        tokio::time::sleep(GATHER * 40).await;
        if store.asked() == asked {
            return asked;
        }
    }
}

/// All in one test: the count is of the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_call_on_a_warm_connection_starts_no_task() {
    calls_start_no_task(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_call_on_a_warm_connection_wants_nothing_of_the_store_that_keeps_its_session() {
    calls_start_no_task(Some(Counted::new().await)).await;
}

//! A plain call on a warm connection starts no task.

use std::sync::Arc;

use lb_exchange::{Mount, ServerName, ServerSpec, Target, Tasks};
use lb_front::{Front, Settings};
use lb_gateway::{Gateway, Setup};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::servers;

const CALLS: u64 = 200;

/// All in one test: the count is of the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_call_on_a_warm_connection_starts_no_task() {
    let _alone = crate::ALONE.lock().await;
    let mut serving = JoinSet::new();
    let url = servers::http(&mut serving).await;
    let name = |text: &str| ServerName::parse(text).expect("a name");
    let tasks = Tasks::default();
    let specs = vec![
        ServerSpec::new(name("http"), Target::Http { url, headers: Vec::new() }),
        ServerSpec::new(name("pipe"), Target::Embedded("plain".into())),
    ];
    let gateway = Gateway::new(specs, &servers::environment(&tasks), Setup::default()).expect("a gateway");
    let front = Front::new(Arc::new(gateway.clone()), Settings::default());
    for server in ["http", "pipe"] {
        for modern in [false, true] {
            let mut client = Client { front: front.clone(), mount: Mount::Server(name(server)), session: None };
            if !modern {
                client.seat().await;
            }
            // Warm: connected, greeted, and whatever the first call still has to learn.
            client.call(1, modern).await;
            client.call(2, modern).await;
            let before = Tasks::spawned();
            for id in 3..3 + CALLS {
                client.call(id, modern).await;
            }
            assert_eq!(Tasks::spawned() - before, 0, "{server}, modern: {modern}");
        }
    }
    assert!(0 < Tasks::spawned(), "the count counts");
    gateway.close().await;
    assert!(tasks.close(std::time::Duration::from_secs(5)).await, "every task ends");
}

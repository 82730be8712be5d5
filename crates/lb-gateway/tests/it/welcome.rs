//! What a client is told of a server.

use std::sync::Arc;

use lb_exchange::{Mount, ServerName, ServerSpec, Target, Tasks};
use lb_front::{Front, Settings};
use lb_gateway::{Gateway, Setup};

use crate::client::Client;
use crate::servers;

/// The front keeps the client's revision, so the server's own must not reach the client. It did when the server wrote
/// the member's name with an escape.
#[tokio::test]
async fn the_version_of_the_server_is_replaced_however_it_spells_the_name() {
    let _alone = crate::ALONE.lock().await;
    let tasks = Tasks::default();
    for server in ["plain", "escaped"] {
        let name = ServerName::parse(server).expect("a name");
        let specs = vec![ServerSpec::new(name, Target::Embedded(server.into()))];
        let gateway = Gateway::new(specs, &servers::environment(&tasks), Setup::default()).expect("a gateway");
        let front = Front::new(Arc::new(gateway.clone()), Settings::default());
        let mut client = Client { front, mount: Mount::Default, session: None };
        let welcome = client.seat().await;
        assert_eq!(welcome["result"]["protocolVersion"], "2025-11-25", "{server}: {welcome}");
        gateway.close().await;
    }
    assert!(tasks.close(std::time::Duration::from_secs(5)).await, "every task ends");
}

//! A gateway with the tools at its default path, in front of scripted servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lb_backend::{Children, EmbeddedServers, Environment, Names};
use lb_exchange::{Logins, Restart, ServerAuth, ServerName, ServerSpec, Target, Tasks};
use lb_front::{Front, Settings};
use lb_gateway::{Gateway, Policy, Setup};
use lb_tools::Tools;

use crate::client::Client;
use crate::script::Script;

/// What a test looks at.
pub struct World {
    pub gateway: Gateway,
    pub front: Front,
    pub one: Script,
    pub two: Script,
}

/// How the gateway is set up.
pub struct Plan {
    pub setup: Setup,
    pub restart: Restart,
    /// Servers over HTTP: names and URLs.
    pub http: Vec<(&'static str, String)>,
    /// Who logs in at those.
    pub auth: ServerAuth,
    pub logins: Option<Arc<dyn Logins>>,
    /// What hosts are looked up with.
    pub names: Names,
    /// Only the server `one`.
    pub alone: bool,
}

impl Default for Plan {
    fn default() -> Self {
        let setup = Setup { tools: Some(Arc::new(Tools::default())), policy: Policy::default(), ..Setup::default() };
        let (http, auth, logins, names) = Default::default();
        Self { setup, restart: Restart::default(), http, auth, logins, names, alone: false }
    }
}

impl World {
    /// Two scripted servers, `one` and `two`, with every setting at its default.
    pub fn new() -> Self {
        Self::planned(Plan::default())
    }

    pub fn planned(plan: Plan) -> Self {
        let (one, two) = (Script::new(), Script::new());
        let mut embedded: EmbeddedServers = HashMap::new();
        for (name, script) in [("one", &one), ("two", &two)] {
            let script = script.clone();
            embedded.insert(name.to_owned(), Arc::new(move || script.connect()));
        }
        let environment = Environment {
            supervisor: "no-children-here".into(),
            embedded: Arc::new(embedded),
            tasks: Tasks::default(),
            children: Children::new(0),
            logins: plan.logins,
            names: plan.names,
        };
        let name = |text: &str| ServerName::parse(text).expect("a name");
        let mut specs = Vec::new();
        for server in ["one", "two"].into_iter().take(if plan.alone { 1 } else { 2 }) {
            let mut spec = ServerSpec::new(name(server), Target::Embedded(server.into()));
            spec.restart = plan.restart.clone();
            specs.push(spec);
        }
        for (server, url) in plan.http {
            let mut spec = ServerSpec::new(name(server), Target::Http { url, headers: Vec::new() });
            spec.auth = plan.auth.clone();
            specs.push(spec);
        }
        let gateway = Gateway::new(specs, &environment, plan.setup).expect("a gateway");
        let front = Front::new(Arc::new(gateway.clone()), Settings::default());
        Self { gateway, front, one, two }
    }

    /// A client whose servers are connected and whose events so far are read.
    pub async fn client(&self) -> Client {
        let client = Client::new(&self.front).await;
        let listed = client.call("list_tools", serde_json::json!({})).await;
        assert!(!listed.is_error(), "{listed:?}");
        client.events().await;
        client
    }
}

/// Lets time pass in small steps, so that what is due happens when it is due.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
    crate::client::settle().await;
}

pub const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

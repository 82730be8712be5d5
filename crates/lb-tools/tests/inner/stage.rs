//! A gateway with scripted servers, and a client of its tools surface.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lb_backend::{Children, EmbeddedServers, Environment};
use lb_exchange::{
    Answer, Call, Caller, Capabilities, End, Exchange, Hello, Middle, Mount, Outcome, Principal, Receipt, Seat,
    ServerName, ServerSpec, Step, Target, Tasks,
};
use lb_gateway::{Gateway, Policy, Setup};
use lb_tools::Tools;
use lb_wire::revision::{Era, Revision};
use lb_wire::{Message, Raw};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::server::{self, Seen};

/// One gateway, one client.
pub struct Stage {
    gateway: Gateway,
    caller: Arc<Caller>,
    seat: Option<Arc<dyn Seat>>,
    /// What the servers were sent.
    pub seen: Seen,
}

/// How a call ended.
pub struct Ended {
    pub result: Value,
    pub text: String,
    /// Progress that the client heard.
    pub notes: Vec<Value>,
    pub receipt: Option<Receipt>,
}

impl Stage {
    /// A client of this revision that declares this, with a server `s`.
    pub async fn new(revision: Revision, capabilities: &'static str) -> Self {
        Self::with(revision, capabilities, Policy::default()).await
    }

    pub async fn with(revision: Revision, capabilities: &'static str, policy: Policy) -> Self {
        let seen = Seen::default();
        let environment = Environment {
            supervisor: "no-children-here".into(),
            embedded: embedded(&seen),
            tasks: Tasks::default(),
            children: Children::new(0),
            logins: None,
            names: lb_backend::Names::default(),
        };
        let spec = ServerSpec::new(ServerName::parse("s").expect("a name"), Target::Embedded("scripted".into()));
        let setup = Setup { policy, tools: Some(Arc::new(Tools::default())), ..Setup::default() };
        let gateway = Gateway::new(vec![spec], &environment, setup).map_err(|(name, _)| name).expect("a gateway");
        let capabilities = Capabilities(Raw::from_static(capabilities));
        let caller = Caller {
            principal: Principal::local(),
            client: None,
            family: None,
            revision,
            capabilities,
            client_info: None,
        };
        let mut stage = Self { gateway, caller: Arc::new(caller.clone()), seat: None, seen };
        if revision.era() == Era::Legacy {
            let message = stage.message("initialize", json!({ "protocolVersion": revision.as_str() }));
            let welcome = stage.gateway.begin(Hello { caller, mount: Mount::Tools, message }).await;
            stage.seat = Some(welcome.map_err(|refusal| refusal.error.raw.as_str().to_owned()).expect("a seat").seat);
        }
        stage
    }

    fn message(&self, method: &str, params: Value) -> Message {
        let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        Message::scan(text.into()).expect("a message")
    }

    /// Opens any request.
    pub fn open(&self, method: &str, params: Value) -> Exchange {
        let message = self.message(method, params);
        let call = Call {
            caller: self.caller.clone(),
            mount: Mount::Tools,
            message,
            headers: None,
            trace: None,
            rights: None,
        };
        match &self.seat {
            Some(seat) => seat.clone().open(call),
            None => self.gateway.open(call),
        }
    }

    /// Opens a call of a tool of ours.
    pub fn tool(&self, name: &str, arguments: Value) -> Exchange {
        self.open("tools/call", json!({ "name": name, "arguments": arguments }))
    }

    /// Calls a tool of ours that asks nothing, and has the bytes of its answer.
    pub async fn call(&self, name: &str, arguments: Value) -> Ended {
        let mut ended = finish(self.tool(name, arguments), |_| panic!("nothing is asked")).await;
        if let Some(receipt) = ended.receipt.take() {
            receipt.commit();
        }
        ended
    }

    /// How often the servers were sent this method.
    pub fn sent(&self, method: &str) -> usize {
        self.seen.lock().expect("no panic holds it").iter().filter(|message| message["method"] == method).count()
    }

    /// The process is about to end.
    pub fn leave(&self) {
        self.gateway.leave();
    }

    pub async fn close(&self) {
        self.gateway.close().await;
    }
}

/// Drives a call to its end, answering what the client is asked.
pub async fn finish(mut exchange: Exchange, mut answer: impl FnMut(Value) -> Value) -> Ended {
    let mut notes = Vec::new();
    loop {
        match exchange.step().await {
            Step::Note(note) => notes.extend(note.params.map(|params| params.read().expect("JSON"))),
            Step::Ask(ask) => {
                let said = answer(ask.params.expect("params").read().expect("JSON"));
                exchange.remote().answer(ask.key, Answer::Result(Raw::value(&said)));
            }
            Step::Withdraw { .. } | Step::Pause { .. } => {}
            Step::End(end) => return ended(end, notes),
        }
    }
}

pub fn ended(end: End, notes: Vec<Value>) -> Ended {
    let (text, result) = match end.outcome {
        Outcome::Result(raw) => (raw.as_str().to_owned(), raw.read().expect("JSON")),
        Outcome::Error(error) => {
            (error.raw.as_str().to_owned(), json!({ "error": error.raw.read::<Value>().expect("JSON") }))
        }
        Outcome::Cancelled => (String::new(), json!("cancelled")),
    };
    Ended { result, text, notes, receipt: end.receipt }
}

impl Ended {
    /// The text of one block.
    pub fn block(&self, n: usize) -> &str {
        self.result["content"][n]["text"].as_str().unwrap_or_else(|| panic!("no block {n}: {}", self.text))
    }

    /// The JSON in one block.
    pub fn json(&self, n: usize) -> Value {
        serde_json::from_str(self.block(n)).unwrap_or_else(|_| panic!("block {n} is no JSON: {}", self.text))
    }

    /// The JSON of the last block.
    pub fn context(&self) -> Value {
        self.json(self.result["content"].as_array().expect("blocks").len() - 1)
    }

    pub fn code(&self) -> &str {
        self.result["structuredContent"]["error"]["code"].as_str().unwrap_or_default()
    }
}

fn embedded(seen: &Seen) -> Arc<EmbeddedServers> {
    let (tasks, seen) = (Arc::new(Mutex::new(JoinSet::new())), seen.clone());
    let maker = move || {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tasks.lock().expect("no panic holds it").spawn(server::serve(theirs, seen.clone()));
        ours
    };
    let mut all: EmbeddedServers = HashMap::new();
    all.insert("scripted".to_owned(), Arc::new(maker));
    Arc::new(all)
}

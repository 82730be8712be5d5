//! Every fault of `evil`, on either transport and in either era: what the caller is told, and what others notice.

use std::sync::Arc;
use std::time::Duration;

use lb_peers::evil::{Fault, Transport, payload};
use lb_peers::harness::{Gateway, HttpPeer};
use lb_peers::raw::handshake::Era;
use serde_json::{Map, Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::crowd::Crowd;
use crate::desk::{Answer, Client, LANDBRIDGE, child, evil, mark, with};
use crate::{procs, signals};

/// The deadline of servers whose fault lasts for ever.
const DEADLINE: Duration = Duration::from_millis(1500);
/// What the dead cost their callers at most.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Attempts to be that quick, on a machine that does other things too.
const ATTEMPTS: u32 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_of_legacy_clients() {
    stage(Transport::Stdio, Era::Legacy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_of_modern_clients() {
    stage(Transport::Stdio, Era::Modern).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_servers_of_legacy_clients() {
    stage(Transport::Http, Era::Legacy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_servers_of_modern_clients() {
    stage(Transport::Http, Era::Modern).await;
}

/// What a fault must lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// The answer, as if nothing had been.
    Intact,
    /// An error with this reason, at once.
    Error(&'static str),
    /// An error at the deadline.
    Deadline,
}

/// Faults of which a lot of bytes are the point have tests of their own; see `memory`.
const HEAVY: [Fault; 3] = [Fault::Flood, Fault::HugeLine, Fault::ProgressStorm];

fn want(fault: Fault, transport: Transport) -> Want {
    match (fault, transport) {
        (Fault::DieBeforeReply, _) | (Fault::CloseStdout, _) => Want::Error("backend_closed"),
        (Fault::HalfLine, Transport::Stdio) | (Fault::Hang, _) => Want::Deadline,
        (Fault::HalfLine, Transport::Http) => Want::Error("backend_closed"),
        (Fault::Garbage, Transport::Http) => Want::Error("no_answer"),
        _ => Want::Intact,
    }
}

/// Whether the fault takes the whole process, or its whole output, with it.
fn is_fatal(fault: Fault) -> bool {
    matches!(fault, Fault::DieBeforeReply | Fault::DieAfterReply | Fault::CloseStdout | Fault::HalfLine)
}

/// Plays all faults at the same time through one gateway.
async fn stage(transport: Transport, era: Era) {
    let faults: Vec<Fault> = Fault::ALL
        .into_iter()
        .filter(|fault| fault.transports().contains(&transport) && !HEAVY.contains(fault))
        .collect();
    let mark = mark(&format!("faults-{}-{era:?}", transport.name()));
    let mut servers = Map::new();
    servers.insert("other".to_owned(), child("hang", Era::Legacy, &mark));
    let mut peers = Vec::new();
    for fault in &faults {
        servers.insert(fault.name().to_owned(), entry(*fault, transport, &mark, &mut peers).await);
    }
    let mut gateway = Arc::new(Gateway::serve(LANDBRIDGE, Value::Object(servers)).await);
    let others = Crowd::gather(&gateway, &[("other", Era::Legacy), ("other", Era::Modern)]).await;
    let mut scenes = JoinSet::new();
    let ready = Arc::new(Barrier::new(faults.len()));
    for fault in faults {
        let scene = Scene { gateway: gateway.clone(), fault, transport, era };
        scenes.spawn(scene.play(ready.clone()));
    }
    while let Some(done) = scenes.join_next().await {
        done.expect("the scene is played");
    }
    others.leave().await;
    let pid = gateway.pid();
    procs::gone(Duration::from_secs(3), || procs::descendants(pid).into_iter().filter(|p| p.state == 'Z').collect())
        .await;
    let gateway = Arc::get_mut(&mut gateway).expect("all scenes are over");
    signals::stop(gateway, Duration::from_secs(15)).await;
    procs::gone(Duration::from_secs(1), || procs::marked(&mark)).await;
}

async fn entry(fault: Fault, transport: Transport, mark: &str, peers: &mut Vec<HttpPeer>) -> Value {
    let args = ["--fault", fault.name(), "--era", "dual"];
    let entry = match transport {
        Transport::Stdio => json!({ "command": evil(), "args": args, "env": { "EVIL_MARK": mark } }),
        Transport::Http => {
            peers.push(HttpPeer::start(&evil(), &args).await);
            json!({ "url": peers.last().expect("just added").url() })
        }
    };
    let entry = with(entry, &json!({ "restartConfig": { "baseDelayMs": 0 } }));
    match want(fault, transport) {
        Want::Deadline => with(entry, &json!({ "timeout_ms": DEADLINE.as_millis() as u64 })),
        Want::Intact | Want::Error(_) => entry,
    }
}

struct Scene {
    gateway: Arc<Gateway>,
    fault: Fault,
    transport: Transport,
    era: Era,
}

impl Scene {
    async fn play(self, ready: Arc<Barrier>) {
        let name = self.fault.name();
        let mut client = Client::open(&self.gateway, name, self.era).await;
        client.calm("before").await;
        let crowd = Crowd::gather(&self.gateway, &self.neighbours()).await;
        ready.wait().await;
        match want(self.fault, self.transport) {
            Want::Intact => self.intact(&mut client).await,
            Want::Error(reason) => self.error(&mut client, reason).await,
            Want::Deadline => self.deadline(&mut client).await,
        }
        if self.recovers() {
            client.calm("after").await;
        }
        crowd.leave().await;
        client.end().await;
    }

    /// Two more sessions on the same server. Where the fault kills what they would share with the caller, they are of
    /// the other kind, which has a child of its own; a dead HTTP server is dead for all.
    fn neighbours(&self) -> Vec<(&'static str, Era)> {
        let name = self.fault.name();
        match (self.transport, is_fatal(self.fault), self.fault) {
            (Transport::Http, _, Fault::DieBeforeReply | Fault::DieAfterReply) => {
                vec![("other", Era::Legacy), ("other", Era::Modern)]
            }
            (Transport::Stdio, true, _) => vec![(name, Era::Legacy), (name, Era::Legacy)],
            _ => vec![(name, Era::Legacy), (name, self.era)],
        }
    }

    /// Whether the same session can go on: a dead child is started again, a dead HTTP server is not ours to start.
    fn recovers(&self) -> bool {
        match (self.transport, self.fault) {
            (Transport::Http, Fault::DieBeforeReply | Fault::DieAfterReply) => false,
            // The child lives and will never end its line; or it may take the next request with it into its grave.
            (Transport::Stdio, Fault::HalfLine | Fault::DieAfterReply) => false,
            _ => true,
        }
    }

    async fn intact(&self, client: &mut Client) {
        match self.fault {
            Fault::ListChangedFirst => self.list_changed_first(client).await,
            Fault::SwappedIds => self.swapped_ids(client).await,
            Fault::WrongStream => self.wrong_stream(client).await,
            Fault::OddContent => {
                let answer = client.call("strike", json!({})).await;
                let want = payload::odd_result(self.era, self.transport);
                let want = if answer.streamed { want.replace(['\r', '\n'], " ") } else { want };
                assert_eq!(answer.result().as_deref(), Some(want.as_str()));
            }
            Fault::IgnoreTerm => {
                let answer = client.call("strike", json!({})).await;
                let text = answer.text().unwrap_or_else(|| panic!("{answer:?}"));
                let pids: Vec<u32> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
                assert!(pids.len() == 2 && pids.iter().all(|pid| procs::is_alive(*pid)), "{text}");
            }
            _ => {
                let answer = client.call("strike", json!({ "message": "struck" })).await;
                assert_eq!(answer.text().as_deref(), Some("struck"), "{}: {answer:?}", self.fault.name());
            }
        }
    }

    async fn list_changed_first(&self, client: &mut Client) {
        assert_eq!(client.tools().await, ["calm", "strike"]);
        let answer = client.call("strike", json!({ "message": "struck" })).await;
        assert_eq!(answer.text().as_deref(), Some("struck"), "{answer:?}");
        assert_eq!(client.tools().await, ["calm", "strike", "extra_1"], "the list that the answer announced");
    }

    /// Nobody can put right what the server mixed up, but everybody gets one answer, and nobody waits.
    async fn swapped_ids(&self, client: &mut Client) {
        let mut twin = client.twin(&self.gateway).await;
        let (one, two) = tokio::join!(
            client.call("strike", json!({ "message": "1" })),
            twin.call("strike", json!({ "message": "2" }))
        );
        let mut texts = [one.text(), two.text()];
        texts.sort();
        assert_eq!(texts, [Some("1".to_owned()), Some("2".to_owned())], "{one:?} {two:?}");
    }

    /// The answer comes on the stream of another call, or in the legacy era on the session's own stream.
    async fn wrong_stream(&self, client: &mut Client) {
        let mut twin = client.twin(&self.gateway).await;
        let strike = |text: &str| json!({ "message": text, "via": "post" });
        let (one, two) = tokio::join!(client.call("strike", strike("1")), twin.call("strike", strike("2")));
        assert_eq!((one.text().as_deref(), two.text().as_deref()), (Some("1"), Some("2")), "{one:?} {two:?}");
        if self.era == Era::Legacy {
            let stream = client.listen(&self.gateway).await;
            let answer = client.call("strike", json!({ "message": "3", "via": "get" })).await;
            assert_eq!(answer.text().as_deref(), Some("3"), "{answer:?}");
            drop(stream);
        }
    }

    async fn error(&self, client: &mut Client, reason: &str) {
        let mut took = Vec::new();
        for _ in 0..ATTEMPTS {
            let answer = client.call("strike", json!({})).await;
            self.check_error(&answer, reason);
            took.push(answer.took);
            if answer.took < AT_ONCE {
                return;
            }
            assert!(self.recovers(), "{}: the error took {took:?}", self.fault.name());
            client.calm("between").await;
        }
        panic!("{}: the error took {took:?}", self.fault.name());
    }

    fn check_error(&self, answer: &Answer, reason: &str) {
        let (message, data) = answer.error(reason);
        let server = match self.transport {
            Transport::Http => format!("server {:?} (127.0.0.1:", self.fault.name()),
            Transport::Stdio => format!("server {:?}: ", self.fault.name()),
        };
        assert!(message.starts_with(&server), "it names the server: {message}");
        if self.transport == Transport::Http {
            return;
        }
        assert_eq!(data["stderr"], "evil: ready\n", "{data}");
        if self.fault == Fault::DieBeforeReply {
            assert!(data["exit"].as_str().is_some_and(|exit| exit.contains('3')), "{data}");
        }
    }

    async fn deadline(&self, client: &mut Client) {
        let answer = client.call("strike", json!({})).await;
        answer.error("timeout");
        let took = answer.took;
        assert!(DEADLINE <= took && took < 3 * DEADLINE, "{}: the deadline came after {took:?}", self.fault.name());
    }
}

//! The first words to servers on a pipe, scripted.

use std::path::PathBuf;

use lb_exchange::{Capabilities, Principal};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::*;

/// What a server does with the first requests that it reads, in order: the body of its answer.
type Script = Vec<Value>;

/// Connects to a server that plays one script for each time that it is started, and gives its era or the error, and how
/// often it was started and asked in vain.
async fn connect(revision: Revision, scripts: Vec<Script>) -> (Result<Era, String>, usize) {
    let tasks = Tasks::default();
    let left = Arc::new(Mutex::new(scripts));
    let make = {
        let (tasks, left) = (tasks.clone(), left.clone());
        move || {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let mut left = left.lock();
            let script = if left.is_empty() { Script::new() } else { left.remove(0) };
            tasks.spawn(play(theirs, script));
            ours
        }
    };
    let embedded: EmbeddedServers = HashMap::from([("it".to_owned(), Arc::new(make) as Arc<_>)]);
    let spec = ServerSpec::new(ServerName::parse("it").unwrap(), Target::Embedded("it".to_owned()));
    let environment = Environment {
        supervisor: PathBuf::new(),
        embedded: Arc::new(embedded),
        tasks: tasks.clone(),
        children: Children::new(1),
        logins: None,
        names: crate::Names::default(),
    };
    let caller = Caller {
        principal: Principal::local(),
        client: None,
        family: None,
        revision,
        capabilities: Capabilities::none(),
        client_info: None,
    };
    let feed = Feed::default();
    let wish = Wish { caller: Arc::new(caller), hello: None, feed, tasks, client_says_initialized: false };
    let connected = Connector::new(Server::new(Arc::new(spec), environment).unwrap()).connect(&wish).await;
    let unused = left.lock().len();
    (connected.map(|connection| connection.era()).map_err(|error| error.to_string()), unused)
}

async fn play(stream: DuplexStream, script: Script) {
    let (input, mut output) = tokio::io::split(stream);
    let mut lines = BufReader::new(input).lines();
    for mut answer in script {
        let Ok(Some(line)) = lines.next_line().await else { return };
        let asked: Value = serde_json::from_str(&line).unwrap();
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = asked["id"].clone();
        output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    }
    // What else it reads it leaves unanswered.
    while let Ok(Some(_)) = lines.next_line().await {}
}

fn refuses(code: i64, supported: &Value) -> Value {
    json!({"error": {"code": code, "message": "not that one", "data": {"supported": supported, "requested": "x"}}})
}

fn welcomes(supported: &Value) -> Value {
    json!({"result": {"resultType": "complete", "supportedVersions": supported, "capabilities": {}}})
}

fn initializes() -> Value {
    json!({"result": {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}})
}

/// Once, -32022 on a pipe counted as the wrong era, whatever revisions came with it.
#[tokio::test(start_paused = true)]
async fn what_a_refused_revision_on_a_pipe_says_about_the_era() {
    let ours = json!(["2026-07-28"]);
    let (newer, both) = (json!(["2030-01-01"]), json!(["2026-07-28", "2025-11-25"]));
    let legacy = json!(["2025-11-25"]);
    let refused = "the server refused the handshake: not that one";
    for (name, scripts, want, unused) in [
        ("lists ours, and takes it", vec![vec![refuses(-32022, &ours), welcomes(&ours)]], Ok(Era::Modern), 0),
        ("lists both, and takes ours", vec![vec![refuses(-32022, &both), welcomes(&both)]], Ok(Era::Modern), 0),
        (
            "lists ours, and never takes it",
            vec![vec![refuses(-32022, &ours), refuses(-32022, &ours)], vec![initializes()]],
            Err(refused),
            1,
        ),
        (
            "lists both, and never takes ours",
            vec![vec![refuses(-32022, &both), refuses(-32022, &both)], vec![initializes()]],
            Ok(Era::Legacy),
            0,
        ),
        ("lists others", vec![vec![refuses(-32022, &newer)], vec![initializes()]], Err(refused), 1),
        ("lists legacy ones", vec![vec![refuses(-32022, &legacy)], vec![initializes()]], Ok(Era::Legacy), 0),
        ("says something else", vec![vec![refuses(-32601, &ours)], vec![initializes()]], Ok(Era::Legacy), 0),
        ("welcomes, but not us", vec![vec![welcomes(&legacy)], vec![initializes()]], Ok(Era::Legacy), 0),
    ] {
        let got = connect(Revision::V2026_07_28, scripts).await;
        assert_eq!(got, (want.map_err(str::to_owned), unused), "a server that {name}");
    }
}

/// A modern-only server may say so in its answer to `initialize`.
#[tokio::test(start_paused = true)]
async fn a_legacy_client_reaches_a_server_that_refuses_initialize() {
    let ours = json!(["2026-07-28"]);
    let scripts = vec![vec![refuses(-32022, &ours)], vec![welcomes(&ours)]];
    assert_eq!(connect(Revision::V2025_11_25, scripts).await, (Ok(Era::Modern), 0));
}

#[tokio::test]
async fn without_room_and_without_an_idle_child_there_is_no_room() {
    let (children, tasks) = (Children::new(1), Tasks::default());
    let first = children.room(&Principal::local(), &tasks).await.unwrap();
    let error = children.room(&Principal::local(), &tasks).await.unwrap_err();
    assert!(matches!(error, ConnectError::TooManyChildren(1)), "{error}");
    drop(first);
    assert!(children.room(&Principal::local(), &tasks).await.is_ok(), "it was given back");
}

#[tokio::test]
async fn one_principal_takes_no_more_than_its_share_and_leaves_the_rest_to_others() {
    let (children, tasks) = (Children::shared_out(5, Some(2)), Tasks::default());
    let [one, other] = ["one", "other"].map(Principal::named);
    let mut held = Vec::new();
    for who in [&one, &one, &other, &other] {
        held.push(children.room(who, &tasks).await.unwrap());
    }
    for who in [&one, &other] {
        let error = children.room(who, &tasks).await.unwrap_err();
        assert!(matches!(error, ConnectError::TooManyChildren(2)), "{error}");
    }
    held.push(children.room(&Principal::named("third"), &tasks).await.unwrap());
    let error = children.room(&Principal::named("third"), &tasks).await.unwrap_err();
    assert!(matches!(error, ConnectError::TooManyChildren(5)), "{error}");
    held.remove(0);
    assert!(children.room(&one, &tasks).await.is_ok(), "it was given back");
}

/// What an embedded server asks of us goes no further, and only an embedded one is listened to.
#[tokio::test(start_paused = true)]
async fn an_embedded_server_pauses_a_request_and_others_only_say_so() {
    for (runs, want) in [(Runs::Within, "pause"), (Runs::Apart, "note landbridge/pause")] {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(ours);
        let ends = Ends(Box::new(input), Box::new(output), runs);
        let tasks = Tasks::default();
        let pipe = Pipe::open("it", ends, Era::Legacy, Feed::default(), &tasks, std::future::pending());
        let (id, slot) = pipe.intake().calls.open(crate::calls::Names::default(), true).unwrap();
        let (_, mut server) = tokio::io::split(theirs);
        let pause = json!({ "jsonrpc": "2.0", "method": "landbridge/pause", "params": { "requestId": id } });
        // Of a call that is over: nobody is paused.
        let stale = json!({ "jsonrpc": "2.0", "method": "landbridge/pause", "params": { "requestId": 99 } });
        for message in [&stale, &pause, &pause] {
            if runs == Runs::Within || message == &pause {
                server.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            }
        }
        let step = std::future::poll_fn(|cx| slot.poll(cx)).await;
        let got = match step {
            lb_exchange::Step::Pause { retry: None } => "pause".to_owned(),
            lb_exchange::Step::Note(note) => format!("note {}", &*note.method),
            other => format!("{other:?}"),
        };
        assert_eq!(got, want, "{runs:?}");
    }
}

//! What programs that we start are given, and what is left of them.

use std::path::Path;
use std::time::Duration;

use lb_peers::harness::{Gateway, config, peer};
use lb_peers::procs;
use lb_peers::raw::RawHttp;
use lb_peers::tools::{Settings, ToolClient};
use serde_json::{Map, Value, json};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::world::*;

/// Arguments that mean something to a shell, to a loader, to us or to a terminal.
const NASTY: &[&str] = &[
    "",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "a\nb",
    "'",
    "\"",
    "\\",
    "\\\\",
    "\\n",
    "`touch planted`",
    "$(touch planted)",
    "; touch planted",
    "| touch planted",
    "&& touch planted",
    "|| touch planted",
    "& touch planted",
    "> planted",
    ">> planted",
    "< /etc/passwd",
    "$HOME",
    "${HOME}",
    "$((1+1))",
    "~",
    "~root",
    "*",
    "?",
    "[a-z]",
    "{a,b}",
    "!!",
    "!$",
    "#",
    "# planted",
    "%s%n",
    "%PATH%",
    "^",
    "--",
    "-",
    "-c",
    "--config=/etc/passwd",
    "--help",
    "-e",
    "@file",
    "LD_PRELOAD=x.so",
    "__supervise",
    "__supervise --",
    "serve",
    "a=b",
    "=",
    "\u{1b}[2J",
    "\u{7}",
    "\u{7f}",
    "é",
    "日本",
    "\u{202e}",
    "\u{feff}",
    "\u{10ffff}",
    "../../../etc/passwd",
    "/dev/null",
    "';touch planted;'",
    "\";touch planted;\"",
];

/// The same, a long one, and every character that one or two bytes can make.
fn nasty() -> Vec<String> {
    let mut all: Vec<String> = NASTY.iter().map(|arg| (*arg).to_owned()).collect();
    all.push("x".repeat(100_000));
    // Each between two that end words.
    all.extend((1..=0xff_u32).filter_map(char::from_u32).map(|c| format!(" {c} ")));
    all
}

/// What the server says that it was started with.
async fn started(client: &ToolClient) -> Value {
    let reply = run(client, "started", json!({})).await;
    assert!(!reply.is_error(), "{reply}");
    reply.json()
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn check_arguments(found: &Value, folder: &Path) {
    let want: Vec<String> = nasty().iter().map(|arg| hex(arg)).collect();
    let found: Vec<&str> = found["args"].as_array().expect("arguments").iter().filter_map(Value::as_str).collect();
    for (number, (found, want)) in found.iter().zip(&want).enumerate() {
        assert_eq!(found, want, "argument {number}");
    }
    assert_eq!(found.len(), want.len());
    assert_eq!(files(folder), [""; 0], "an argument was taken for a command");
}

#[tokio::test]
async fn arguments_reach_a_program_byte_for_byte_and_nothing_reads_them_on_the_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let args: Vec<String> = [SERVER.to_owned()].into_iter().chain(nasty()).collect();
    let entry = json!({ "command": "python3", "args": args, "cwd": folder.path() });
    // As a client adds it, over either transport.
    let gateway = Gateway::serve_tools(LANDBRIDGE, json!({}), &["--allow-stdio-spawn"]).await;
    for client in [ToolClient::http(&gateway).await, ToolClient::stdio(LANDBRIDGE, Some(json!({})), &[]).await] {
        let mut definition = entry.clone();
        definition["name"] = json!("it");
        let reply = client.call("add_server", definition).await;
        assert!(!reply.is_error(), "{reply}");
        check_arguments(&started(&client).await, folder.path());
        for part in ["command", "args", "env", "cwd"] {
            let mut definition = json!({ "name": "nul", "command": "python3", "args": [SERVER] });
            definition[part] = match part {
                "args" => json!([SERVER, "a\0b"]),
                "env" => json!({ "A": "a\0b" }),
                _ => json!("a\0b"),
            };
            let reply = client.call("add_server", definition).await;
            assert!(reply.is_error(), "a NUL in {part}: {reply}");
        }
    }
}

#[tokio::test]
async fn arguments_of_the_config_reach_a_program_byte_for_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    // In a config `${NAME}` stands for a variable; all else stands for itself.
    let args: Vec<String> = [SERVER.to_owned()].into_iter().chain(nasty()).collect();
    let args: Vec<String> =
        args.into_iter().map(|arg| if arg == "${HOME}" { "${UNCHANGED}".to_owned() } else { arg }).collect();
    let entry = json!({ "command": "python3", "args": args, "cwd": folder.path() });
    let (config, file) = config(&json!({ "it": entry }));
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file).env("UNCHANGED", "${HOME}");
    let gateway = Gateway::launch(command, config).await;
    let client = ToolClient::http(&gateway).await;
    check_arguments(&started(&client).await, folder.path());
}

#[tokio::test]
async fn a_program_sees_exactly_the_listed_variables_and_three_descriptors() {
    // Itself and not a script of that name, which may have variables to add.
    let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().await;
    let python = String::from_utf8(found.expect("python3 runs").stdout).expect("text");
    let entry = json!({ "command": python.trim(), "args": [SERVER], "env": { "OWN": "its own", "LANG": "tlh" } });
    let (folder, file) = config(&json!({ "it": entry }));
    let path = std::env::var("PATH").expect("a PATH");
    let home = folder.path().to_string_lossy().into_owned();
    let passed = [
        ("PATH", path.as_str()),
        ("HOME", &home),
        ("USER", "somebody"),
        ("TERM", "dumb"),
        ("LC_TIME", "C"),
        ("TMPDIR", "/tmp"),
    ];
    let hidden = [
        ("LANDBRIDGE_OPERATOR_TOKEN", "secret-of-the-operator"),
        ("LANDBRIDGE_LOG_FORMAT", "json"),
        ("MCP_CONFIG_SERVER_NAME", "secret"),
        ("VALKEY_URL", "redis://secret"),
        ("OIDC_CLIENT_SECRET", "secret"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("GITHUB_TOKEN", "secret"),
        ("LD_LIBRARY_PATH", "/secret"),
        ("PYTHONPATH", "/secret"),
        ("NODE_OPTIONS", "--secret"),
        ("SSH_AUTH_SOCK", "/secret"),
    ];
    let mut command = Command::new(LANDBRIDGE);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    command.env_clear().envs(passed).env("LANG", "C").envs(hidden).env("LANDBRIDGE_DATA", format!("{home}/state"));
    let gateway = Gateway::launch(command, folder).await;
    // Sockets and files that are open in the gateway while the program is started.
    let first = ToolClient::http(&gateway).await;
    let second = ToolClient::at(gateway.address, Settings::default()).await;
    for client in [&first, &second] {
        let found = started(client).await;
        let mut want: Vec<String> = passed.iter().map(|(name, value)| format!("{name}={value}")).collect();
        want.extend(["OWN=its own".to_owned(), "LANG=tlh".to_owned()]);
        want.sort();
        assert_eq!(found["env"], json!(want));
        assert_eq!(found["fds"], json!({ "0": "pipe", "1": "pipe", "2": "pipe" }));
    }
}

/// Servers, each a program with a grandchild and a leaf in a session of its own, neither of which ends by itself.
const FAMILIES: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_nine_of_the_gateway_leaves_nothing_of_fifty_families() {
    let mark = format!("threat-mark-families-{}", std::process::id());
    let family = format!(
        "trap '' TERM; (trap '' TERM; setsid sleep 3600 & sleep 3600) & '{}' --fault hang",
        peer(LANDBRIDGE, "evil")
    );
    let entry = json!({ "command": "bash", "args": ["-c", family], "env": { "THREAT_MARK": mark } });
    let servers: Map<String, Value> = (0..FAMILIES).map(|number| (format!("s{number}"), entry.clone())).collect();
    let mut gateway = Gateway::serve(LANDBRIDGE, Value::Object(servers)).await;
    let address = gateway.address;
    let mut opening = JoinSet::new();
    for number in 0..FAMILIES {
        opening.spawn(async move {
            let mut http = RawHttp::connect(address).await.expect("it listens");
            http.patience = Duration::from_secs(40);
            http.initialize(&format!("/mcp/server/s{number}"), "2025-11-25").await.expect("a session");
            http
        });
    }
    let clients = opening.join_all().await;
    procs::until(PATIENCE, "every leaf is there", || {
        procs::marked(&mark).iter().filter(|process| process.command == "sleep 3600").count() == 2 * FAMILIES
    })
    .await;
    let started = procs::marked(&mark);
    assert!(4 * FAMILIES <= started.len(), "supervisors, programs, grandchildren and leaves: {}", started.len());
    gateway.child().start_kill().expect("it is there");
    gateway.child().wait().await.expect("it ended");
    // Five seconds are promised; a loaded machine is given more.
    procs::gone(PATIENCE, || procs::marked(&mark)).await;
    procs::until(PATIENCE, "no zombie is left", || started.iter().all(|process| !procs::exists(process.pid))).await;
    drop(clients);
}

/// A child that cannot be started because its argument is too long for the system is an error and no more.
#[tokio::test]
async fn an_argument_longer_than_the_system_takes_is_an_error() {
    let client = ToolClient::stdio(LANDBRIDGE, Some(json!({})), &[]).await;
    let long = "x".repeat(3 << 20);
    let definition = json!({ "name": "it", "command": "python3", "args": [SERVER, long] });
    let reply = client.call("add_server", definition).await;
    assert!(reply.is_error() && reply.message.to_string().len() < 10_000, "{}", reply.message.to_string().len());
    let reply = client.call("list_servers", json!({})).await;
    assert_eq!(reply.json(), json!([]));
}

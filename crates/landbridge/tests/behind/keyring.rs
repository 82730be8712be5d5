//! Where the key of logins is: in the keyring of a desktop, where there is one.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use lb_peers::installed;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::LANDBRIDGE;

/// How long a desktop may take to start.
const START_MAX: Duration = Duration::from_secs(30);

/// A desktop of its own: a bus, and a keyring that is open.
struct Desk {
    _bus: Child,
    keyring: Child,
    folder: tempfile::TempDir,
    address: String,
}

impl Desk {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("bus.conf");
        // Nothing is started by name: the keyring is the one below.
        let text = format!(
            "<busconfig><type>session</type><listen>unix:path={}/bus</listen><policy context=\"default\">\
             <allow send_destination=\"*\"/><allow receive_sender=\"*\"/><allow own=\"*\"/></policy></busconfig>",
            folder.path().display()
        );
        std::fs::write(&config, text).expect("written");
        let mut bus = Command::new(installed::file("dbus-daemon", "/usr/bin/dbus-daemon"));
        bus.arg("--config-file").arg(&config).args(["--nofork", "--nopidfile", "--print-address=1"]);
        let mut bus = bus.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().expect("a bus");
        let mut said = BufReader::new(bus.stdout.take().expect("piped")).lines();
        let address = said.next_line().await.expect("a line").expect("an address");
        let mut keyring = keyring(folder.path(), &address, &["--unlock"]);
        let mut password = keyring.stdin.take().expect("piped");
        password.write_all(b"correct horse").await.expect("it reads");
        drop(password);
        let desk = Self { _bus: bus, keyring, folder, address };
        let began = Instant::now();
        while !desk.ask(&["store", "--label=ready", "is", "ready"]).await.status.success() {
            assert!(began.elapsed() < START_MAX, "the keyring does not start");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        desk
    }

    /// The keyring is started again, and nobody gives it the password.
    async fn lock(&mut self) {
        self.keyring.kill().await.expect("it ends");
        self.keyring = keyring(self.folder.path(), &self.address, &[]);
    }

    /// Asks the keyring, with a program that has nothing to do with us.
    async fn ask(&self, args: &[&str]) -> Output {
        let mut command = Command::new(installed::file("libsecret-tools", "/usr/bin/secret-tool"));
        at_desk(command.args(args), self.folder.path(), &self.address);
        command.stdin(Stdio::null()).output().await.expect("it runs")
    }

    async fn secret(&self, name: &str) -> Option<String> {
        let out = self.ask(&["lookup", "application", "landbridge", "name", name]).await;
        out.status.success().then(|| String::from_utf8(out.stdout).expect("text"))
    }
}

fn keyring(folder: &Path, address: &str, more: &[&str]) -> Child {
    let mut command = Command::new(installed::file("gnome-keyring", "/usr/bin/gnome-keyring-daemon"));
    command.args(["--foreground", "--components=secrets"]).args(more);
    at_desk(&mut command, folder, address).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.kill_on_drop(true).spawn().expect("a keyring")
}

/// A program of whoever sits there.
fn at_desk<'a>(command: &'a mut Command, folder: &Path, address: &str) -> &'a mut Command {
    let vars = ["HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"];
    for variable in vars {
        command.env(variable, folder);
    }
    command.env("DBUS_SESSION_BUS_ADDRESS", address)
}

/// The command line, for what is kept in a folder, at a desk or at none.
fn auth(kept: &Path, desk: Option<&Desk>, args: &[&str]) -> Command {
    let mut command = Command::new(LANDBRIDGE);
    command.arg("auth").args(args).arg("--config").arg(kept.join("mcp.json"));
    match desk {
        Some(desk) => at_desk(&mut command, desk.folder.path(), &desk.address),
        None => command.env_remove("DBUS_SESSION_BUS_ADDRESS").env("XDG_RUNTIME_DIR", kept),
    };
    command.env("XDG_STATE_HOME", kept).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// The row of the one server; or what was said and the exit code.
async fn status(kept: &Path, desk: Option<&Desk>, more: &[&str]) -> Result<Value, (i32, String)> {
    let out = auth(kept, desk, &[&["status", "--json"], more].concat()).output().await.expect("it runs");
    if !out.status.success() {
        return Err((out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stderr).into_owned()));
    }
    let rows: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    Ok(rows[0].clone())
}

/// A folder with a config that names this server.
fn folder(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("mcp.json"), config).expect("written");
    folder
}

fn logins(kept: &Path) -> PathBuf {
    kept.join("landbridge/logins")
}

/// What the key is called in the keyring.
fn name(kept: &Path) -> String {
    let note = std::fs::read(logins(kept).join("key.json")).expect("a note");
    let note: Value = serde_json::from_slice(&note).expect("JSON");
    note["keyring"].as_str().expect("a name").to_owned()
}

fn has_file(kept: &Path) -> bool {
    logins(kept).join("key").exists()
}

/// What a copy of the folder is worth: it is put somewhere else, and used there.
fn copied(kept: &Path) -> tempfile::TempDir {
    let copy = folder(&std::fs::read_to_string(kept.join("mcp.json")).expect("a config"));
    std::fs::create_dir_all(logins(copy.path())).expect("a folder");
    for file in std::fs::read_dir(logins(kept)).expect("a folder") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), logins(copy.path()).join(file.file_name())).expect("copied");
    }
    copy
}

fn in_no_file(kept: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(logins(kept)).expect("a folder");
    let has =
        |path: PathBuf| std::fs::read(path).expect("bytes").windows(text.len()).any(|window| window == text.as_bytes());
    !files.map(|file| file.expect("a file").path()).any(has)
}

/// A server that nobody asks.
fn unasked() -> String {
    json!({ "mcpServers": { "team": { "url": "http://127.0.0.1:9/mcp", "auth": "user" } } }).to_string()
}

mod peer_dbus_daemon {
    mod peer_gnome_keyring {
        mod peer_libsecret_tools {
            use lb_peers::harness::Gateway;
            use lb_peers::idp::{Browser, Decision};
            use lb_peers::tools::ToolClient;

            use super::super::super::*;
            use crate::world::{ALLOW, World};
            use crate::{LOGIN_MAX, config, open};

            async fn log_in(kept: &Path, desk: Option<&Desk>) {
                let mut command = auth(kept, desk, &["login", "team", "--print-url"]);
                let mut login = command.stdout(Stdio::piped()).spawn().expect("it starts");
                let mut lines = BufReader::new(login.stdout.take().expect("piped")).lines();
                let link = lines.next_line().await.expect("a line").expect("a URL");
                open(&mut Browser::default(), &link, "alice", Decision::Approve).await;
                let ended = tokio::time::timeout(LOGIN_MAX, login.wait()).await.expect("it ends").expect("it ran");
                assert_eq!(ended.code(), Some(0));
            }

            /// A gateway that somebody starts there.
            async fn serve(kept: &Path, desk: Option<&Desk>) -> Gateway {
                let mut command = Command::new(LANDBRIDGE);
                command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(kept.join("mcp.json"));
                match desk {
                    Some(desk) => at_desk(&mut command, desk.folder.path(), &desk.address),
                    None => command.env_remove("DBUS_SESSION_BUS_ADDRESS").env("XDG_RUNTIME_DIR", kept),
                };
                command.env("XDG_STATE_HOME", kept).stdin(Stdio::null());
                Gateway::launch(command, tempfile::tempdir().expect("a folder")).await
            }

            async fn call(gateway: &Gateway) -> (bool, String) {
                let client = ToolClient::http(gateway).await;
                let asked = json!({ "server": "team", "tool": "test_simple_text", "args": {} });
                let said = client.call("execute_tool", asked).await;
                (!said.is_error(), said.to_string())
            }

            #[tokio::test]
            async fn the_key_of_logins_is_there_and_their_folder_alone_is_worth_nothing() {
                let (desk, team) = tokio::join!(Desk::start(), World::start(ALLOW, &[]));
                let kept = folder(&config(&team.url));
                let kept = kept.path();
                log_in(kept, Some(&desk)).await;
                let row = status(kept, Some(&desk), &[]).await.expect("a row");
                assert_eq!((&row["state"], &row["key"]), (&json!("logged_in"), &json!("keyring")), "{row}");
                let secret = desk.secret(&name(kept)).await.expect("it is there");
                assert!(secret.len() == 64 && !has_file(kept) && in_no_file(kept, &secret));
                let (works, said) = call(&serve(kept, Some(&desk)).await).await;
                assert!(works, "{said}");

                // Without the keyring: nothing can be read, and nothing is begun anew.
                let (code, said) = status(kept, None, &[]).await.expect_err("no keyring");
                assert!(
                    code == 1 && said.contains("keyring of the system") && said.contains("remove "),
                    "{code} {said}"
                );
                let (works, said) = call(&serve(kept, None).await).await;
                assert!(!works && said.contains("keyring of the system"), "{said}");
                assert!(!has_file(kept), "no other key was made");

                // A landbridge that knows nothing of keyrings makes a key: what is kept is not lost by it.
                let foreign = "f".repeat(64);
                std::fs::write(logins(kept).join("key"), &foreign).expect("written");
                let row = status(kept, Some(&desk), &[]).await.expect("a row");
                assert_eq!((&row["state"], &row["key"]), (&json!("logged_in"), &json!("keyring")), "{row}");
                let both = desk.secret(&name(kept)).await.expect("it is there");
                assert!(
                    both == format!("{secret}\n{foreign}") && !has_file(kept),
                    "both open, and the first one seals"
                );

                // A copy without the note has a key of its own, which opens nothing.
                let copy = copied(kept);
                assert!(status(copy.path(), None, &[]).await.is_err());
                std::fs::remove_file(logins(copy.path()).join("key.json")).expect("removed");
                let row = status(copy.path(), None, &[]).await.expect("a row");
                assert_eq!((&row["state"], &row["key"]), (&json!("logged_out"), &json!("folder")), "{row}");
                assert_eq!(status(kept, Some(&desk), &[]).await.expect("a row")["state"], "logged_in");
            }

            #[tokio::test]
            async fn the_key_moves_there_and_back_and_is_never_lost() {
                let desk = Desk::start().await;
                let kept = folder(&unasked());
                let kept = kept.path();
                let kept_in = |row: Result<Value, (i32, String)>| row.map(|row| row["key"].clone());
                assert_eq!(kept_in(status(kept, None, &[]).await), Ok(json!("folder")));
                let first = std::fs::read_to_string(logins(kept).join("key")).expect("a key");
                assert_eq!(kept_in(status(kept, Some(&desk), &["--keyring", "off"]).await), Ok(json!("folder")));
                assert!(has_file(kept), "nobody wants the keyring");

                assert_eq!(kept_in(status(kept, Some(&desk), &[]).await), Ok(json!("keyring")));
                let there = name(kept);
                assert_eq!(desk.secret(&there).await.as_deref(), Some(first.as_str()));
                assert!(!has_file(kept));

                assert_eq!(kept_in(status(kept, Some(&desk), &["--keyring", "off"]).await), Ok(json!("folder")));
                assert_eq!(std::fs::read_to_string(logins(kept).join("key")).ok().as_deref(), Some(first.as_str()));
                assert_eq!(desk.secret(&there).await, None, "it is not left behind");

                // Somebody throws it away, or puts another one there.
                assert_eq!(kept_in(status(kept, Some(&desk), &[]).await), Ok(json!("keyring")));
                let there = name(kept);
                desk.ask(&["clear", "application", "landbridge", "name", &there]).await;
                let (code, said) = status(kept, Some(&desk), &[]).await.expect_err("no key");
                assert!(code == 1 && said.contains("does not have it any more"), "{said}");
            }

            #[tokio::test]
            async fn a_keyring_that_is_locked_is_none_and_nobody_is_asked() {
                let mut desk = Desk::start().await;
                let (before, after) = (folder(&unasked()), folder(&unasked()));
                assert_eq!(status(before.path(), Some(&desk), &[]).await.expect("a row")["key"], "keyring");
                desk.lock().await;
                let began = Instant::now();
                loop {
                    let (code, said) = status(before.path(), Some(&desk), &[]).await.expect_err("it is locked");
                    assert!(code == 1 && began.elapsed() < START_MAX, "{said}");
                    if said.contains("it is locked") {
                        break;
                    }
                    // Not yet started.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                let began = Instant::now();
                assert_eq!(status(after.path(), Some(&desk), &[]).await.expect("a row")["key"], "folder");
                assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
            }
        }
    }
}

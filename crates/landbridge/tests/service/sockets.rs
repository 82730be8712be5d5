//! Other sockets than an address of one's own, and handing them over.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lb_peers::harness::{Gateway, config};
use lb_peers::raw::RawHttp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use crate::world::*;

fn serve(file: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(LANDBRIDGE);
    command.arg("serve").arg("--config").arg(file).args(args);
    command.env("XDG_STATE_HOME", file.parent().expect("it is in a folder"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command
}

fn stop(child: &Child) {
    let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).expect("a process id");
    kill_process(pid, Signal::TERM).expect("the process is there");
}

async fn exit(child: &mut Child) -> Option<i32> {
    tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").expect("it can be waited for").code()
}

async fn over_unix(path: &Path, target: &str) -> Option<String> {
    let mut socket = UnixStream::connect(path).await.ok()?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

#[tokio::test]
async fn a_unix_socket_is_made_for_its_user_and_goes_with_the_process() {
    let (folder, file) = config(&json!({}));
    let path = folder.path().join("run/http.sock");
    let place = format!("unix:{}", path.display());
    // One that was left behind, as after a crash.
    std::fs::create_dir(folder.path().join("run")).expect("made");
    {
        use std::os::unix::fs::PermissionsExt as _;
        let own = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(folder.path().join("run"), own).expect("set");
    }
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    let mut child = serve(&file, &["--listen", &place]).spawn().expect("it starts");
    until("it answers", async || over_unix(&path, "/ping").await.is_some_and(|answer| answer.ends_with("pong"))).await;
    let sessions = over_unix(&path, "/sessions").await.expect("an answer");
    assert!(sessions.starts_with("HTTP/1.1 200"), "its user is the operator: {sessions}");
    let second = serve(&file, &["--listen", &place]).stderr(Stdio::piped()).output().await.expect("it runs");
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(1) && told.contains("another process answers"), "{told}");
    stop(&child);
    assert_eq!(exit(&mut child).await, Some(0));
    assert!(!path.exists(), "the socket is gone");
}

/// Asks again and again until told to stop: how many were answered, and how many only at the second attempt.
async fn keep_asking(address: SocketAddr, stop: Arc<AtomicBool>, served: Arc<AtomicUsize>) -> usize {
    let mut retried = 0;
    while !stop.load(Ordering::Relaxed) {
        for attempt in 1.. {
            let asked = async {
                let mut http = RawHttp::connect(address).await.ok()?;
                http.request("GET", "/", &[], b"").await.ok()
            };
            match asked.await {
                Some(answer) => {
                    assert_eq!(answer.head.status(), 200, "{}", answer.text());
                    served.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                None => {
                    assert!(attempt < 2, "refused twice");
                    retried += 1;
                }
            }
        }
    }
    retried
}

#[tokio::test]
async fn a_new_process_takes_a_shared_port_over_while_clients_keep_asking() {
    let start = async |place: &str| {
        let (folder, file) = config(&json!({}));
        let mut command = Command::new(LANDBRIDGE);
        command.args(["serve", "--reuse-port", "--listen", place, "--config"]).arg(&file);
        Gateway::launch(command, folder).await
    };
    let mut old = start("127.0.0.1:0").await;
    let new = start(&old.address.to_string()).await;
    let (over, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let asking = keep_asking(old.address, over.clone(), served.clone());
    let handing_over = async {
        until("clients are served", async || 50 < served.load(Ordering::Relaxed)).await;
        terminate(&old);
        let (_, status) = ended(&mut old, PATIENCE).await;
        assert_eq!(status, Some(0));
        let before = served.load(Ordering::Relaxed);
        until("clients are served by the new one", async || before + 50 < served.load(Ordering::Relaxed)).await;
        over.store(true, Ordering::Relaxed);
    };
    let (retried, ()) = tokio::join!(asking, handing_over);
    println!("{} were served, {retried} at the second attempt", served.load(Ordering::Relaxed));
    assert!(retried <= 3, "{retried}");
    drop(new);
}

#[tokio::test]
async fn a_socket_of_a_service_manager_outlives_the_process_and_nobody_is_refused() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("an address");
    let (_folder, file) = config(&json!({}));
    let start = || {
        let handed = OwnedFd::from(socket.try_clone().expect("a copy"));
        let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" serve --config \"$1\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, LANDBRIDGE]).arg(&file).stdin(Stdio::from(handed));
        command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().expect("it starts")
    };
    let mut first = start();
    let mut http = RawHttp::connect(address).await.expect("the socket is open");
    assert_eq!(http.request("GET", "/ping", &[], b"").await.expect("an answer").text(), "pong");
    stop(&first);
    assert_eq!(exit(&mut first).await, Some(0));
    // Nobody accepts now, and still nobody is refused.
    let mut between = RawHttp::connect(address).await.expect("the socket is still open");
    between.send("GET", "/ping", &[], b"").await.expect("taken");
    let mut second = start();
    between.patience = PATIENCE;
    assert_eq!(between.head().await.expect("an answer").status(), 200);
    stop(&second);
    assert_eq!(exit(&mut second).await, Some(0));
}

#[tokio::test]
async fn sockets_of_both_kinds_are_served_and_told_as_they_are() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = tcp.local_addr().expect("an address");
    let (folder, file) = config(&json!({}));
    let path = folder.path().join("handed.sock");
    let unix = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    let script =
        "exec 3<&0 4<&1 </dev/null >/dev/null; export LISTEN_FDS=2 LISTEN_PID=$$; exec \"$0\" serve --config \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, LANDBRIDGE]).arg(&file).kill_on_drop(true).stderr(Stdio::piped());
    command.stdin(Stdio::from(OwnedFd::from(tcp))).stdout(Stdio::from(OwnedFd::from(unix)));
    let mut child = command.spawn().expect("it starts");
    let mut http = RawHttp::connect(address).await.expect("the socket is open");
    assert_eq!(http.request("GET", "/ping", &[], b"").await.expect("an answer").text(), "pong");
    until("it answers", async || over_unix(&path, "/ping").await.is_some_and(|answer| answer.ends_with("pong"))).await;
    stop(&child);
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).await.expect("text");
    assert_eq!(exit(&mut child).await, Some(0), "{said}");
    assert!(said.contains(&format!("\nlistening on http://{address}\n")), "{said}");
    assert!(said.contains(&format!("\nlistening on unix:{}\n", path.display())), "{said}");
    assert!(path.exists(), "what was handed over is not ours to remove");
}

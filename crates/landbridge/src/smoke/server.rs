//! The demo server that the test starts for itself: another process of this program, below a supervisor.

use std::sync::Arc;
use std::time::Duration;

use lb_process::{Child, Command, Grace, Inherit};
use tokio::sync::watch;

use super::client::Target;
use super::report::Outcome;
use crate::run::Failure;

/// How long it may take to listen.
const START_MAX: Duration = Duration::from_secs(10);
/// How long it may take to end when asked to.
const STOP_MAX: Duration = Duration::from_secs(10);

/// It does not listen to its input, and is told to end at once.
const GRACE: Grace = Grace { close: Duration::ZERO, terminate: Duration::from_secs(5) };

/// A running demo server; dropping it ends it.
pub struct Server {
    /// Where it listens.
    pub target: Target,
    child: Child,
}

impl Server {
    /// Starts one on a free port and waits until it says where it listens.
    pub async fn start() -> Result<Self, Failure> {
        let failed = |why: String| Failure::runtime(format!("cannot start a demo server: {why}"));
        let own = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let supervisor = lb_process::own_supervisor().map_err(|error| failed(error.to_string()))?;
        let (tell, mut told) = watch::channel(None);
        let heard = Arc::new(move |line: &[u8]| {
            let line = String::from_utf8_lossy(line);
            if let Some(address) = line.trim().strip_prefix("listening on ") {
                tell.send_replace(Some(format!("{address}/mcp")));
            }
        });
        let env = lb_process::environment(&[], Inherit::Listed, std::env::vars_os());
        // What it says is read here, however this user likes logs.
        let args = ["demo", "--http", "127.0.0.1:0", "--log-format", "text"];
        let command = Command::new(own, supervisor).args(args).env(env).heard(heard);
        let child = Child::spawn(&command).await.map_err(|error| failed(error.to_string()))?;
        let listens = async { told.wait_for(Option::is_some).await.ok().and_then(|url| url.clone()) };
        let url = tokio::select! {
            url = tokio::time::timeout(START_MAX, listens) => url.ok().flatten(),
            _ = child.wait() => None,
        };
        match url.as_deref().map(Target::parse) {
            Some(Ok(target)) => Ok(Self { target, child }),
            _ => {
                let said = child.stderr().tail(1 << 10);
                child.stop(Grace::NONE).await;
                Err(failed(format!("it does not listen; it said: {}", said.trim())))
            }
        }
    }

    /// Asks it to end, and sees that it does.
    pub async fn stop(self) -> Outcome {
        match tokio::time::timeout(STOP_MAX, self.child.stop(GRACE)).await {
            Ok(exit) => Outcome::Passed(exit.to_string()),
            Err(_) => Outcome::Failed(format!("it still runs after {} s", STOP_MAX.as_secs())),
        }
    }
}

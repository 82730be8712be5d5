//! The client with a gateway of its own behind pipes.

use std::path::PathBuf;
use std::time::Duration;

use lb_peers::raw::RawStdio;
use lb_peers::raw::handshake::Era;
use lb_peers::raw::http::initialize_request;

use super::answer::{End, progress, start};
use super::{PATIENCE, stdio_command};
use crate::history::{History, How};
use crate::jobs::markers;

/// How long the gateway may take to end when its client has left.
const END_MAX: Duration = Duration::from_secs(20);

/// The client's side.
pub struct Stdio {
    wire: RawStdio,
}

impl Stdio {
    pub async fn open(program: &(String, PathBuf, String), server: &str, era: Era) -> std::io::Result<Self> {
        let mut wire = RawStdio::spawn(stdio_command(program, server))?;
        wire.patience = PATIENCE;
        if era == Era::Legacy {
            let answer = wire.ask(&initialize_request("0", "2025-11-25")).await?;
            if !answer.contains("\"result\"") {
                return Err(std::io::Error::other(start(answer.as_bytes())));
            }
            wire.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await?;
        }
        Ok(Self { wire })
    }

    pub fn pid(&self) -> Option<u32> {
        self.wire.pid()
    }

    /// A broken pipe is seen when the answer is read.
    pub async fn send(&mut self, body: &str) {
        if let Err(error) = self.wire.send(body.as_bytes()).await {
            eprintln!("stdio: {error}");
        }
    }

    /// Reads up to the answer; the reports of a stream to be checked go into the history.
    pub async fn read(&mut self, id: u64, stream: Option<(&History, &str)>) -> End {
        let mut seen = std::collections::BTreeSet::new();
        let mut end = loop {
            match self.wire.line().await {
                Ok(Some(line)) => {
                    seen.extend(markers(&line));
                    if let (Some((history, stream)), Some(number)) = (stream, progress(&line)) {
                        history.event(stream, None, number);
                    }
                    if let Some(end) = End::of(&line, id) {
                        break end;
                    }
                }
                Ok(None) => break End::new(How::Broken, "stdout ended".to_owned()),
                Err(error) => break End::new(How::Never, error.to_string()),
            }
        };
        end.markers.append(&mut seen);
        end
    }

    /// Leaves, and waits until the gateway has ended too.
    pub async fn end(&mut self) -> Result<(), String> {
        self.wire.close_stdin();
        self.wire.patience = END_MAX;
        match self.wire.wait().await {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("landbridge stdio lives on after its client has left: {error}")),
        }
    }
}

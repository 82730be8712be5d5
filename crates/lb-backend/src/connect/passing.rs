//! Connecting past the breaker: which attempts are made at all, and which outcomes count.

use std::sync::Arc;
use std::time::Duration;

use super::{Connection, Server, Wish};
use crate::breaker::Failure;
use crate::breaker::gate::Permit;
use crate::error::ConnectError;

impl Server {
    /// Connects in the era of the front if the server speaks it, else in the other.
    ///
    /// Cancel safe: yes, a child that was being started is ended.
    ///
    /// # Errors
    /// Why there is no connection; at once for a server that is left alone.
    pub async fn connect(&self, wish: &Wish) -> Result<Arc<Connection>, ConnectError> {
        let permit = self.gate.admit()?;
        self.connect_by(permit, wish).await
    }

    /// The same for somebody who insists: a server that is left alone is tried at once.
    ///
    /// Cancel safe: yes, a child that was being started is ended.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect_anyway(&self, wish: &Wish) -> Result<Arc<Connection>, ConnectError> {
        let permit = self.gate.insist().await;
        self.connect_by(permit, wish).await
    }

    async fn connect_by(&self, permit: Permit<'_>, wish: &Wish) -> Result<Arc<Connection>, ConnectError> {
        let result = self.connect_in_either(wish).await;
        counted(permit, &result);
        result
    }

    /// Lets a call pass that is the only way to the server, and may start it several times: all of that counts once. A
    /// program is started whatever came of the last call, as nobody else finds out that it works again.
    pub(super) async fn pass_stubbornly(&self) -> Result<Permit<'_>, ConnectError> {
        match self.endpoint {
            Some(_) => self.gate.admit(),
            None => Ok(self.gate.insist().await),
        }
    }

    /// Whether it failed so often that it is left alone, or tried by a single attempt.
    pub fn is_left_alone(&self) -> bool {
        self.gate.is_open()
    }

    /// For how long attempts to reach it are refused; `None` when they are not.
    pub fn left_alone_for(&self) -> Option<Duration> {
        self.gate.refuses()
    }
}

/// Reports what became of an attempt.
pub(super) fn counted(permit: Permit<'_>, result: &Result<Arc<Connection>, ConnectError>) {
    match result {
        Ok(_) => permit.answered(),
        Err(error) => match error.tells() {
            Tells::Nothing => drop(permit),
            Tells::Answered => permit.answered(),
            Tells::Failed => permit.failed(Failure::Unreached, &error.to_string()),
        },
    }
}

/// What a failed attempt says about whether a server can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    /// It was never tried.
    Nothing,
    /// It is there, and will not have us.
    Answered,
    /// It is not there, or not well.
    Failed,
}

impl ConnectError {
    fn tells(&self) -> Tells {
        match self {
            Self::TooManyChildren(_)
            | Self::Stopping
            | Self::Dismissed(_)
            | Self::LeftAlone { .. }
            | Self::LoginNeeded(_)
            | Self::LoginFailed(_)
            | Self::GaveUp { .. } => Tells::Nothing,
            // Looking for a program spares nothing and nobody: once it is there, the next call finds it.
            Self::NoProgram(_) | Self::Unauthorized { .. } | Self::Refused { .. } => Tells::Answered,
            Self::Status { status, .. } if *status < 500 => Tells::Answered,
            Self::Spawn(_)
            | Self::SpawnFailed { .. }
            | Self::Exited { .. }
            | Self::Unreachable { .. }
            | Self::Status { .. }
            | Self::Handshake(_)
            | Self::Timeout(_)
            | Self::Silent { .. } => Tells::Failed,
        }
    }
}

#[cfg(test)]
mod tests;

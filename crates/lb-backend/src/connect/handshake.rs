//! The first words to a server.

use std::time::Duration;

use lb_exchange::Outcome;
use lb_wire::revision::{Era, Revision};
use lb_wire::{Raw, compose};

use super::{Started, Wish};
use crate::era;
use crate::error::{ConnectError, EraError};
use crate::outbound;

/// How long a server may take to answer `server/discover` before it is taken not to know it.
const PROBE_MAX: Duration = Duration::from_secs(10);

/// The params of `initialize`.
pub fn hello(wish: &Wish) -> Raw {
    if let Some(hello) = &wish.hello {
        return hello.clone();
    }
    // A modern client behind a legacy session: nothing is declared, so that the server asks for nothing.
    let version = Raw::string(Revision::LATEST_LEGACY.as_str());
    let info = wish.caller.client_info.clone().unwrap_or_else(outbound::our_info);
    compose::object(&[("protocolVersion", &version), ("capabilities", &Raw::empty_object()), ("clientInfo", &info)])
}

/// Introduces us to a server on a pipe, and once more if it refuses our revision but names it among its own.
pub async fn over_pipe(started: &Started, era: Era, wish: &Wish, within: Duration) -> Result<Raw, EraError> {
    let (params, wait) = match era {
        Era::Legacy => (hello(wish), within),
        Era::Modern => {
            let meta = outbound::own_meta(wish.caller.client_info.as_ref(), &Raw::empty_object());
            (compose::object(&[("_meta", &meta)]), PROBE_MAX.min(within))
        }
    };
    match introduce(started, era, &params, wait).await {
        Err(error) if era == Era::Modern && era::contradicts_itself(&error) => {
            introduce(started, era, &params, wait).await
        }
        first => first,
    }
}

async fn introduce(started: &Started, era: Era, params: &Raw, wait: Duration) -> Result<Raw, EraError> {
    let request = started.pipe().request(era::first_method(era), Some(params));
    let wrong = |error| if era == Era::Modern { EraError::WrongEra(error) } else { EraError::Failed(error) };
    match tokio::time::timeout(wait, request).await {
        Err(_) if started.is_remote() => Err(wrong(ConnectError::Timeout(wait))),
        Err(_) => {
            let (stderr, stdout) = (started.stderr(), started.pipe().stray());
            Err(wrong(ConnectError::Silent { within: wait, stderr, stdout }))
        }
        Ok(Outcome::Result(result)) => era::welcome(era, result),
        Ok(Outcome::Error(_) | Outcome::Cancelled) if started.pipe().is_lost() => Err(wrong(exited(started).await)),
        Ok(Outcome::Error(error)) => Err(era::refusal(era, error.raw)),
        Ok(Outcome::Cancelled) => Err(EraError::Failed(ConnectError::Stopping)),
    }
}

async fn exited(started: &Started) -> ConnectError {
    let (exit, stderr) = started.last_words().await;
    if started.is_remote() {
        return ConnectError::Handshake(exit);
    }
    ConnectError::Exited { exit, stderr, stdout: started.pipe().stray() }
}

/// The revision that a server settled on.
pub fn revision(era: Era, welcome: &Raw) -> Result<Revision, ConnectError> {
    match era {
        Era::Modern => Ok(Revision::LATEST_MODERN),
        Era::Legacy => {
            let named = welcome.member("protocolVersion");
            let named = named.as_ref().and_then(Raw::plain_str).unwrap_or_default();
            let known = Revision::parse(named.as_bytes()).filter(|revision| revision.era() == Era::Legacy);
            known.ok_or_else(|| ConnectError::Handshake(format!("it speaks protocol {named:?}, which is unknown here")))
        }
    }
}

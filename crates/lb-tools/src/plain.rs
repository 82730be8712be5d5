//! One request to a server that is simply waited for: everything but the call of a tool.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{Cancel, Outcome, Step};
use lb_gateway::{Backend, CallError, Kind};
use lb_wire::Raw;

use crate::args::Checked;
use crate::failure::{self, Failure};
use crate::request::Request;

/// How long a server has to answer what is no call of a tool.
const WITHIN: Duration = Duration::from_secs(30);

/// A request, and how it is told to those who watch.
pub(crate) struct Plain<'a> {
    pub(crate) method: &'static str,
    pub(crate) params: Raw,
    pub(crate) kind: Option<(Kind, &'a str)>,
}

/// Asks and waits for the result. What the server asks meanwhile is refused: no tool but `execute_tool` can go on while
/// somebody looks for the answer.
///
/// Cancel safe: yes, dropping it cancels the request.
pub(crate) async fn ask(request: &Request, backend: &Arc<Backend>, plain: Plain<'_>) -> Checked<Raw> {
    let live = request.live();
    let tracked = plain.kind.map(|(kind, name)| {
        let server = Some(&**backend.name());
        live.tracker().begin(live.hash(), kind, name, server, Some(&plain.params), live.now())
    });
    let mut exchange = backend.call(live, plain.method, plain.params, None);
    let ending = async {
        loop {
            match exchange.step().await {
                Step::Ask(ask) => drop(exchange.remote().answer(ask.key, ask.kind.refusal())),
                Step::End(end) => return end,
                Step::Note(_) | Step::Withdraw { .. } | Step::Pause { .. } => {}
            }
        }
    };
    let outcome = match tokio::time::timeout(WITHIN, ending).await {
        Ok(end) => read(end.outcome),
        Err(_) => {
            exchange.remote().cancel(Cancel::Deadline);
            let message = format!("server '{}' did not answer within {} s", &**backend.name(), WITHIN.as_secs());
            Err(Failure::new(failure::TIMEOUT, message))
        }
    };
    if let Some(tracked) = tracked {
        match &outcome {
            Ok(_) => tracked.completed(None, live.now()),
            Err(failure) => tracked.failed(&failure.message, live.now()),
        }
    }
    outcome
}

fn read(outcome: Outcome) -> Checked<Raw> {
    match outcome {
        Outcome::Result(result) => Ok(result),
        Outcome::Error(error) => Err(Failure::refused(&error)),
        Outcome::Cancelled => Err(Failure::new(failure::EXECUTION_FAILED, "the request was cancelled")),
    }
}

/// The failure of a request that the gateway makes for us.
pub(crate) fn failure_of(server: &str, error: CallError) -> Failure {
    match error {
        CallError::Unavailable(why) => Failure::unavailable(server, &why),
        CallError::Refused(error) => Failure::refused(&error),
        CallError::NotSupported(message) => Failure::new(failure::NOT_SUPPORTED, message),
    }
}

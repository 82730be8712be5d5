//! A client without headers on a modern server over HTTP. There we are the HTTP client, so that what the revision asks of
//! one for arguments that are mirrored in headers is up to us.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lb_backend::Connection;
use lb_exchange::{Call, Command, Driver, End, Exchange, Outcome, Remote, Step};
use lb_wire::param::ToolParams;
use lb_wire::revision::code;
use lb_wire::{Cursor, Raw, compose, splice};

/// Opens a request of such a client.
///
/// # Errors
/// The call itself, when the server is gone and nothing was sent.
pub fn open(connection: &Arc<Connection>, call: Call, server: &str) -> Result<Exchange, Box<Call>> {
    match call.message.method() {
        "tools/list" => {
            let inner = connection.open(call)?;
            let remote = inner.remote().clone();
            Ok(Exchange::new(Listed { inner, server: server.into() }, remote))
        }
        "tools/call" => {
            let again = Some((connection.clone(), call.clone()));
            let (inner, remote) = (connection.open(call)?, Remote::new());
            Ok(Exchange::new(Retried { inner, again, remote: remote.clone() }, remote))
        }
        _ => connection.open(call),
    }
}

/// Leaves tools out whose annotations break the rules: nobody could call them as the server wants it.
struct Listed {
    inner: Exchange,
    server: Box<str>,
}

impl Driver for Listed {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let mut step = ready!(self.inner.poll_step(cx));
        if let Step::End(End { outcome: Outcome::Result(result), .. }) = &mut step {
            let invalid = ToolParams::from_tools_list(result.as_bytes()).invalid;
            for (tool, error) in &invalid {
                tracing::warn!(server = %self.server, tool, %error, "left out a tool with an invalid x-mcp-header");
            }
            if !invalid.is_empty() {
                *result = without_tools(result, |name| invalid.iter().any(|(tool, _)| tool == name));
            }
        }
        Poll::Ready(step)
    }
}

fn without_tools(result: &Raw, gone: impl Fn(&str) -> bool) -> Raw {
    let Some(tools) = result.member("tools") else { return result.clone() };
    let mut kept = Vec::new();
    let walk = Cursor::new(tools.as_bytes()).elements(0, |at, _| {
        kept.extend(Raw::parse(tools.bytes().slice(at.start()..at.end())).ok());
    });
    if walk.is_err() {
        return result.clone();
    }
    kept.retain(|tool| !tool.member("name").as_ref().and_then(Raw::to_text).is_some_and(|name| gone(&name)));
    splice::replace(result, "tools", &compose::array(kept.iter()))
}

/// Sends a call once more when the server refuses the headers that we wrote by its list of tools: the list has changed,
/// and the refusal says that the call was not run.
struct Retried {
    inner: Exchange,
    /// `None` once the call has been sent again, and once the server has said anything else.
    again: Option<(Arc<Connection>, Call)>,
    remote: Remote,
}

impl Driver for Retried {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            while let Some(command) = self.remote.take() {
                // False is for whoever sent it, who has long gone on.
                match command {
                    Command::Answer(key, answer) => self.inner.remote().answer(key, answer),
                    Command::Cancel(why) => self.inner.remote().cancel(why),
                    Command::Back => self.inner.remote().back(),
                    Command::Away => self.inner.remote().away(),
                    Command::Alone => self.inner.remote().alone(),
                };
            }
            let step = ready!(self.inner.poll_step(cx));
            match self.again.take() {
                Some((connection, call)) if is_mismatch(&step) => match connection.open(call) {
                    Ok(exchange) => self.inner = exchange,
                    Err(_) => return Poll::Ready(step),
                },
                _ => return Poll::Ready(step),
            }
        }
    }
}

fn is_mismatch(step: &Step) -> bool {
    let Step::End(End { outcome: Outcome::Error(error), era: Some(_), .. }) = step else { return false };
    error.code == code::HEADER_MISMATCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_cut_out_and_the_rest_stays_as_written() {
        for (input, want) in [
            (
                r#"{"tools":[{"name":"a"},{"name":"x","n":1.0},{ "name":"b"}],"z":1}"#,
                r#"{"tools":[{"name":"a"},{ "name":"b"}],"z":1}"#,
            ),
            (r#"{"tools":[{"name":"\u0078"}]}"#, r#"{"tools":[]}"#),
            (r#"{"tools":[3,{}]}"#, r#"{"tools":[3,{}]}"#),
            (r#"{"tools":3}"#, r#"{"tools":3}"#),
            ("{}", "{}"),
        ] {
            let got = without_tools(&Raw::from_static(input), |name| name == "x");
            assert_eq!(got.as_str(), want, "input {input}");
        }
    }
}

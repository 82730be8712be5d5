//! What a client sees of the `tools` surface.

use std::sync::Arc;
use std::time::Duration;

use lb_exchange::{BoxFuture, Call, Caller, Cancel, Command, End, Exchange, Outcome};
use lb_gateway::{Introduction, Kind, LoginAnswer, Need, Surface, Tracked, Via};
use lb_wire::Raw;
use lb_wire::compose::Object;
use lb_wire::revision::code;

use crate::args::Args;
use crate::asked::AskedBy;
use crate::catalog::{self, Run, Tool};
use crate::reply::{self, Reply};
use crate::request::{self, Request, Seen};
use crate::{diagrams, instructions};

/// The surface that gives every client everything through tools.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    asked: Arc<AskedBy>,
}

impl Surface for Tools {
    fn introduction(&self) -> Introduction {
        Introduction {
            capabilities: Raw::from_static(r#"{"tools":{},"resources":{}}"#),
            instructions: instructions::TEXT.to_owned(),
        }
    }

    fn need(&self, tool: &str) -> Need {
        match catalog::find(tool).map(|tool| tool.name) {
            None => Need::Nothing,
            // Whoever waits must hear of what others make happen.
            Some("await_activity") => Need::Memory,
            Some("add_server" | "execute_tool" | "set_timer" | "subscribe_resource") => Need::Memory,
            Some(_) => Need::Look,
        }
    }

    fn open(&self, who: Via, call: Call) -> Exchange {
        match call.message.method() {
            "tools/call" => self.call(who, &call),
            "tools/list" => answer(catalog::listed(call.caller.revision)),
            "resources/list" => answer(diagrams::listed()),
            "resources/templates/list" => answer(Raw::from_static(r#"{"resourceTemplates":[]}"#)),
            "resources/read" => read(&call),
            method => {
                let message = format!("{method} is not offered here; call tools/list for what is");
                Exchange::ready(End::error(code::METHOD_NOT_FOUND, &message, None))
            }
        }
    }
}

impl Tools {
    fn call(&self, who: Via, call: &Call) -> Exchange {
        let name = call.message.member("name").and_then(|raw| raw.to_text().map(|text| text.into_owned()));
        let Some(name) = name else {
            return Exchange::ready(End::error(code::INVALID_PARAMS, "\"name\" must be a string", None));
        };
        let Some(tool) = catalog::find(&name) else {
            let message = format!(
                "unknown tool '{name}'; tools of servers are called with execute_tool, tools/list names those here"
            );
            return Exchange::ready(End::error(code::INVALID_PARAMS, &message, None));
        };
        let ready = Args::new(call.message.member("arguments"))
            .and_then(|args| request::session(who, &call.caller, &args).map(|live| (live, args)));
        match ready {
            Ok(((live, own), args)) => {
                live.allow(call.rights.as_ref());
                let seen = Seen { tool, live, caller: call.caller.clone(), own, rights: call.rights.clone() };
                let (token, login) = (call.message.meta("progressToken"), LoginAnswer::of(call));
                start(Request { seen, args, token, asked: self.asked.clone(), login })
            }
            Err(failure) => refuse(tool, &call.caller, &failure),
        }
    }
}

fn answer(result: Raw) -> Exchange {
    Exchange::ready(End::ours(Outcome::Result(result)))
}

fn read(call: &Call) -> Exchange {
    let uri = call.message.member("uri").and_then(|raw| raw.to_text().map(|text| text.into_owned()));
    let Some(uri) = uri else {
        return Exchange::ready(End::error(code::INVALID_PARAMS, "\"uri\" must be a string", None));
    };
    match diagrams::read(&uri) {
        Some(result) => answer(result),
        None => {
            let data = Object::new().text("uri", &uri).finish();
            // Two revisions have two codes for this one; the front does not rewrite what is ours.
            let number = match call.caller.era() {
                lb_wire::revision::Era::Legacy => code::RESOURCE_NOT_FOUND,
                lb_wire::revision::Era::Modern => code::INVALID_PARAMS,
            };
            let message = format!("no resource {uri} here; resources of servers are read with the tool read_resource");
            Exchange::ready(End::error(number, &message, Some(&data)))
        }
    }
}

/// Before there is a session, so that nothing can be added.
fn refuse(tool: &Tool, caller: &Arc<Caller>, failure: &crate::failure::Failure) -> Exchange {
    answer(reply::failed(failure, tool.operation, caller.revision)).unhurried()
}

fn start(request: Request) -> Exchange {
    let exchange = match request.seen.tool.run {
        Run::Now(run) => {
            let (seen, tracked) = (request.seen.clone(), begin(&request));
            Exchange::ready(finish(run(&request), &seen, tracked))
        }
        Run::Waits(run) => attended(request, run, Alone::GoesOn),
        Run::Listens(run) => attended(request, run, Alone::Ends),
        Run::Drives(run) => {
            let tracked = begin(&request);
            Exchange::routine(|out| run(request, out, tracked))
        }
    };
    exchange.unhurried()
}

/// How long a tool that waits has to say that its session has ended.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What a tool does when its client is gone and cannot come back for the answer.
#[derive(Clone, Copy, PartialEq)]
enum Alone {
    GoesOn,
    Ends,
}

fn attended(request: Request, run: fn(Request) -> BoxFuture<'static, Reply>, alone: Alone) -> Exchange {
    let (seen, tracked) = (request.seen.clone(), begin(&request));
    Exchange::routine(|out| async move {
        let calling = seen.live.calling();
        let stopped = async {
            loop {
                match out.command().await {
                    // What waits for the session hears of its end, and says so.
                    Command::Cancel(Cancel::SessionEnd) if alone == Alone::Ends => {
                        tokio::time::sleep(LAST_WORD).await;
                        return Cancel::SessionEnd;
                    }
                    Command::Cancel(why) => return why,
                    Command::Alone if alone == Alone::Ends => return Cancel::Gone,
                    Command::Alone | Command::Answer(..) | Command::Away | Command::Back => {}
                }
            }
        };
        let end = tokio::select! {
            biased;
            why = stopped => why.to_end(),
            reply = run(request) => finish(reply, &seen, tracked),
        };
        drop(calling);
        end
    })
}

fn begin(request: &Request) -> Tracked {
    let live = request.live();
    let server = request.args.raw("server");
    let server = server.as_ref().and_then(Raw::to_text);
    let args = Some(request.args.written());
    live.tracker().begin(live.hash(), Kind::ToolCall, request.seen.tool.name, server.as_deref(), args, live.now())
}

/// Ends the call and its row.
pub(crate) fn finish(reply: Reply, seen: &Seen, tracked: Tracked) -> End {
    match reply.problem() {
        Some(problem) => tracked.failed(problem, seen.live.now()),
        None => tracked.completed(None, seen.live.now()),
    }
    reply.end(seen)
}

//! `list_timers`: the timers of this session.

use lb_session::Timer;
use lb_wire::Raw;

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::fanout;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "list_timers",
    title: "List timers",
    description: "List your timers: {id, message, durationMs, status, interval, fireCount, createdAt, expiresAt}.",
    operation: "list timers",
    input: r#"{
        "include_inactive": { "type": "boolean", "default": false, "description": "Also fired or deleted ones" }
    }"#,
    required: &[],
    output: Some(r#"{ "timers": { "type": "array" } }"#),
    hints: Hints::Reads,
    run: Run::Now(|request| run(request).into()),
};

fn run(request: &Request) -> Checked<Reply> {
    let inactive = request.args.flag("include_inactive", false)?;
    let rows: Vec<Raw> = request.live().cell().with(|session| session.timers(inactive).map(Timer::row).collect());
    Ok(fanout::listed(request, "timers", &rows, &[], "No timers"))
}

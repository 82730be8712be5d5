//! `delete_timer`: a timer that need not fire any more.

use lb_wire::compose::Object;

use super::get_timer::{no_timer, timer_id};
use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "delete_timer",
    title: "Delete a timer",
    description: "Stop a timer so that it does not fire (again). Deleting it twice is no error.",
    operation: "delete timer",
    input: r#"{ "timer_id": { "type": "string", "description": "timerId from set_timer" } }"#,
    required: &["timer_id"],
    output: Some(r#"{ "deleted": { "type": "boolean" }, "timer": { "type": "object" } }"#),
    hints: Hints::Ends,
    run: Run::Now(|request| run(request).into()),
};

fn run(request: &Request) -> Checked<Reply> {
    let (id, text) = timer_id(request)?;
    let now = request.now();
    let row = request.live().cell().with(|session| session.delete_timer(id, now)).map_err(|_| no_timer(&text))?;
    Ok(Reply::object(Object::new().flag("deleted", true).raw("timer", &row).finish()))
}

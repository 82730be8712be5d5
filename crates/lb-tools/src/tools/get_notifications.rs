//! `get_notifications`: what servers said, each once.

use lb_session::{Filter, Sight, notification_json};
use lb_wire::{Raw, Text};

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::fanout;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "get_notifications",
    title: "Get notifications",
    description: "Take the notifications of servers you have not been told of yet (changed lists, updated \
                  resources): [{server, method, timestamp, params}]. Each is handed out once. To wait for new \
                  ones, use await_activity.",
    operation: "get notifications",
    input: r#"{ "server": { "type": "string", "description": "Only those of this server" } }"#,
    required: &[],
    output: Some(r#"{ "notifications": { "type": "array" } }"#),
    hints: Hints::Takes,
    run: Run::Now(|request| run(request).into()),
};

/// More than there can be.
const BYTES_MAX: usize = 4 << 20;

fn run(request: &Request) -> Checked<Reply> {
    let server = request.args.maybe_text("server")?.map(|name| Text::from(&*name));
    let filter = Filter::Notifications { server };
    let taken = request.live().cell().with(|session| {
        let items_max = session.limits().events_max;
        session.events.take(&filter, items_max, BYTES_MAX).seen_by(Sight::of(&|server| request.knows(server)))
    });
    let rows: Vec<Raw> = taken.events.iter().map(|event| notification_json(event)).collect();
    let receipt = taken.lease.map(|lease| request.live().cell().receipt(lease));
    Ok(fanout::listed(request, "notifications", &rows, &[], "No notifications").with_receipt(receipt))
}

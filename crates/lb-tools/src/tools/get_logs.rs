//! `get_logs`: what servers logged.

use lb_session::{Level, LogSource, LogWish, Sight};

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::fanout;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "get_logs",
    title: "Get logs",
    description: "Read logs of servers, oldest first: protocol messages, stderr and stray stdout of programs: \
                  [{server, level, source, timestamp, data}]. Returned rows are cleared unless clear is false. Use \
                  it to find out why something failed.",
    operation: "get logs",
    input: r#"{
        "server": { "type": "string", "description": "Only this server" },
        "level": {
            "enum": ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"],
            "description": "Lowest level"
        },
        "limit": { "type": "integer", "minimum": 1, "maximum": 500, "default": 100, "description": "Most rows" },
        "sources": {
            "type": "array", "items": { "enum": ["protocol", "stderr", "stdout"] }, "description": "Only these"
        },
        "exclude_sources": {
            "type": "array", "items": { "enum": ["protocol", "stderr", "stdout"] }, "description": "Not these"
        },
        "clear": { "type": "boolean", "default": true, "description": "Forget the returned rows" }
    }"#,
    required: &[],
    output: Some(r#"{ "logs": { "type": "array" } }"#),
    hints: Hints::Takes,
    run: Run::Now(|request| run(request).into()),
};

fn run(request: &Request) -> Checked<Reply> {
    let args = &request.args;
    let server = args.maybe_text("server")?;
    let level = args.word("level", &Level::ALL.map(Level::as_str))?.and_then(Level::parse);
    let limit = args.integer("limit", 1..=500)?.unwrap_or(100);
    let (sources, exclude) = (named(request, "sources")?, named(request, "exclude_sources")?);
    let clear = args.flag("clear", true)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let knows = |server: &str| request.knows(server);
    let (server, sight) = (server.as_deref(), Sight::of(&knows));
    let wish = LogWish { server, level, limit, sources: &sources, exclude: &exclude, clear, sight };
    let rows = request.live().cell().with(|session| session.logs(&wish));
    Ok(fanout::listed(request, "logs", &rows, &[], "No logs"))
}

fn named(request: &Request, name: &str) -> Checked<Vec<LogSource>> {
    let words = request.args.words(name, &LogSource::ALL.map(LogSource::as_str))?.unwrap_or_default();
    Ok(words.into_iter().filter_map(LogSource::parse).collect())
}

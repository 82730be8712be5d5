//! `complete`: values that a server suggests for an argument.

use lb_wire::Raw;
use lb_wire::compose::Object;

use crate::args::{Args, Checked, refuse};
use crate::catalog::{Hints, Run, Tool};
use crate::failure::{self, Failure};
use crate::plain::{self, Plain};
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "complete",
    title: "Complete an argument",
    description: "Ask a server which values fit an argument of its prompt or resource template, given what is \
                  typed so far; returns {completion: {values, total, hasMore}}. Use it before get_prompt or \
                  read_resource.",
    operation: "complete argument",
    input: r#"{
        "server": { "type": "string", "description": "Server name" },
        "ref": { "type": "object", "description": "{type: 'ref/prompt', name} or {type: 'ref/resource', uri}" },
        "argument": { "type": "object", "description": "{name, value}; value is its start, may be empty" },
        "context": { "type": "object", "description": "{arguments: {name: value}} already chosen" }
    }"#,
    required: &["server", "ref", "argument"],
    output: Some(r#"{ "completion": { "type": "object" } }"#),
    hints: Hints::ReadsServers,
    run: Run::Waits(|request| Box::pin(async move { run(request).await.into() })),
};

async fn run(request: Request) -> Checked<Reply> {
    let backend = request.backend("server", "completion/complete")?;
    let params = params(&request.args)?;
    if backend.facts().is_some_and(|facts| facts.revision.completions_capability() && !facts.has("completions")) {
        let message = format!("server '{}' offers no completions", &**backend.name());
        return Err(Failure::new(failure::NOT_SUPPORTED, message));
    }
    let result = plain::ask(&request, &backend, Plain { method: "completion/complete", params, kind: None }).await?;
    Ok(Reply::object(result))
}

fn params(args: &Args) -> Checked<Raw> {
    let object = |name: &str| args.object(name)?.ok_or_else(|| refuse(name, "is required"));
    let (reference, argument) = (object("ref")?, object("argument")?);
    let kind = Args::new(Some(reference.clone()))?.need_word("type", &["ref/prompt", "ref/resource"]);
    kind.map_err(|_| refuse("ref", "must have a 'type' of 'ref/prompt' or 'ref/resource'"))?;
    for member in ["name", "value"] {
        if argument.member(member).is_none_or(|raw| raw.to_text().is_none()) {
            return Err(refuse("argument", "must have the strings 'name' and 'value'"));
        }
    }
    let params = Object::new().raw("ref", &reference).raw("argument", &argument);
    Ok(params.maybe("context", args.object("context")?.as_ref()).finish())
}

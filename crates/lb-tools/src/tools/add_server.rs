//! `add_server`: defines a server and connects to it.

use std::path::PathBuf;
use std::time::Duration;

use lb_exchange::{OauthClient, Restart, Secret, ServerAuth, ServerName, ServerSpec, Target};
use lb_gateway::{AddError, Added};
use lb_wire::compose::Object;

use super::list_servers;
use crate::args::{Args, Checked, refuse};
use crate::catalog::{Hints, Run, Tool};
use crate::failure::{self, Failure};
use crate::reply::Reply;
use crate::request::Request;

pub(crate) static TOOL: Tool = Tool {
    name: "add_server",
    title: "Add a server",
    description: "Connect to another MCP server, by either 'url' (HTTP) or 'command' (a local program on stdio). \
                  Returns what it can do. A known name is replaced.",
    operation: "add server",
    input: r#"{
        "name": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,32}$", "description": "Your name for the server" },
        "url": { "type": "string", "maxLength": 8192, "description": "http(s) URL" },
        "headers": {
            "type": "object", "additionalProperties": { "type": "string" },
            "description": "HTTP headers"
        },
        "auth": {
            "type": "string", "enum": ["none", "user"], "description": "user: OAuth login in a browser"
        },
        "command": { "type": "string", "description": "Program, such as npx" },
        "args": { "type": "array", "items": { "type": "string" }, "description": "Its arguments" },
        "env": {
            "type": "object", "additionalProperties": { "type": "string" }, "description": "Environment variables"
        },
        "cwd": { "type": "string", "description": "Folder to start it in" },
        "restartConfig": {
            "type": "object",
            "description": "After a crash",
            "properties": {
                "enabled": { "type": "boolean", "default": true, "description": "Start it again" },
                "maxAttempts": {
                    "type": "integer", "minimum": 0, "maximum": 1000, "default": 5,
                    "description": "Then give up"
                },
                "baseDelayMs": {
                    "type": "integer", "minimum": 0, "maximum": 3600000, "default": 1000, "description": "First wait"
                },
                "maxDelayMs": {
                    "type": "integer", "minimum": 0, "maximum": 3600000, "default": 60000, "description": "Longest wait"
                },
                "backoffMultiplier": {
                    "type": "number", "minimum": 1, "maximum": 100, "default": 2, "description": "Growth"
                }
            }
        }
    }"#,
    required: &["name"],
    output: Some(
        r#"{ "name": { "type": "string" }, "capabilities": { "type": "object" }, "toolCount": { "type": "integer" } }"#,
    ),
    hints: Hints::Adds,
    run: Run::Waits(|request| Box::pin(async move { run(request).await.into() })),
};

const EITHER: &str = "Provide either 'url' (an HTTP server) or 'command' (a program to start)";
const WAIT_MS_MAX: u64 = 3_600_000;

async fn run(request: Request) -> Checked<Reply> {
    let spec = spec(&request.args)?;
    let shown = shown(&spec.target);
    request.live().remember();
    match request.live().add_server(spec.clone()).await {
        Ok(added) => Ok(reply(&added, &shown)),
        Err(AddError::Forbidden(message)) => Err(Failure::new(failure::FORBIDDEN, message)),
        Err(AddError::Invalid(message)) => Err(Failure::new(failure::INVALID_ARGUMENT, message)),
        Err(AddError::Failed(why)) => Err(Failure::unavailable(spec.name.as_str(), &why)),
    }
}

fn reply(added: &Added, shown: &str) -> Reply {
    let view = &added.view;
    let Some(facts) = &added.facts else { return waits(added, shown) };
    let flags = facts.flags();
    let structured = Object::new()
        .text("name", &view.name)
        .text("transport", view.transport)
        .text("status", view.status.as_str())
        .raw("capabilities", &flags)
        .maybe("serverInfo", facts.server_info.as_ref())
        .text("protocolVersion", facts.revision.as_str())
        .number("toolCount", facts.tool_count)
        .finish();
    let sentence = format!(
        "Connected to server '{}' at {shown}\nCapabilities: {}\nTools: {}",
        &*view.name,
        flags.as_str(),
        facts.tool_count
    );
    Reply::said(&sentence, structured).with_session()
}

/// It is defined, and somebody must log in first.
fn waits(added: &Added, shown: &str) -> Reply {
    let view = &added.view;
    let url = view.login.as_ref().map(|login| login.url.as_str());
    let structured = Object::new()
        .text("name", &view.name)
        .text("transport", view.transport)
        .text("status", list_servers::LOGIN_NEEDED)
        .maybe_text("loginUrl", url)
        .finish();
    let sentence = format!(
        "Added server '{}' at {shown}. It needs a login: ask the user to open {} in a browser, then call list_tools.",
        &*view.name,
        url.unwrap_or_default()
    );
    Reply::said(&sentence, structured).with_session()
}

/// Where a server is, for whoever has just said so.
fn shown(target: &Target) -> String {
    match target {
        Target::Child { command, args, .. } if !args.is_empty() => format!("stdio://{command} {}", args.join(" ")),
        Target::Child { .. } | Target::Http { .. } | Target::Embedded(_) => target.address(),
    }
}

/// The definition that the arguments make.
fn spec(args: &Args) -> Checked<ServerSpec> {
    let name =
        ServerName::parse(&args.text("name")?).map_err(|error| refuse("name", &format!("is no good: {error}")))?;
    let restart = restart(args)?;
    // What does not belong to the kind of server is left alone, but must be what it claims to be.
    let (headers, env) = (secrets(args, "headers")?, secrets(args, "env")?);
    let (words, cwd) = (args.texts("args")?.unwrap_or_default(), args.maybe_text("cwd")?.map(PathBuf::from));
    let target = match (args.maybe_text("url")?, args.maybe_text("command")?) {
        (Some(_), Some(_)) => return Err(Failure::new(failure::INVALID_ARGUMENT, format!("{EITHER}, not both"))),
        (None, None) => return Err(Failure::new(failure::INVALID_ARGUMENT, format!("{EITHER}; neither was given"))),
        (Some(url), None) => {
            Target::http(url, headers).map_err(|error| refuse("url", &format!("is no good: {error}")))?
        }
        (None, Some(command)) => Target::Child { command, args: words, env, cwd, inherit_env: false },
    };
    let auth = auth(args, &target)?;
    Ok(ServerSpec { restart, auth, ..ServerSpec::new(name, target) })
}

/// Credentials of our own are for the config file: what a client sends, others may read.
fn auth(args: &Args, target: &Target) -> Checked<ServerAuth> {
    let Some(word) = args.maybe_text("auth")? else { return Ok(ServerAuth::None) };
    match (word.as_str(), target) {
        ("none", _) => Ok(ServerAuth::None),
        ("user", Target::Http { headers, .. }) => {
            if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
                return Err(refuse("auth", "'user' does not go with an Authorization header; leave one of them out"));
            }
            Ok(ServerAuth::User(OauthClient::default()))
        }
        ("user", Target::Child { .. } | Target::Embedded(_)) => Err(refuse("auth", "'user' is for servers with 'url'")),
        _ => Err(refuse("auth", "must be 'none' or 'user'; other logins belong into the config file")),
    }
}

fn secrets(args: &Args, name: &str) -> Checked<Vec<(String, Secret)>> {
    let pairs = args.text_map(name)?.unwrap_or_default();
    Ok(pairs.into_iter().map(|(key, value)| (key, Secret::new(value))).collect())
}

fn restart(args: &Args) -> Checked<Restart> {
    let default = Restart::default();
    let Some(given) = args.group("restartConfig")? else { return Ok(default) };
    let wait = |name, default: Duration| Ok(given.millis(name, 0..=WAIT_MS_MAX)?.unwrap_or(default));
    let attempts = given.integer("maxAttempts", 0..=1_000)?.and_then(|count| u32::try_from(count).ok());
    Ok(Restart {
        enabled: given.flag("enabled", default.enabled)?,
        attempts_max: attempts.unwrap_or(default.attempts_max),
        delay_first: wait("baseDelayMs", default.delay_first)?,
        delay_max: wait("maxDelayMs", default.delay_max)?,
        delay_factor: given.number("backoffMultiplier", 1.0..=100.0)?.unwrap_or(default.delay_factor),
        healthy_after: default.healthy_after,
    })
}

#[cfg(test)]
mod tests;

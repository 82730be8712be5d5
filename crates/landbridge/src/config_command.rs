//! `landbridge config`: what `serve` would use, without serving it.

use std::io::Write as _;
use std::path::PathBuf;

use lb_config::settings::{INLINE_CONFIG, Settings, Surface, shown, shown_json};
use lb_config::{Problem, Severity, problems_json};
use lb_exchange::{ServerAuth, ServerSpec, Target, Transport};
use serde_json::{Value, json};

use crate::assembly::read_servers;
use crate::cli::{Config, ConfigAction};
use crate::files;
use crate::logs::tell;
use crate::run::Failure;
use crate::settled::Settled;
use crate::telemetry::Telemetry;

/// Checks or shows.
pub fn config(config: &Config, settled: &Settled) -> Result<(), Failure> {
    let read = read_servers(&settled.settings);
    let mut problems = settled.gathered.problems().to_vec();
    let servers = match read {
        Ok(loaded) => {
            let place = settled.settings.config.clone().unwrap_or_else(|| INLINE_CONFIG.into());
            let missing = files::missing_programs(&loaded, &place);
            problems.extend(loaded.warnings);
            problems.extend(loaded.left_out);
            problems.extend(missing);
            problems.extend(files::useless_keys(&settled.settings, &loaded.servers));
            problems.extend(nothing_to_serve(&settled.settings, &loaded.servers));
            loaded.servers
        }
        Err(found) => {
            problems.extend(found);
            Vec::new()
        }
    };
    problems.extend(Telemetry::read().err().map(|Failure(_, why)| wrong("OpenTelemetry", why)));
    match &config.action {
        ConfigAction::Check(args) => check(&problems, &servers, args.json)?,
        ConfigAction::Show(args) => {
            if !args.json {
                tell(&problems);
            }
            show(settled, &servers, args.json)?;
        }
    }
    match problems.iter().filter(|problem| problem.severity == Severity::Error).count() {
        0 => Ok(()),
        1 => Err(Failure::usage("1 error to correct")),
        errors => Err(Failure::usage(format!("{errors} errors to correct"))),
    }
}

/// Of the only server there must be one.
fn nothing_to_serve(settings: &Settings, servers: &[ServerSpec]) -> Option<Problem> {
    let is_missing = settings.surface == Surface::Server && !servers.iter().any(|server| !server.disabled);
    is_missing.then(|| wrong("surface", "there is no server to serve by itself: name one with --config".to_owned()))
}

fn wrong(key: &str, message: String) -> Problem {
    let (file, key) = (PathBuf::new(), key.to_owned());
    Problem { severity: Severity::Error, file, line: 0, column: 0, key, message, hint: None }
}

fn check(problems: &[Problem], servers: &[ServerSpec], as_json: bool) -> Result<(), Failure> {
    if as_json {
        return print(&problems_json(problems));
    }
    tell(problems);
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return Ok(());
    }
    let off = servers.iter().filter(|server| server.disabled).count();
    let disabled = if off == 0 { String::new() } else { format!(", {off} of them disabled") };
    let verdict = match problems.len() {
        0 => "fine".to_owned(),
        warnings => format!("usable, with {}", counted(warnings, "warning")),
    };
    print(&format!("{verdict}: {}{disabled}", counted(servers.len(), "server")))
}

fn show(settled: &Settled, servers: &[ServerSpec], as_json: bool) -> Result<(), Failure> {
    if as_json {
        let file = settled.gathered.file.as_ref().map(|path| path.to_string_lossy());
        let servers: Vec<Value> = servers.iter().map(server).collect();
        let settings = shown_json(&settled.gathered);
        return print(&json!({ "file": file, "settings": settings, "servers": servers }).to_string());
    }
    let mut text = match &settled.gathered.file {
        Some(file) => format!("Settings of {}\n\n", file.display()),
        None => String::new(),
    };
    text += &shown(&settled.gathered);
    text += "\nServers\n";
    for spec in servers {
        let off = if spec.disabled { "   disabled" } else { "" };
        text += &format!("  {:<12} {}{off}\n", spec.name.to_string(), crate::banner::describe(spec));
    }
    if servers.is_empty() {
        text += "  none\n";
    }
    print(text.trim_end())
}

/// A server with names of what is secret, and never a value.
fn server(spec: &ServerSpec) -> Value {
    let mut shown = json!({ "name": spec.name.as_str(), "disabled": spec.disabled });
    let hidden = |names: Vec<&str>| names.into_iter().map(|name| (name.to_owned(), json!("***"))).collect::<Value>();
    match &spec.target {
        Target::Http { headers, .. } => {
            shown["type"] = match spec.transport {
                Transport::Found => json!("http"),
                Transport::Sse => json!("sse"),
            };
            shown["url"] = json!(spec.target.address());
            shown["headers"] = hidden(headers.iter().map(|(name, _)| name.as_ref()).collect());
            match &spec.auth {
                ServerAuth::None => {}
                ServerAuth::User(_) => shown["auth"] = json!("user"),
                ServerAuth::Service(_) => shown["auth"] = json!("service"),
            }
        }
        Target::Child { env, cwd, .. } => {
            shown["type"] = json!("stdio");
            shown["command"] = json!(crate::banner::describe(spec));
            shown["env"] = hidden(env.iter().map(|(name, _)| name.as_ref()).collect());
            shown["cwd"] = json!(cwd.as_ref().map(|cwd| cwd.to_string_lossy()));
        }
        Target::Embedded(name) => shown["type"] = json!(format!("embedded {name}")),
    }
    shown
}

/// A number of things, for people.
fn counted(count: usize, thing: &str) -> String {
    match count {
        0 => format!("no {thing}s"),
        1 => format!("1 {thing}"),
        many => format!("{many} {thing}s"),
    }
}

/// Writes to stdout. Whoever closes it early wants no more.
fn print(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::runtime(format!("cannot write: {error}"))),
    }
}

//! Lists of several servers at once.

use std::time::Duration;

use futures_util::future::join_all;
use lb_gateway::{Listing, ServerView, Unavailable};
use lb_wire::compose::Object;
use lb_wire::{Raw, splice};

use crate::args::Checked;
use crate::failure::Failure;
use crate::reply::Reply;
use crate::request::Request;

/// How long each server has.
const WITHIN: Duration = Duration::from_secs(10);

/// The rows of those servers that answered, and what the others said.
pub(crate) struct Lists {
    /// By server, in the order in which servers are listed.
    pub(crate) rows: Vec<(String, Vec<Raw>)>,
    pub(crate) errors: Vec<Raw>,
}

/// Asks all servers that `wanted` picks, at the same time. A server that is known to be down is not waited for.
///
/// Cancel safe: yes.
pub(crate) async fn ask(request: &Request, which: Listing, wanted: impl Fn(&str) -> bool) -> Lists {
    let views = request.live().servers();
    let asked = views.iter().filter(|view| wanted(&view.name)).map(|view| one(request, which, view));
    let mut lists = Lists { rows: Vec::new(), errors: Vec::new() };
    for (server, outcome) in join_all(asked).await {
        match outcome {
            Ok(rows) => lists.rows.push((server, rows)),
            Err(message) => {
                lists.errors.push(Object::new().text("server", &server).text("message", &message).finish());
            }
        }
    }
    lists
}

async fn one(request: &Request, which: Listing, view: &ServerView) -> (String, Result<Vec<Raw>, String>) {
    let server = view.name.to_string();
    // One that waits for a login is asked: somebody may have logged in.
    if !matches!(view.status.as_str(), "connected" | "connecting" | "not_connected") && view.login.is_none() {
        let why = view.last_error.as_deref().unwrap_or("no connection");
        return (server, Err(format!("{}: {why}", view.status.as_str())));
    }
    if let Err(failure) = request.allows(which.method(), &server, None) {
        return (server, Err(failure.message));
    }
    let outcome = match request.live().backend(&server) {
        Ok(backend) => backend.list(which, WITHIN).await.map_err(|why| why.message),
        Err(_) => Err("removed".to_owned()),
    };
    (server, outcome)
}

/// The rows of one server, or of all.
///
/// Cancel safe: yes.
pub(crate) async fn of_one_or_all(
    request: &Request,
    which: Listing,
    name: &'static str,
    empty: &str,
) -> Checked<Reply> {
    let lists = match request.args.maybe_text("server")? {
        Some(server) => {
            let backend = request.backend_of(&server, which.method(), None)?;
            let failed = |why: Unavailable| Failure::unavailable(&server, &why);
            let rows = backend.list(which, WITHIN).await.map_err(failed)?;
            Lists { rows: vec![(server, rows)], errors: Vec::new() }
        }
        None => ask(request, which, |_| true).await,
    };
    let rows: Vec<Raw> =
        lists.rows.iter().flat_map(|(server, rows)| rows.iter().map(|row| labelled(server, row))).collect();
    Ok(listed(request, name, &rows, &lists.errors, empty))
}

/// A list, or the sentence that older clients of this kind expect for an empty one.
pub(crate) fn listed(request: &Request, name: &'static str, rows: &[Raw], errors: &[Raw], empty: &str) -> Reply {
    let wanted = request.live().policy().legacy_empty_text;
    Reply::list(name, rows, errors).or_sentence(rows.len(), wanted, empty).with_sentence(&missing(errors))
}

/// Which servers are not in a list, and why, for whoever reads only text.
fn missing(errors: &[Raw]) -> String {
    let text = |row: &Raw, name: &str| row.member(name).and_then(|raw| raw.to_text().map(|text| text.into_owned()));
    let each = errors.iter().map(|row| {
        format!("'{}': {}", text(row, "server").unwrap_or_default(), text(row, "message").unwrap_or_default())
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { String::new() } else { format!("Not in this list: {}", each.join("; ")) }
}

/// A row as its server wrote it, with the server's name first.
pub(crate) fn labelled(server: &str, row: &Raw) -> Raw {
    splice::with(&splice::without(row, &["server"]), &[("server", Raw::string(server))])
}

//! Servers that operators manage over HTTP: `GET` and `POST /servers`, `DELETE /servers/NAME`.

use std::path::Path;
use std::sync::Arc;

use lb_config::Problem;
use lb_exchange::{ServerName, ServerSpec};
use lb_gateway::{Change, DefineError, Defined, DefinedBy, Gateway};
use lb_http::{Action, Managed, Order, Page};
use serde_json::{Map, Value, json};

use crate::logs;

/// The servers of a gateway.
pub fn servers(gateway: &Gateway) -> Managed {
    let gateway = gateway.clone();
    let source = move |order: Order| -> lb_exchange::BoxFuture<'static, Page> {
        let gateway = gateway.clone();
        Box::pin(async move { answer(&gateway, order).await })
    };
    Managed { path: "/servers", source: Arc::new(source) }
}

async fn answer(gateway: &Gateway, order: Order) -> Page {
    let (who, client) = (order.who.as_str(), order.client.as_deref());
    let (method, server, page) = match &order.action {
        Action::List => return Page::document(&listed(&gateway.defined())),
        Action::Add(body) => match read(body) {
            Ok(spec) => {
                let name = spec.name.to_string();
                ("add_server", name, add(gateway, spec).await)
            }
            Err(why) => ("add_server", String::new(), refused(400, &why)),
        },
        Action::Remove(name) => ("remove_server", name.clone(), remove(gateway, name).await),
    };
    let (outcome, status) = (if page.status < 300 { "done" } else { "refused" }, page.status);
    tracing::info!(target: "audit", who, client, method, server, status, outcome);
    page
}

fn listed(all: &[Defined]) -> Value {
    let rows: Vec<Value> = all.iter().map(row).collect();
    json!({ "servers": rows })
}

fn row(one: &Defined) -> Value {
    let (by, owner) = match &one.by {
        DefinedBy::Config => ("config", None),
        DefinedBy::Operator => ("operator", None),
        DefinedBy::Principal(owner) => ("principal", Some(owner.as_str())),
    };
    json!({
        "name": one.name.as_str(), "transport": one.transport, "address": one.address, "definedBy": by, "owner": owner,
    })
}

/// The definition of a body: an entry of a config file, and its name.
fn read(body: &[u8]) -> Result<ServerSpec, String> {
    let mut entry: Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| format!("the body is no JSON object: {error}"))?;
    let Some(Value::String(name)) = entry.remove("name") else { return Err("name is missing: a text".to_owned()) };
    let name = ServerName::parse(&name).map_err(|error| format!("name: {error}"))?;
    let file = json!({ "mcpServers": { name.as_str(): entry } }).to_string();
    // What the gateway's own variables hold is nobody's business who comes over HTTP.
    let nothing = |_: &str| None;
    let loaded = lb_config::parse(&file, Path::new(""), &nothing).map_err(|problems| told(&problems))?;
    let left_out = told(&loaded.left_out);
    let spec = loaded.servers.into_iter().next().ok_or(left_out)?;
    if spec.disabled { Err("a server that is disabled need not be added".to_owned()) } else { Ok(spec) }
}

/// Where it was wrong; lines say nothing of a text that nobody wrote so.
fn told(problems: &[Problem]) -> String {
    let one = |problem: &Problem| match problem.key.splitn(3, '.').nth(2) {
        Some(key) => format!("{key}: {}", problem.message),
        None => problem.message.clone(),
    };
    problems.iter().map(one).collect::<Vec<_>>().join("; ")
}

async fn add(gateway: &Gateway, spec: ServerSpec) -> Page {
    logs::hide(std::slice::from_ref(&spec));
    let name = spec.name.clone();
    match gateway.define_for_all(spec).await {
        Ok(change) => {
            let shown = gateway.defined().iter().find(|one| one.name == name).map(row).unwrap_or_default();
            let status = if change == Change::Added { 201 } else { 200 };
            Page { status, ..Page::document(&shown) }
        }
        Err(error) => {
            let status = match error {
                DefineError::Forbidden(_) => 403,
                DefineError::Invalid(_) => 400,
                DefineError::Taken(_) => 409,
            };
            refused(status, &error.to_string())
        }
    }
}

async fn remove(gateway: &Gateway, name: &str) -> Page {
    let found = match ServerName::parse(name) {
        Ok(name) => gateway.remove_for_all(&name).await,
        Err(_) => false,
    };
    match found {
        true => Page::document(&json!({ "removed": name })),
        false => refused(404, "no such server"),
    }
}

fn refused(status: u16, why: &str) -> Page {
    Page { status, ..Page::document(&json!({ "error": why })) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_an_entry_of_a_config_and_its_name() {
        let spec = read(br#"{"name":"git","url":"https://example.com/mcp","headers":{"X-Key":"y"}}"#).expect("good");
        assert_eq!((spec.name.as_str(), spec.target.address().as_str()), ("git", "https://example.com/mcp"));
        for (body, part) in [
            (r#"[]"#, "no JSON object"),
            (r#"{"url":"https://example.com"}"#, "name is missing"),
            (r#"{"name":"a b","url":"https://example.com"}"#, "name:"),
            (r#"{"name":"a"}"#, "url"),
            (r#"{"name":"a","url":"https://example.com","disabled":true}"#, "disabled"),
            // Variables of the gateway are not for others.
            (r#"{"name":"a","url":"https://example.com","headers":{"X":"${HOME}"}}"#, "HOME"),
            (r#"{"name":"a","url":"ftp://example.com"}"#, "http"),
        ] {
            let why = read(body.as_bytes()).expect_err(body);
            assert!(why.contains(part), "{body}: {why}");
        }
    }
}

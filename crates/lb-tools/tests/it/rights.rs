//! What a token may do holds for every call that a tool makes for it, and not only for the tool.

use std::sync::Arc;

use lb_exchange::{Aim, BoxFuture, Families, Principal, Rights, Verdict, Visitor};
use serde_json::json;

use crate::client::Client;
use crate::world::World;

/// Nobody logs out.
struct Eternal;

impl Families for Eternal {
    fn lives<'a>(&'a self, _: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Option<bool>> {
        Box::pin(std::future::ready(Some(true)))
    }
}

/// May use the tools of the gateway, and of server `one` so much; there is no server `two` for it.
#[derive(Debug, Clone, Copy)]
enum Token {
    /// It may read.
    Reads,
    /// It may call everything but `hold`, which nobody of its kind may.
    Calls,
}

impl Rights for Token {
    fn decide(&self, method: &str, aim: Aim<'_>) -> Verdict {
        match (self, method, aim) {
            (_, _, Aim::Server { server: "two", .. }) => Verdict::Deny,
            (Self::Calls, "tools/call", Aim::Server { tool: Some("hold"), .. }) => Verdict::Deny,
            (Self::Reads, "tools/call", Aim::Server { server, .. }) => Verdict::StepUp(format!("server:{server}")),
            _ => Verdict::Allow,
        }
    }

    fn is_admin(&self) -> bool {
        false
    }
}

fn ann(token: Token) -> Visitor {
    let rights: Arc<dyn Rights> = Arc::new(token);
    Visitor { client: Some("editor".into()), rights: Some(rights), ..Visitor::of(Principal::named("ann")) }
}

async fn clients() -> (World, Client, Client) {
    let world = World::new();
    world.gateway.watch_logins(Arc::new(Eternal));
    let reads = Client::of(&world.front, ann(Token::Reads), json!({})).await;
    let calls = reads.by(ann(Token::Calls));
    (world, reads, calls)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_somebody_may_not_know_of_is_nowhere_to_be_seen() {
    let (world, client, _) = clients().await;
    let servers = client.call("list_servers", json!({})).await;
    assert_eq!(servers.json(0).as_array().map(Vec::len), Some(1), "{servers:?}");
    let tools = client.call("list_tools", json!({})).await;
    assert!(!tools.is_error() && !tools.response.to_string().contains("two"), "{tools:?}");
    let nothing = client.call("list_tools", json!({ "server": "^two$" })).await;
    assert!(nothing.text(1).ends_with("defined are: one"), "{nothing:?}");
    for (tool, arguments) in [
        ("execute_tool", json!({ "server": "two", "tool": "echo" })),
        ("get_server_status", json!({ "server": "two" })),
        ("read_resource", json!({ "server": "two", "uri": "a:1" })),
        ("set_log_level", json!({ "server": "two", "level": "info" })),
        ("reconnect_server", json!({ "name": "two" })),
        ("list_resources", json!({ "server": "two" })),
    ] {
        let answer = client.call(tool, arguments).await;
        let unknown = client
            .call(tool, json!({ "server": "x", "name": "x", "tool": "echo", "uri": "a:1", "level": "info" }))
            .await;
        assert_eq!(answer.code(), "TOOL_ERR_SERVER_NOT_FOUND", "{tool}: {answer:?}");
        assert_eq!(answer.text(0).replace("two", "x"), unknown.text(0), "{tool}");
    }
    client.events().await;
    let told = json!(client.seen_of("server_connected")).to_string();
    assert!(told.contains("one") && !told.contains("two"), "{told}");
    assert_eq!(world.two.heard(), Vec::<serde_json::Value>::new(), "nobody connected to it");
}

#[tokio::test(start_paused = true)]
async fn an_inner_call_is_decided_by_the_token_of_its_own_request() {
    let (world, reads, calls) = clients().await;
    let echo = json!({ "server": "one", "tool": "echo" });
    let refused = reads.call("execute_tool", echo.clone()).await;
    assert!(refused.is_error() && refused.text(0).contains("server:one"), "{refused:?}");
    assert_eq!(refused.code(), "FORBIDDEN");
    let details = &refused.response["result"]["structuredContent"]["error"]["details"];
    assert_eq!((&details["reason"], &details["scope"]), (&json!("insufficient_scope"), &json!("server:one")));
    assert!(world.one.heard_of("tools/call").is_empty());
    let done = calls.call("execute_tool", echo.clone()).await;
    assert!(!done.is_error(), "{done:?}");
    let denied = calls.call("execute_tool", json!({ "server": "one", "tool": "hold" })).await;
    assert_eq!(
        (denied.code().as_str(), denied.text(0).contains("ask the operator")),
        ("FORBIDDEN", true),
        "{denied:?}"
    );
    let again = reads.call("execute_tool", echo).await;
    assert_eq!(again.code(), "FORBIDDEN", "what another request may has no bearing on this one");
    assert_eq!(world.one.heard_of("tools/call").len(), 1);
    let names = |tools: &crate::client::Answer| {
        let rows = tools.json(0);
        rows.as_array()
            .expect("rows")
            .iter()
            .map(|row| row["name"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&calls.call("list_tools", json!({})).await), ["echo"], "what may never be called is not listed");
    assert_eq!(names(&reads.call("list_tools", json!({})).await), ["echo", "hold"], "what needs a scope is");
    let status = reads.call("get_server_status", json!({ "server": "one" })).await;
    assert!(!status.is_error(), "{status:?}");
    let reconnect = reads.call("reconnect_server", json!({ "name": "one" })).await;
    assert_eq!(reconnect.code(), "FORBIDDEN", "{reconnect:?}");
}

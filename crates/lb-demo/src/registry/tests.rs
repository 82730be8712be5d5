use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rmcp::handler::server::router::tool::ToolRoute;
use rmcp::model::{JsonObject, Tool};

use super::*;

fn tool(name: &str) -> ToolRoute<()> {
    let tool = Tool::new(Cow::Owned(name.to_owned()), "a tool", Arc::new(JsonObject::new()));
    ToolRoute::new_dyn(tool, |_| Box::pin(async { Ok(said("done").into()) }))
}

fn error(names: &[&str]) -> Option<RegistryError> {
    let all = names.iter().try_fold(Registry::new(), |registry, name| registry.with(tool(name), None));
    all.err()
}

#[test]
fn a_duplicate_or_nameless_tool_is_refused() {
    assert_eq!(error(&["a", "b", "A"]), None);
    assert_eq!(error(&["a", "b", "a"]), Some(RegistryError::Duplicate("a".to_owned())));
    assert_eq!(error(&[""]), Some(RegistryError::Nameless));
    assert_eq!(error(&["  "]), Some(RegistryError::Nameless));
    assert_eq!(error(&["two words"]), Some(RegistryError::BadName("two words".to_owned())));
    assert_eq!(error(&[&"x".repeat(65)]), Some(RegistryError::BadName("x".repeat(65))));
    assert_eq!(registry(Some("echo")).err(), Some(RegistryError::Duplicate("echo".to_owned())));
    assert!(registry(None).is_ok() && registry(Some("my_tool")).is_ok());
}

#[test]
fn every_tool_has_a_card_with_an_example_that_reads() {
    let registry = registry(Some("my_tool")).unwrap_or_else(|error| panic!("{error}"));
    let tools = registry.list();
    assert_eq!(tools.len(), 14);
    for tool in tools {
        let about = tool.meta.as_ref().and_then(|meta| meta.0.get(META_KEY)).unwrap_or_else(|| panic!("{}", tool.name));
        assert!(about["examples"][0].is_object() && about["tags"][0].is_string(), "{}: {about}", tool.name);
    }
    assert_eq!(
        registry.limits.get("echo").map(|limit| matches!(limit, Limit::Fixed(limit) if limit.as_secs() == 2)),
        Some(true)
    );
}

#[test]
fn the_limit_of_streaming_fits_its_arguments() {
    for (arguments, want) in [
        (json!({}), 30),
        (json!({ "count": 50, "intervalMs": 5000 }), 255),
        (json!({ "count": 20, "intervalMs": 1500 }), 35),
        (json!({ "count": u64::MAX, "intervalMs": -1 }), 30),
        (json!({ "count": 4_000_000_000_u32, "intervalMs": 4_000_000_000_u32 }), 255),
    ] {
        let object = arguments.as_object().cloned().unwrap_or_default();
        assert_eq!(crate::streaming::limit(&object), Duration::from_secs(want), "{arguments}");
    }
}

/// A server of one tool that takes an hour and may take two seconds.
struct Tardy(Arc<Registry<Tardy>>);

impl rmcp::ServerHandler for Tardy {
    async fn call_tool(
        &self,
        request: rmcp::model::CallToolRequestParams,
        context: rmcp::service::RequestContext<rmcp::RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.call(ToolCallContext::new(self, request, context)).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_declared_limit_is_kept() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let tool = Tool::new("tardy", "takes an hour", Arc::new(JsonObject::new()));
    let route = ToolRoute::new_dyn(tool, |_| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(said("done").into())
        })
    });
    let card = Card { tags: &[], example: "{}", limit: Limit::Fixed(Duration::from_secs(2)) };
    let registry = Registry::new().with(route, Some(card)).unwrap_or_else(|error| panic!("{error}"));
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        if let Ok(running) = rmcp::serve_server(Tardy(Arc::new(registry)), theirs).await {
            drop(running.waiting().await);
        }
    });
    let (read, mut write) = tokio::io::split(ours);
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "tardy" } }),
    ] {
        write.write_all(format!("{message}\n").as_bytes()).await.unwrap_or_else(|error| panic!("{error}"));
    }
    let mut lines = BufReader::new(read).lines();
    let started = tokio::time::Instant::now();
    let mut last = String::new();
    while !last.contains("\"id\":2") {
        last = lines.next_line().await.ok().flatten().unwrap_or_else(|| panic!("ended after {last}"));
    }
    assert_eq!(started.elapsed().as_secs(), 2);
    let answer: Value = serde_json::from_str(&last).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let error = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(error.contains("\"success\":false") && error.contains("tardy took longer than 2s"), "{error}");
}

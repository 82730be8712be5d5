//! What the log file is called.

use serde_json::json;

use crate::LANDBRIDGE;
use crate::client::Client;
use crate::world::World;

async fn logs(world: &World, options: &[&str], env: &[(&str, &str)]) -> Vec<String> {
    let mut args = vec!["wrap".to_owned()];
    args.extend(options.iter().map(|option| (*option).to_owned()));
    args.extend(world.command(json!({})));
    let mut client = Client::start(LANDBRIDGE, &args, world.folder(), env);
    client.hello().await;
    client.tool("echo", json!({})).await;
    client.close();
    client.end().await;
    let files = std::fs::read_dir(world.file("landbridge")).into_iter().flatten();
    let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".log")).collect()
}

#[tokio::test]
async fn the_log_file_is_named_after_the_server() {
    let world = World::new();
    assert_eq!(logs(&world, &[], &[]).await, [""; 0], "none unless it is asked for");
    let [inferred] = logs(&world, &[], &[("LANDBRIDGE_WRAP_DEBUG", "3")]).await.try_into().expect("one");
    let hash = inferred.strip_prefix("landbridge-wrap-server-").and_then(|rest| rest.strip_suffix(".log"));
    let hash = hash.unwrap_or_else(|| panic!("{inferred}"));
    assert!(hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{inferred}");
    let text = std::fs::read_to_string(world.file("landbridge").join(&inferred)).expect("text");
    assert!(text.contains("DEBUG"), "{text}");

    let world = World::new();
    let env = [("MCP_WRAPPER_DEBUG", "info"), ("MCP_SERVER_NAME", "my server/1")];
    assert_eq!(logs(&world, &[], &env).await, ["landbridge-wrap-my_server_1.log"]);
    let world = World::new();
    assert_eq!(logs(&world, &["--name", "given"], &env).await, ["landbridge-wrap-given.log"]);
}

//! Where settings may stand, and that each place has its effect.

use lb_peers::raw::http::{headers, post_headers};
use serde_json::json;

use crate::world::{Run, World, arg, execute, output, server, servers};

/// A port that is free at this moment.
fn free_port() -> u16 {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    taken.local_addr().expect("an address").port()
}

#[tokio::test]
async fn the_variable_port_moves_the_default_and_a_flag_wins() {
    let world = World::new();
    let (by_variable, by_flag) = (free_port().to_string(), free_port().to_string());
    let run = Run::start(world.landbridge(&["serve"]).env("PORT", &by_variable));
    assert_eq!(run.address().await.port().to_string(), by_variable);
    let run = Run::start(world.landbridge(&["serve", "--port", &by_flag]).env("PORT", &by_variable));
    assert_eq!(run.address().await.port().to_string(), by_flag);
}

#[tokio::test]
async fn servers_of_a_file_get_their_headers_and_a_bad_entry_is_named() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let world = World::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let files = json!({
        "web": { "url": url, "headers": { "X-Api-Key": "${KEY}" } },
        "local": server("local"),
    });
    let config = world.servers(&files);
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", arg(&config)];
    let run = Run::start(world.landbridge(&args).env("KEY", "the-key-of-the-file"));
    let client = run.client().await;
    let (mut socket, _) = listener.accept().await.expect("it connects");
    let mut seen = Vec::new();
    while !seen.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        assert_ne!(socket.read_buf(&mut seen).await.expect("bytes"), 0);
    }
    let head = String::from_utf8_lossy(&seen).to_ascii_lowercase();
    assert!(head.contains("x-api-key: the-key-of-the-file\r\n"), "{head}");
    socket.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n").await.expect("written");
    assert_eq!(execute(&client, "local", "who", json!({})).await, "local");

    let config = world.servers(&json!({ "fine": server("x"), "both": { "url": "http://x", "command": "y" } }));
    let (code, _, said) = output(&mut world.landbridge(&["serve", "--config", arg(&config)])).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("mcpServers.both"), "{said}");
}

#[tokio::test]
async fn servers_in_a_variable_take_the_place_of_the_file() {
    let world = World::new();
    let config = world.servers(&json!({ "of_file": server("file") }));
    let inline =
        json!({ "servers": [{ "name": "of_variable", "command": "python3", "args": [crate::world::SERVER] }] });
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", arg(&config)];
    let run = Run::start(world.landbridge(&args).env("LANDBRIDGE_CONFIG", inline.to_string()));
    assert_eq!(servers(&run.client().await).await, ["of_variable"]);
    assert!(run.said().contains("LANDBRIDGE_CONFIG is set, so that"), "{}", run.said());
    let (code, _, said) = output(world.landbridge(&["serve"]).env("LANDBRIDGE_CONFIG", "{ \"mcpServers\": [")).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("error: LANDBRIDGE_CONFIG:1:"), "{said}");
}

#[tokio::test]
async fn origins_in_an_array_of_a_variable_are_allowed_and_others_are_not() {
    let world = World::new();
    let origins = r#"["https://one.example","https://two.example"]"#;
    let mut command = world.landbridge(&["serve", "--listen", "127.0.0.1:0"]);
    let run = Run::start(command.env("MCP_CONFIG_SERVER_HTTP_CORS_ORIGINS", origins));
    for (origin, status) in [("https://one.example", 400), ("https://two.example", 400), ("https://three.example", 403)]
    {
        let mut all = post_headers();
        all.extend(headers(&[("Origin", origin)]));
        let reply = run.http().await.post("/mcp", &all, b"{}").await.expect("an answer");
        assert_eq!(reply.head.status(), status, "{origin}: {}", reply.text());
    }
}

#[tokio::test]
async fn the_file_of_settings_is_found_and_a_variable_beats_it() {
    let world = World::new();
    std::fs::create_dir_all(world.path(".config/landbridge")).expect("a folder");
    let (by_file, by_variable) = (free_port(), free_port());
    world.write(".config/landbridge/landbridge.toml", &format!("port = {by_file}\nmcp_path = \"/here\"\n"));
    let run = Run::start(&mut world.landbridge(&["serve"]));
    assert_eq!(run.address().await.port(), by_file);
    let lost = run.http().await.post("/mcp", &post_headers(), b"{}").await.expect("an answer");
    assert_eq!(lost.head.status(), 404);
    drop(run);
    let run = Run::start(world.landbridge(&["serve"]).env("LANDBRIDGE_PORT", by_variable.to_string()));
    assert_eq!(run.address().await.port(), by_variable);
    let other = world.write("other.toml", "listen = \"127.0.0.1:0\"\n");
    let run = Run::start(&mut world.landbridge(&["serve", "--settings", arg(&other)]));
    assert!(![by_file, by_variable].contains(&run.address().await.port()));
}

#[tokio::test]
async fn a_session_that_nobody_uses_ends_when_the_variable_says() {
    let world = World::new();
    let mut command = world.landbridge(&["serve", "--listen", "127.0.0.1:0"]);
    let run = Run::start(command.env("SESSION_TTL_MS", "1000").env("CLEANUP_INTERVAL_MS", "100"));
    let mut http = run.http().await;
    let session = http.initialize("/mcp", "2025-11-25").await.expect("a session");
    run.says("session_timeout_cleanup", 1).await;
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let reply = run.http().await.post("/mcp", &session.headers(), ping).await.expect("an answer");
    assert_eq!(reply.head.status(), 404, "{}", reply.text());
}

#[tokio::test]
async fn a_socket_and_tls_files_are_taken_from_settings() {
    let world = World::new();
    std::fs::create_dir(world.path("own")).expect("a folder");
    std::fs::set_permissions(world.path("own"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("mode");
    let listen = format!("unix:{}", arg(&world.path("own/socket")));
    let run = Run::start(&mut world.landbridge(&["serve", "--listen", &listen]));
    run.says(&format!("listening on {listen}"), 1).await;
    run.says("Stop with Ctrl-C.", 1).await;
    assert!(run.said().contains("curl --unix-socket "), "{}", run.said());
    assert!(std::os::unix::net::UnixStream::connect(world.path("own/socket")).is_ok());
    let args = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", "none.pem", "--tls-key", "none.pem"];
    let (code, _, said) = output(&mut world.landbridge(&args)).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("none.pem"), "{said}");
}

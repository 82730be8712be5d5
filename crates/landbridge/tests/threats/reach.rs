//! Addresses that a client may not send us to, when others than this machine can reach us.

use lb_peers::harness::{Gateway, config};
use lb_peers::tools::{Settings, ToolClient};
use serde_json::json;
use tokio::process::Command;

use crate::world::*;

/// A gateway that everybody can reach, and a client of it.
async fn reached_from_afar(args: &[&str]) -> (Gateway, ToolClient) {
    let (folder, file) = config(&json!({}));
    let mut command = Command::new(LANDBRIDGE);
    command
        .args(["serve", "--listen", "0.0.0.0:0", "--insecure-no-auth", "--rate-limit-max", "0", "--config"])
        .arg(&file)
        .args(args);
    let mut gateway = Gateway::launch(command, folder).await;
    gateway.address.set_ip([127, 0, 0, 1].into());
    let client = ToolClient::at(gateway.address, Settings::default()).await;
    (gateway, client)
}

/// Addresses of the link, of groups and of metadata services, however they are written.
const NEVER: [&str; 46] = [
    "169.254.169.254",
    "169.254.169.254:80",
    "169.254.169.254.",
    "169.254.0.1",
    "169.254.255.254",
    "169.254.170.2",
    "169.254.43518",
    "169.16689662",
    "2852039166",
    "0xa9fea9fe",
    "0xA9FEA9FE",
    "0xa9.0xfe.0xa9.0xfe",
    "0xa9.254.169.254",
    "0251.0376.0251.0376",
    "025177524776",
    "169.0xfea9fe",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[0:0:0:0:0:ffff:a9fe:a9fe]",
    "[::a9fe:a9fe]",
    "[::169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b::169.254.169.254]",
    "[2002:a9fe:a9fe::]",
    "[2002:a9fe:a9fe::1]",
    "[fe80::1]",
    "[fe80::a9fe:a9fe]",
    "[febf::1]",
    "[fd00:ec2::254]",
    "[FD00:EC2::254]",
    "[ff02::1]",
    "[ff05::2]",
    "224.0.0.1",
    "239.255.255.250",
    "[::ffff:224.0.0.1]",
    "255.255.255.255",
    "0xffffffff",
    "[::ffff:255.255.255.255]",
    "100.100.100.200",
    "[::ffff:100.100.100.200]",
    "168.63.129.16",
    "metadata",
    "metadata.google.internal",
    "METADATA.google.internal",
    "metadata.google.internal.",
    "instance-data",
];

#[tokio::test]
async fn no_client_sends_us_to_metadata_however_the_address_is_written() {
    let (_gateway, client) = reached_from_afar(&[]).await;
    for host in NEVER {
        for scheme in ["http", "https", "HTTP"] {
            let reply =
                client.call("add_server", json!({ "name": "m", "url": format!("{scheme}://{host}/mcp") })).await;
            assert!(reply.is_error() && reply.code() == "FORBIDDEN", "{scheme} {host}: {reply}");
        }
    }
    // Where one reader takes one part for the host and another takes another.
    for url in [
        "http://127.0.0.1@169.254.169.254/",
        "http://127.0.0.1:1@169.254.169.254/",
        "http://169.254.169.254#@127.0.0.1/",
        "http://169.254.169.254\\@127.0.0.1/",
        "http://169.254.169.254?@127.0.0.1/",
        "http://169.254.169.254%2f@127.0.0.1/",
        "http:////169.254.169.254/",
        "http:169.254.169.254/",
        "http://[169.254.169.254]/",
        "http://169.254.169.254\t/",
        "http://169.254.169.254\r\nHost: x/",
        " http://169.254.169.254/",
        "http://[fe80::1%25eth0]/",
        "http://１６９.２５４.１６９.２５４/",
    ] {
        let reply = client.call("add_server", json!({ "name": "m", "url": url })).await;
        assert!(reply.is_error() && ["FORBIDDEN", "INVALID_ARGUMENT"].contains(&reply.code()), "{url}: {reply}");
    }
    assert_eq!(client.call("list_servers", json!({})).await.json(), json!([]));
}

/// Addresses of this machine and of networks that only it can reach, however they are written.
const FROM_AFAR_NEVER: [&str; 34] = [
    "127.0.0.1:PORT",
    "localhost:PORT",
    "localhost.:PORT",
    "LOCALHOST:PORT",
    "127.1:PORT",
    "127.0.1:PORT",
    "127.0.0.1.:PORT",
    "127.255.255.254:PORT",
    "0x7f.1:PORT",
    "0x7f000001:PORT",
    "0177.0.0.1:PORT",
    "017700000001:PORT",
    "2130706433:PORT",
    "0:PORT",
    "0.0.0.0:PORT",
    "[::]:PORT",
    "[::1]:PORT",
    "[0:0:0:0:0:0:0:1]:PORT",
    "[::ffff:127.0.0.1]:PORT",
    "[::ffff:7f00:1]:PORT",
    "[::127.0.0.1]:PORT",
    "[64:ff9b::7f00:1]:PORT",
    "[2002:7f00:1::]:PORT",
    "10.0.0.1:1",
    "10.255.255.254:1",
    "172.16.0.1:1",
    "172.31.255.254:1",
    "192.168.0.1:1",
    "100.64.0.1:1",
    "100.127.255.254:1",
    "[::ffff:10.0.0.1]:1",
    "[64:ff9b::a00:1]:1",
    "[fd00::1]:1",
    "[fc00::1]:1",
];

/// Only over https and only to public addresses.
#[tokio::test]
async fn who_comes_from_afar_sends_us_to_no_address_that_only_we_can_reach() {
    let server = Always::answers(lb_peers::raw::http1::response(500, &[], b"no")).await;
    let (_gateway, client) = reached_from_afar(&[]).await;
    for host in FROM_AFAR_NEVER {
        let host = host.replace("PORT", &server.address.port().to_string());
        for scheme in ["http", "https"] {
            let reply =
                client.call("add_server", json!({ "name": "m", "url": format!("{scheme}://{host}/mcp") })).await;
            assert!(reply.is_error() && reply.code() == "FORBIDDEN", "{scheme} {host}: {reply}");
        }
    }
    assert_eq!(server.asked(), 0);
}

/// The flag is enough for clients on this machine; others would need to be known and the program listed.
#[tokio::test]
async fn who_comes_from_afar_starts_no_program_even_with_the_flag() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_gateway, client) = reached_from_afar(&["--allow-stdio-spawn"]).await;
    let script = format!("touch {}/planted", folder.path().display());
    let reply = client.call("add_server", json!({ "name": "m", "command": "/bin/sh", "args": ["-c", script] })).await;
    assert!(reply.is_error() && reply.code() == "FORBIDDEN", "{reply}");
    assert_eq!(files(folder.path()), [""; 0]);
}

/// What `npx` and `uvx` fetch must be a package with a version, when it comes by a tool over HTTP.
#[tokio::test]
async fn packages_that_are_added_over_http_have_a_name_and_a_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::serve_tools(LANDBRIDGE, json!({}), &["--allow-stdio-spawn"]).await;
    let client = ToolClient::http(&gateway).await;
    for runner in ["npx", "uvx"] {
        let program = folder.path().join(runner);
        std::os::unix::fs::symlink("/bin/false", &program).expect("a link");
        for args in [vec!["-y", "some-package"], vec!["-y", "../evil;x@1.0.0"], vec!["some-package@latest"], vec![]] {
            let reply = client.call("add_server", json!({ "name": "m", "command": program, "args": args })).await;
            let refused = ["FORBIDDEN", "INVALID_ARGUMENT"].contains(&reply.code());
            assert!(reply.is_error() && refused, "{runner} {args:?}: {reply}");
        }
    }
}

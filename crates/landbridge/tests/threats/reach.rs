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

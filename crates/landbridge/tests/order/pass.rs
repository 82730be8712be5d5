//! What we do not understand, we do not change.

use serde_json::{Value, json};

use crate::client::{Behind, Client, LEGACY, MODERN, PAIRS, Server};

/// Results with what this version of the protocol does not know.
const ODD: [&str; 5] = [
    r#"{"content":[{"type":"hologram","voxels":[1,2,3],"depth":0.10}]}"#,
    r#"{"content":[{"type":"text","text":"x","annotations":{"audience":["user","auditor"],"priority":1e-1}}]}"#,
    r#"{"content":[],"x-vendor/extension":{"deep":[{"a":null}]},"_meta":{"vendor.example/key":"\u00e9\/"}}"#,
    r#"{"content":[{"type":"resource","resource":{"uri":"ui://a","mimeType":"text/html;profile=mcp-app","text":""},"_meta":{"ui":{"csp":{}}}}]}"#,
    r#"{"content":[],"structuredContent":[1,"two",3.000],"isError":false,"future":true}"#,
];
/// The same for the modern era, with what it must carry.
const ODD_MODERN: [&str; 3] = [
    r#"{"resultType":"complete","content":[{"type":"hologram","voxels":[1,2,3]}],"x-vendor/extension":1.50}"#,
    r#"{"resultType":"input_required","inputRequests":{"login":{"method":"elicitation/create","params":{"mode":"url","url":"https://example.com/a?b=c","message":"Log in"}}}}"#,
    r#"{"resultType":"input_required","requestState":"only-state"}"#,
];

/// Calls the recorder, which answers with these results, and compares what arrives.
async fn check(version: &str, replies: &[&str], capabilities: Value) {
    for (wire, behind) in PAIRS {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
        std::fs::write(path("replies"), replies.iter().map(|reply| hex(reply)).collect::<String>()).expect("written");
        let (record, given) = (path("record"), path("replies"));
        let server = Server::of("recorder", behind, &["--record", &record, "--replies", &given]).await;
        let mut client = Client::start(wire, &server, version, capabilities.clone()).await;
        for reply in replies {
            let id = client.send("tools/call", json!({ "name": "record", "arguments": {} })).await;
            let got = match &mut client.end {
                crate::client::End::Stdio(stdio) => stdio.text().await.expect("a line"),
                crate::client::End::Http { http, .. } => {
                    http.head().await.expect("a reply");
                    String::from_utf8(http.body().await.expect("a body").0).expect("text")
                }
            };
            let want = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{reply}}}"#);
            assert_eq!(got, want, "{wire:?} {behind:?} {version}");
        }
    }
}

#[tokio::test]
async fn unknown_content_audiences_and_fields_pass_unchanged() {
    check(LEGACY, &ODD, json!({})).await;
    check("2025-06-18", &ODD, json!({})).await;
}

#[tokio::test]
async fn a_url_question_without_elicitation_id_and_unknown_fields_pass_unchanged() {
    check(MODERN, &ODD_MODERN, json!({ "elicitation": { "url": {} } })).await;
}

/// The same towards the server: what a client adds arrives as it was written.
#[tokio::test]
async fn unknown_parameters_reach_the_server_unchanged() {
    for behind in [Behind::Stdio, Behind::Http] {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("record").to_string_lossy().into_owned();
        let server = Server::of("recorder", behind, &["--record", &record]).await;
        let mut client = Client::start(crate::client::Wire::Http, &server, LEGACY, json!({})).await;
        let arguments = r#"{"a":1.50,"b":"\u00e9\/","c":[null,{"d":1e3}]}"#;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":{{"name":"record","arguments":{arguments},"x-vendor":[0.10]}}}}"#
        );
        let headers = client.headers_with(&[]);
        client.conn().post(crate::client::PATH, &headers, body.as_bytes()).await.expect("an answer");
        let record = std::fs::read_to_string(&record).expect("a record");
        let last = record.lines().last().expect("a line");
        let bytes: Vec<u8> = last
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16).expect("hex"))
            .collect();
        let text = String::from_utf8(bytes).expect("text");
        assert!(text.contains(&format!(r#""arguments":{arguments},"x-vendor":[0.10]"#)), "{behind:?}: {text}");
    }
}

//! A trace through several hops: every span's parent is the span of the hop before.

use std::sync::{Arc, Mutex};

use lb_peers::raw::endpoint::{self, Endpoint, Verdict};
use lb_peers::raw::handshake::{COMPLETE, Eras, Hello, UNCACHED};
use lb_peers::raw::http::RawHttp;
use lb_peers::raw::http1::{Conn, Head};
use lb_peers::raw::message;
use serde_json::json;
use tokio::task::JoinSet;

use crate::collector::{Collector, Manner, Span};
use crate::world::{Recorder, SOON, call, call_with, gateway, parsed, stdio_gateway, until};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";
const STATE: &str = "vendor=abc";
const SECRET: &str = "swordfish-7781";

fn traceparent() -> String {
    format!("00-{TRACE}-{CLIENT}-01")
}

fn said() -> String {
    format!(r#","traceparent":"{}","tracestate":"{STATE}","baggage":"k=v""#, traceparent())
}

fn borrowed<'a>(env: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    env.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// The spans from the client on, each the child of the one before.
fn chain(spans: &[Span], from: &str) -> Vec<Span> {
    let mut parent = from.to_owned();
    let mut chain = Vec::new();
    while let Some(next) = spans.iter().find(|span| span.parent == parent) {
        parent.clone_from(&next.id);
        chain.push(next.clone());
    }
    chain
}

async fn arrived(collector: &Collector, trace: &str, count: usize) -> Vec<Span> {
    let look = || Some(collector.spans(trace)).filter(|spans| count <= spans.len());
    until(SOON, &format!("{count} spans"), look).await
}

/// What the server behind all hops was told.
fn told(recorder: &Recorder) -> serde_json::Value {
    let calls = recorder.got("tools/call");
    assert_eq!(calls.len(), 1, "{calls:?}");
    parsed(&calls[0])["params"]["_meta"].clone()
}

fn assert_two_hops(collector: &Collector, spans: &[Span], recorder: &Recorder) {
    let chain = chain(spans, CLIENT);
    let seen: Vec<_> = chain.iter().map(|span| (span.service.as_str(), span.kind)).collect();
    assert_eq!(seen, [("outer", 2), ("outer", 3), ("inner", 2), ("inner", 3)], "{spans:#?}");
    let meta = told(recorder);
    let last = &chain[3].id;
    assert_eq!(meta["traceparent"], format!("00-{TRACE}-{last}-01"));
    assert_eq!((&meta["tracestate"], &meta["baggage"]), (&json!(STATE), &json!("k=v")));
    for span in &chain {
        assert_eq!(span.name, "tools/call look");
        assert_eq!(span.attribute("mcp.method.name"), Some("tools/call"));
        assert_eq!(span.attribute("gen_ai.tool.name"), Some("look"));
        assert_eq!(span.status, 0);
    }
    let secret = collector.with(|arrived| arrived.bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
    assert!(!secret, "arguments are not exported");
}

#[tokio::test]
async fn each_span_of_two_gateways_over_http_is_the_child_of_the_hop_before() {
    for era in ["modern", "legacy"] {
        let (collector, recorder) = (Collector::start(Manner::Takes).await, Recorder::new());
        let inner = collector.env("inner");
        let inner = gateway("server", json!({ "last": recorder.entry(era) }), &borrowed(&inner)).await;
        let outer = collector.env("outer");
        let servers = json!({ "next": { "url": inner.url("last") } });
        let outer = gateway("server", servers, &borrowed(&outer)).await;
        let mut http = RawHttp::connect(outer.address).await.unwrap();
        if era == "modern" {
            call(&mut http, "/mcp/server/next", "look", &json!({ "for": SECRET }), &said()).await;
        } else {
            let session = http.initialize("/mcp/server/next", "2025-11-25").await.unwrap();
            let params = format!(r#"{{"name":"look","arguments":{{"for":"{SECRET}"}},"_meta":{{"a":1{}}}}}"#, said());
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            http.post("/mcp/server/next", &session.headers(), body.as_bytes()).await.unwrap();
        }
        let spans = arrived(&collector, TRACE, 4).await;
        assert_two_hops(&collector, &spans, &recorder);
        let transports: Vec<_> = chain(&spans, CLIENT)
            .iter()
            .filter_map(|span| span.attribute("network.transport").map(str::to_owned))
            .collect();
        assert_eq!(transports, ["tcp", "pipe"]);
    }
}

#[tokio::test]
async fn each_span_is_the_child_of_the_hop_before_where_the_second_gateway_is_a_process() {
    let (collector, recorder) = (Collector::start(Manner::Takes).await, Recorder::new());
    let folder = tempfile::tempdir().unwrap();
    let (inner, outer) = (collector.env("inner"), collector.env("outer"));
    let inner = stdio_gateway(folder.path(), &recorder.entry("modern"), &borrowed(&inner));
    let outer = gateway("server", json!({ "next": inner }), &borrowed(&outer)).await;
    let mut http = RawHttp::connect(outer.address).await.unwrap();
    call(&mut http, "/mcp/server/next", "look", &json!({ "for": SECRET }), &said()).await;
    let spans = arrived(&collector, TRACE, 4).await;
    assert_two_hops(&collector, &spans, &recorder);
}

#[tokio::test]
async fn a_tool_call_of_the_surface_is_the_parent_of_what_it_calls() {
    let (collector, recorder) = (Collector::start(Manner::Takes).await, Recorder::new());
    let env = collector.env("only");
    let gateway = gateway("tools", json!({ "last": recorder.entry("modern") }), &borrowed(&env)).await;
    let mut http = RawHttp::connect(gateway.address).await.unwrap();
    let arguments = json!({ "server": "last", "tool": "look", "args": {} });
    call(&mut http, "/mcp", "execute_tool", &arguments, &said()).await;
    let chain = chain(&arrived(&collector, TRACE, 2).await, CLIENT);
    let names: Vec<_> = chain.iter().map(|span| (span.name.as_str(), span.kind)).collect();
    assert_eq!(names, [("tools/call execute_tool", 2), ("tools/call look", 3)]);
    assert_eq!(chain[1].attribute("landbridge.server"), Some("last"));
    let meta = told(&recorder);
    assert_eq!(meta["traceparent"], format!("00-{TRACE}-{}-01", chain[1].id));
    assert_eq!(meta["tracestate"], STATE, "it goes where the span goes");
}

#[tokio::test]
async fn a_header_is_taken_for_the_parent_and_the_message_goes_before_it() {
    let (collector, recorder) = (Collector::start(Manner::Takes).await, Recorder::new());
    let env = collector.env("only");
    let gateway = gateway("server", json!({ "last": recorder.entry("modern") }), &borrowed(&env)).await;
    let mut http = RawHttp::connect(gateway.address).await.unwrap();
    let (parent, other) = (traceparent(), traceparent().replace('0', "1").replacen("11-", "00-", 1));
    let path = "/mcp/server/last";
    call_with(&mut http, path, "look", &json!({}), "", &[("traceparent", &parent), ("tracestate", STATE)]).await;
    let spans = arrived(&collector, TRACE, 2).await;
    assert_eq!(chain(&spans, CLIENT).len(), 2);
    assert_eq!(told(&recorder)["tracestate"], STATE);
    call_with(&mut http, path, "look", &json!({}), &said(), &[("traceparent", &other)]).await;
    assert_eq!(arrived(&collector, TRACE, 4).await.len(), 4);
}

#[tokio::test]
async fn without_a_parent_a_trace_begins_and_errors_are_marked() {
    let (collector, recorder) = (Collector::start(Manner::Takes).await, Recorder::new());
    let env = collector.env("only");
    let servers = json!({ "last": recorder.entry("modern"), "far": { "url": "http://127.0.0.1:9/mcp" } });
    let gateway = gateway("tools", servers, &borrowed(&env)).await;
    let mut http = RawHttp::connect(gateway.address).await.unwrap();
    call(&mut http, "/mcp/server/last", "look", &json!({}), "").await;
    let begun = || collector.with(|all| all.spans.iter().find(|span| span.parent.is_empty()).cloned());
    let root = until(SOON, "a root", begun).await;
    assert_eq!(arrived(&collector, &root.trace, 2).await.len(), 2);
    assert_ne!(root.trace, TRACE);
    call(&mut http, "/mcp/server/far", "look", &json!({}), &said()).await;
    for span in arrived(&collector, TRACE, 2).await {
        assert_eq!(span.status, 2, "{span:?}");
        assert!(span.attribute("error.type").is_some(), "{span:?}");
    }
}

#[tokio::test]
async fn without_export_every_byte_passes_as_it_came() {
    for era in ["modern", "legacy"] {
        let recorder = Recorder::new();
        let gateway = gateway("server", json!({ "last": recorder.entry(era) }), &[]).await;
        let mut http = RawHttp::connect(gateway.address).await.unwrap();
        let parent = traceparent();
        for (meta, header) in [("", false), ("", true), (said().as_str(), false), (said().as_str(), true)] {
            let headers: &[(&str, &str)] =
                if header { &[("traceparent", &parent), ("tracestate", STATE)] } else { &[] };
            let before = recorder.got("tools/call").len();
            if era == "modern" {
                call_with(&mut http, "/mcp/server/last", "look", &json!({}), meta, headers).await;
            } else {
                let session = http.initialize("/mcp/server/last", "2025-11-25").await.unwrap();
                let params = format!(r#"{{"name":"look","arguments":{{}}  ,"_meta":{{"a":1{meta}}}}}"#);
                let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
                let mut all = session.headers();
                all.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
                http.post("/mcp/server/last", &all, body.as_bytes()).await.unwrap();
            }
            let got = recorder.got("tools/call").pop().filter(|_| recorder.got("tools/call").len() == before + 1);
            let got = got.expect("one more call");
            let params = match era {
                "modern" => {
                    let meta = lb_peers::raw::http::modern_meta(meta);
                    format!(r#""params":{{"name":"look","arguments":{{}},"_meta":{meta}}}"#)
                }
                _ => format!(r#""params":{{"name":"look","arguments":{{}}  ,"_meta":{{"a":1{meta}}}}}"#),
            };
            assert!(got.contains(&params), "{got}\nhas no\n{params}");
        }
    }
}

/// A server over HTTP may look for the span in the headers, as other programs do.
#[tokio::test]
async fn a_server_over_http_is_told_the_span_in_a_header_too() {
    let collector = Collector::start(Manner::Takes).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let heads = Arc::<Mutex<Vec<Head>>>::default();
    let mut serving = JoinSet::new();
    serving.spawn(write_heads_down(listener, heads.clone()));
    let env = collector.env("only");
    let gateway = gateway("server", json!({ "far": { "url": url } }), &borrowed(&env)).await;
    let mut http = RawHttp::connect(gateway.address).await.unwrap();
    call(&mut http, "/mcp/server/far", "look", &json!({}), &said()).await;
    let chain = chain(&arrived(&collector, TRACE, 2).await, CLIENT);
    let heads = heads.lock().unwrap();
    let head = heads.iter().find(|head| head.header("mcp-method") == Some("tools/call")).expect("the call came");
    assert_eq!(head.header("traceparent"), Some(format!("00-{TRACE}-{}-01", chain[1].id).as_str()));
    assert_eq!(head.header("tracestate"), Some(STATE));
}

async fn write_heads_down(listener: tokio::net::TcpListener, heads: Arc<Mutex<Vec<Head>>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(answer_plainly(Conn::new(stream), heads.clone()));
    }
}

async fn answer_plainly(mut conn: Conn, heads: Arc<Mutex<Vec<Head>>>) {
    let hello = Hello { name: "far", eras: Eras::Modern };
    let endpoint: Endpoint<()> = Endpoint::new(hello);
    while let Ok(Some((head, body))) = endpoint::read(&mut conn).await {
        let reply = match endpoint.admit(&head, &body) {
            Verdict::Reply(bytes) => bytes,
            Verdict::OneWay(_) | Verdict::Stream(_) => endpoint::accepted(),
            Verdict::Request { message, .. } => {
                let result = match message.method() {
                    "server/discover" => hello.discover(),
                    "tools/list" => format!(r#"{{{COMPLETE}{UNCACHED}"tools":[]}}"#),
                    _ => format!(r#"{{{COMPLETE}"content":[]}}"#),
                };
                let id = message.id.clone().unwrap_or_default();
                endpoint::json(200, None, message::result(&id, &result).as_bytes())
            }
        };
        heads.lock().expect("nobody panicked with it").push(head);
        if conn.write(&reply).await.is_err() {
            return;
        }
    }
}

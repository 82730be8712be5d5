//! Collectors that are slow, broken or gone, and what is told at the end.

use std::time::{Duration, Instant};

use lb_peers::raw::http::RawHttp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::LANDBRIDGE;
use crate::collector::{Collector, Manner};
use crate::world::{Recorder, SOON, call, gateway, until};

fn borrowed<'a>(env: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    env.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

fn terminate(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, Signal::TERM).expect("it is there");
}

#[tokio::test]
async fn no_call_waits_for_a_collector_and_no_call_fails_with_it() {
    let (silent, refusing) = (Collector::start(Manner::Silent).await, Collector::start(Manner::Refuses).await);
    let mut gone = refusing.env("x");
    gone[0].1 = "http://127.0.0.1:9".to_owned();
    for env in [silent.env("x"), refusing.env("x"), gone] {
        let recorder = Recorder::new();
        let mut gateway = gateway("server", json!({ "last": recorder.entry("modern") }), &borrowed(&env)).await;
        let mut http = RawHttp::connect(gateway.address).await.unwrap();
        call(&mut http, "/mcp/server/last", "look", &json!({}), "").await;
        let begun = Instant::now();
        for _ in 0..100 {
            let answer = call(&mut http, "/mcp/server/last", "look", &json!({}), "").await;
            assert!(answer["result"].is_object(), "{answer}");
        }
        // The collector alone could hold each of them for ten seconds.
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        let pid = gateway.pid();
        terminate(pid);
        let ended = tokio::time::timeout(SOON, gateway.child().wait()).await;
        assert!(ended.is_ok_and(|status| status.is_ok_and(|status| status.success())), "{}", gateway.said());
        let complaints = gateway.said().matches("collector").count();
        assert!((1..=2).contains(&complaints), "said once, and at the end: {}", gateway.said());
    }
}

#[tokio::test]
async fn what_is_left_is_sent_at_the_end() {
    let (collector, recorder) = (Collector::start(Manner::Takes).await, Recorder::new());
    let mut env = collector.env("x");
    env[2].1 = "3600000".to_owned();
    env.push(("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b".to_owned()));
    let mut gateway = gateway("server", json!({ "last": recorder.entry("modern") }), &borrowed(&env)).await;
    let mut http = RawHttp::connect(gateway.address).await.unwrap();
    call(&mut http, "/mcp/server/last", "look", &json!({}), "").await;
    assert!(collector.with(|arrived| arrived.requests.is_empty()), "it waits for an hour");
    terminate(gateway.pid());
    assert!(tokio::time::timeout(SOON, gateway.child().wait()).await.is_ok());
    let look = || collector.with(|arrived| (arrived.spans.len() == 2 && !arrived.metrics.is_empty()).then_some(()));
    until(SOON, "spans and metrics", look).await;
    collector.with(|arrived| {
        for wanted in ["landbridge_requests_total", "landbridge_shed_total", "landbridge_log_lines_dropped_total"] {
            assert!(arrived.metrics.iter().any(|name| name == wanted), "{wanted}: {:?}", arrived.metrics);
        }
        assert!(arrived.requests.iter().all(|head| head.contains("a b")), "{:?}", arrived.requests);
        assert!(arrived.requests.iter().all(|head| head.contains("application/x-protobuf")));
    });
}

#[tokio::test]
async fn metrics_are_pushed_at_their_interval() {
    let collector = Collector::start(Manner::Takes).await;
    let mut env = collector.env("x");
    env.push(("OTEL_METRIC_EXPORT_INTERVAL", "50".to_owned()));
    let _gateway = gateway("tools", json!({}), &borrowed(&env)).await;
    let twice = || {
        let count = collector.with(|all| all.metrics.iter().filter(|name| *name == "mcp_active_sessions").count());
        (2 <= count).then_some(())
    };
    until(SOON, "metrics twice", twice).await;
}

#[test]
fn a_variable_that_cannot_be_used_is_refused_at_the_start() {
    for (name, value) in [("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4317"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")] {
        let output = std::process::Command::new(LANDBRIDGE)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
            .env(name, value)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(name), "{said}");
    }
}

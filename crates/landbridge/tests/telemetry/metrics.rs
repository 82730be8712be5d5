//! `/metrics`, read by the parser of Prometheus' own client library.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use lb_peers::installed;
use lb_peers::raw::http::{RawHttp, headers};
use serde_json::Value;

use crate::world::parsed;

/// All series: name, labels and value.
pub struct Scrape {
    pub types: BTreeMap<String, String>,
    series: BTreeMap<(String, String), f64>,
}

impl Scrape {
    /// Reads the page and parses it.
    pub async fn of(address: SocketAddr) -> Self {
        let mut http = RawHttp::connect(address).await.expect("a connection");
        let host = headers(&[]);
        let page = http.request("GET", "/metrics", &host, b"").await.expect("a page");
        assert_eq!(page.head.status(), 200, "{}", page.text());
        assert_eq!(page.head.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let text = page.text();
        tokio::task::spawn_blocking(move || Self::parse(&text)).await.expect("it is parsed")
    }

    fn parse(text: &str) -> Self {
        let mut child = Command::new(installed::file("prometheus", "bin/python"))
            .arg(format!("{}/tests/telemetry/parse.py", env!("CARGO_MANIFEST_DIR")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the parser starts");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "the parser refuses\n{text}");
        let found = parsed(&String::from_utf8(output.stdout).expect("text"));
        let (mut types, mut series) = (BTreeMap::new(), BTreeMap::new());
        for family in found.as_array().expect("families") {
            let name = family["name"].as_str().expect("a name").to_owned();
            assert_ne!(family["help"], "", "{name} is explained");
            let twice = types.insert(name.clone(), family["type"].as_str().expect("a type").to_owned());
            assert_eq!(twice, None, "{name} comes once");
            for sample in family["samples"].as_array().expect("samples") {
                let key = (sample[0].as_str().expect("a name").to_owned(), sample[1].to_string());
                let twice = series.insert(key.clone(), sample[2].as_f64().expect("a number"));
                assert_eq!(twice, None, "{key:?} comes once");
            }
        }
        Self { types, series }
    }

    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// The value of a series with these labels, in any order.
    pub fn value(&self, name: &str, labels: &Value) -> Option<f64> {
        let found = self.series.iter().find(|((known, with), _)| known == name && parsed(with) == *labels);
        found.map(|(_, value)| *value)
    }

    /// All values of a label.
    pub fn labels(&self, label: &str) -> BTreeSet<String> {
        let values = self.series.keys().filter_map(|(_, labels)| parsed(labels)[label].as_str().map(str::to_owned));
        values.collect()
    }
}

mod peer_prometheus {
    use lb_peers::harness::{HttpPeer, peer};
    use lb_peers::raw::http::{RawHttp, headers, post_headers};
    use serde_json::{Value, json};

    use super::Scrape;
    use crate::LANDBRIDGE;
    use crate::world::{Recorder, call, gateway};

    fn requests(scrape: &Scrape, server: &str, method: &str, outcome: &str) -> Option<f64> {
        let labels = json!({ "server": server, "method": method, "outcome": outcome });
        scrape.value("landbridge_requests_total", &labels)
    }

    #[tokio::test]
    async fn every_configured_server_has_its_own_series_from_the_start() {
        let recorder = Recorder::new();
        let servers = json!({ "one": recorder.entry("legacy"), "two": recorder.entry("modern"), "far": { "url": "http://127.0.0.1:9/mcp" } });
        let gateway = gateway("tools", servers, &[]).await;
        let scrape = Scrape::of(gateway.address).await;
        for (name, kind) in [
            ("mcp_active_sessions", "gauge"),
            ("landbridge_requests", "counter"),
            ("landbridge_request_seconds", "histogram"),
            ("landbridge_children", "gauge"),
            ("landbridge_breaker_open", "gauge"),
            ("landbridge_events_dropped", "counter"),
            ("landbridge_store_up", "gauge"),
            ("landbridge_shed", "counter"),
            ("landbridge_forwarded", "counter"),
            ("landbridge_log_lines_dropped", "counter"),
            ("process_resident_memory_bytes", "gauge"),
            ("process_open_fds", "gauge"),
            ("process_start_time_seconds", "gauge"),
            ("process_cpu_seconds", "counter"),
        ] {
            assert_eq!(scrape.types.get(name).map(String::as_str), Some(kind), "{name} in {:?}", scrape.types);
        }
        assert_eq!(scrape.value("landbridge_store_up", &json!({})), Some(1.0));
        for server in ["one", "two", "far"] {
            assert_eq!(requests(&scrape, server, "tools/call", "ok"), Some(0.0), "{server}");
            let labels = json!({ "server": server });
            assert_eq!(scrape.value("landbridge_request_seconds_count", &labels), Some(0.0), "{server}");
            assert_eq!(scrape.value("landbridge_children", &labels), Some(0.0), "{server}");
            assert_eq!(scrape.value("landbridge_breaker_open", &labels), Some(0.0), "{server}");
        }
        let all = ["far", "landbridge", "one", "two"].map(str::to_owned);
        assert_eq!(scrape.labels("server"), all.into());
    }

    #[tokio::test]
    async fn calls_count_for_their_server_on_every_way_to_it() {
        let recorder = Recorder::new();
        let servers = json!({
            "demo": { "command": peer(LANDBRIDGE, "fixture"), "args": ["--era", "dual"] },
            "any": recorder.entry("modern"),
        });
        let gateway = gateway("tools", servers, &[]).await;
        let mut http = RawHttp::connect(gateway.address).await.unwrap();
        // Its own path, modern and legacy.
        call(&mut http, "/mcp/server/demo", "echo", &json!({ "message": "a" }), "").await;
        let session = http.initialize("/mcp/server/demo", "2025-11-25").await.unwrap();
        let body =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"a"}}}"#;
        http.post("/mcp/server/demo", &session.headers(), body.as_bytes()).await.unwrap();
        let body = r#"{"jsonrpc":"2.0","id":2,"method":"made/up","params":{}}"#;
        http.post("/mcp/server/demo", &session.headers(), body.as_bytes()).await.unwrap();
        // The surface of tools.
        let arguments = json!({ "server": "demo", "tool": "echo", "args": { "message": "a" } });
        let passed = call(&mut http, "/mcp", "execute_tool", &arguments, "").await;
        assert_ne!(passed["result"]["isError"], true, "{passed}");
        let failed = call(&mut http, "/mcp", "execute_tool", &json!({ "server": "nobody", "tool": "x" }), "").await;
        assert_eq!(failed["result"]["isError"], true, "{failed}");

        let scrape = Scrape::of(gateway.address).await;
        assert_eq!(requests(&scrape, "demo", "tools/call", "ok"), Some(3.0));
        assert_eq!(requests(&scrape, "demo", "initialize", "ok"), Some(1.0));
        assert_eq!(requests(&scrape, "demo", "other", "error"), Some(1.0));
        assert_eq!(requests(&scrape, "landbridge", "tools/call", "ok"), Some(1.0));
        assert_eq!(requests(&scrape, "landbridge", "tools/call", "tool_error"), Some(1.0));
        assert_eq!(requests(&scrape, "any", "tools/call", "ok"), Some(0.0));
        assert!(scrape.value("landbridge_request_seconds_sum", &json!({ "server": "demo" })) > Some(0.0));
        assert!(scrape.value("landbridge_children", &json!({ "server": "demo" })) > Some(0.0));
        assert_eq!(scrape.value("landbridge_sessions", &json!({ "surface": "server" })), Some(1.0));
        assert!(scrape.labels("method").iter().all(|method| method != "made/up"));
    }

    fn shed(scrape: &Scrape, reason: &str) -> Option<f64> {
        scrape.value("landbridge_shed_total", &json!({ "reason": reason }))
    }

    #[tokio::test]
    async fn what_there_was_no_room_for_is_counted_by_reason() {
        let env = [("LANDBRIDGE_MAX_SESSIONS", "1"), ("LANDBRIDGE_LOG_FILE", "/dev/full")];
        let gateway = gateway("tools", json!({ "any": Recorder::new().entry("legacy") }), &env).await;
        let before = Scrape::of(gateway.address).await;
        for reason in ["rate", "busy", "in_flight", "bodies", "sessions", "stopping", "connections"] {
            assert_eq!(shed(&before, reason), Some(0.0), "{reason}");
        }
        let mut http = RawHttp::connect(gateway.address).await.unwrap();
        http.initialize("/mcp", "2025-11-25").await.unwrap();
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
        for _ in 0..3 {
            let refused = http.post("/mcp", &post_headers(), hello.to_string().as_bytes()).await.unwrap();
            assert_eq!(refused.head.status(), 503, "{}", refused.text());
        }
        let after = Scrape::of(gateway.address).await;
        assert_eq!((shed(&after, "sessions"), shed(&after, "rate")), (Some(3.0), Some(0.0)));
        // The session that was made is a line that the full disk did not take.
        assert!(Some(1.0) <= after.value("landbridge_log_lines_dropped_total", &json!({})));
    }

    #[tokio::test]
    async fn whoever_asks_too_often_is_counted() {
        let env = [("LANDBRIDGE_RATE_LIMIT_MAX", "5"), ("LANDBRIDGE_RATE_LIMIT_WINDOW", "2s")];
        let gateway = gateway("tools", json!({ "any": Recorder::new().entry("legacy") }), &env).await;
        let mut http = RawHttp::connect(gateway.address).await.unwrap();
        let mut refused = 0.0;
        for _ in 0..20 {
            let answer = http.post("/mcp", &post_headers(), b"{}").await.unwrap();
            refused += f64::from(u8::from(answer.head.status() == 429));
        }
        assert!(5.0 < refused, "{refused}");
        // The page counts as a request too.
        let page = loop {
            let page = http.request("GET", "/metrics", &headers(&[]), b"").await.unwrap();
            if page.head.status() != 429 {
                break page.text();
            }
            refused += 1.0;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        };
        assert!(page.contains(&format!("landbridge_shed_total{{reason=\"rate\"}} {refused}")), "{refused}: {page}");
    }

    #[tokio::test]
    async fn a_hundred_thousand_tool_names_add_no_series() {
        const PER_BATCH: usize = 50;
        let recorder = Recorder::new();
        let gateway = gateway("tools", json!({ "any": recorder.entry("legacy") }), &[]).await;
        let mut http = RawHttp::connect(gateway.address).await.unwrap();
        let tools = http.initialize("/mcp", "2025-03-26").await.unwrap();
        let own = http.initialize("/mcp/server/any", "2025-03-26").await.unwrap();
        let mut random = Random(7);
        let request = |id: usize, method: &str, name: &str, arguments: &Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "name": name, "arguments": arguments } });
        // One of each first: series that have been used are shown from then on.
        for (path, session) in [("/mcp", &tools), ("/mcp/server/any", &own)] {
            let batch = json!([
                request(1, "tools/call", "x", &json!({})),
                request(2, "made/up", "x", &json!({})),
                request(3, "tools/call", "execute_tool", &json!({ "server": "x", "tool": "x" })),
            ]);
            http.post(path, &session.headers(), batch.to_string().as_bytes()).await.unwrap();
        }
        let before = Scrape::of(gateway.address).await;
        for _ in 0..100_000 / PER_BATCH {
            let batch: Vec<_> =
                (0..PER_BATCH).map(|id| request(id, "tools/call", &random.name(), &json!({}))).collect();
            let response =
                http.post("/mcp", &tools.headers(), Value::from(batch).to_string().as_bytes()).await.unwrap();
            assert_eq!(response.head.status(), 200, "{}", response.text());
        }
        for _ in 0..40 {
            let more = |id: usize, random: &mut Random| match id % 3 {
                0 => request(id, "tools/call", &random.name(), &json!({})),
                1 => request(id, &random.name(), "x", &json!({})),
                _ => {
                    let arguments = json!({ "server": random.name(), "tool": random.name() });
                    request(id, "tools/call", "execute_tool", &arguments)
                }
            };
            for (path, session) in [("/mcp", &tools), ("/mcp/server/any", &own)] {
                let batch: Vec<_> = (0..PER_BATCH).map(|id| more(id, &mut random)).collect();
                http.post(path, &session.headers(), Value::from(batch).to_string().as_bytes()).await.unwrap();
            }
        }
        let after = Scrape::of(gateway.address).await;
        assert_eq!(after.len(), before.len());
        assert_eq!(after.labels("server"), before.labels("server"));
        let counted = requests(&after, "landbridge", "tools/call", "error").unwrap_or_default();
        assert!(100_000.0 <= counted, "they were counted: {counted}");
    }

    #[tokio::test]
    async fn servers_that_are_added_appear_and_removed_ones_disappear() {
        let gateway = gateway("tools", json!({}), &[]).await;
        let remote = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &["--era", "dual"]).await;
        let mut http = RawHttp::connect(gateway.address).await.unwrap();
        let added = call(&mut http, "/mcp", "add_server", &json!({ "name": "late", "url": remote.url() }), "").await;
        assert_ne!(added["result"]["isError"], true, "{added}");
        let scrape = Scrape::of(gateway.address).await;
        assert_eq!(requests(&scrape, "late", "tools/call", "ok"), Some(0.0));
        let session = json!({ "name": "late", "server": "late" });
        let removed = call(&mut http, "/mcp", "remove_server", &session, "").await;
        assert_ne!(removed["result"]["isError"], true, "{removed}");
        let scrape = Scrape::of(gateway.address).await;
        assert_eq!(scrape.labels("server"), ["landbridge".to_owned()].into());
    }

    #[tokio::test]
    async fn the_page_is_for_operators() {
        let gateway = gateway("tools", json!({}), &[]).await;
        let mut http = RawHttp::connect(gateway.address).await.unwrap();
        let through_proxy = headers(&[("X-Forwarded-For", "192.0.2.1")]);
        let refused = http.request("GET", "/metrics", &through_proxy, b"").await.unwrap();
        assert_eq!(refused.head.status(), 403);
        let posted = http.post("/metrics", &post_headers(), b"{}").await.unwrap();
        assert_eq!(posted.head.status(), 405);
    }

    /// Names that a stranger may think of.
    struct Random(u64);

    impl Random {
        fn name(&mut self) -> String {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("t{:x}", self.0 >> 16)
        }
    }
}

//! How values are read.

use std::time::Duration;

use proptest::prelude::*;

use super::{settle, told};
use crate::settings::check;

/// Which of these a check takes.
fn taken<'a, T, E>(parse: impl Fn(&str) -> Result<T, E>, texts: &[&'a str]) -> Vec<&'a str> {
    texts.iter().copied().filter(|text| parse(text).is_ok()).collect()
}

#[test]
fn an_address_has_a_host_and_a_port() {
    let good = ["127.0.0.1:0", "localhost:65535", "[::1]:80", "0.0.0.0:8080", "unix:/run/x.sock"];
    assert_eq!(taken(check::listen, &good), good);
    let bad = ["", "9999", ":9999", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:+1", "[x]:1", "unix:"];
    assert_eq!(taken(check::listen, &["unix:x", "unix:x/y.sock", "unix:~/x.sock", "unix:/run/"]), [""; 0]);
    assert_eq!(taken(check::listen, &bad), [""; 0]);
    assert_eq!(taken(check::listen, &["http://localhost:1", "localhost:1/mcp"]), [""; 0]);
}

#[test]
fn hosts_and_origins_are_written_as_requests_carry_them() {
    let good = ["mcp.example.com", "192.0.2.2", "[2001:db8::1]", "*"];
    assert_eq!(taken(check::host, &good), good);
    assert_eq!(check::host("Mcp.Example"), Ok("mcp.example".to_owned()));
    let bad = ["", "http://mcp.example.com", "mcp.example.com/", "mcp.example.com:80", "2001:db8::1", "a b", "[x]"];
    assert_eq!(taken(check::host, &bad), [""; 0]);
    let good = ["https://app.example.com", "http://192.0.2.2:3000", "vscode-webview://abc", "*"];
    assert_eq!(taken(check::origin, &good), good);
    let bad = ["", "app.example.com", "https://", "://a", "https://a/", "https://a/b", "https://b@a", "null"];
    assert_eq!(taken(check::origin, &bad), [""; 0]);
}

#[test]
fn a_level_is_one_of_the_words_or_a_filter() {
    let good = ["", "off", "error", "WARN", "info", "debug", "trace", "info,lb_backend=debug", "lb_http=off"];
    assert_eq!(taken(check::level, &good), good);
    assert_eq!(taken(check::level, &["verbose", "warning", "info,loud", "lb_http=loud", "=", "7"]), [""; 0]);
}

#[test]
fn networks_paths_and_urls_are_checked() {
    let good = ["10.0.0.0/8", "192.0.2.1", "::1", "2001:db8::/32"];
    assert_eq!(taken(check::network, &good), good);
    assert_eq!(taken(check::network, &["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/+8"]), [""; 0]);
    for (slip, hint) in [("10.0.0.7/8", "give 10.0.0.0/8 "), ("2001:db8::1/32", "give 2001:db8::/32 ")] {
        let told = check::network(slip).unwrap_err();
        assert!(told.starts_with(hint), "{slip}: {told}");
    }
    assert_eq!(taken(check::network, &["0.0.0.0/0", "::/0", "10.0.0.7/32"]), ["0.0.0.0/0", "::/0", "10.0.0.7/32"]);
    let near = ["/sessions/mcp", "/metrics/x", "/waterfall/a/b", "/health/x", "/ping/x", "/sessionsx", "/pings/x"];
    assert_eq!(taken(check::mcp_path, &near), ["/sessionsx", "/pings/x"]);
    assert_eq!(
        taken(check::mcp_path, &["/mcp", "/a/b", "mcp", "/", "/a/", "/a//b", "/health", "/ä"]),
        ["/mcp", "/a/b"]
    );
    let good = ["https://mcp.example.com", "http://[::1]:1", "https://a:8443/"];
    assert_eq!(taken(check::public_url, &good), good);
    assert_eq!(
        taken(check::public_url, &["mcp.example.com", "ftp://a", "https://", "https://a/b", "https://*"]),
        ["https://*"]
    );
}

#[test]
fn lists_are_json_arrays_or_commas() {
    let origins = |text: &str| {
        let (settings, gathered) = settle(&[], &[("MCP_CONFIG_SERVER_HTTP_CORS_ORIGINS", text)], "");
        assert_eq!(told(&gathered), [""; 0], "{text}");
        settings.allow_origin
    };
    let both = ["https://a.example", "https://b.example"];
    assert_eq!(origins(r#"["https://a.example", "https://b.example"]"#), both);
    assert_eq!(origins("https://a.example, https://b.example,"), both);
    assert_eq!(origins("[]"), [""; 0]);
    let (_, gathered) = settle(&[], &[("CORS_ORIGINS", "[\"https://a\"")], "");
    assert!(told(&gathered).join("").contains("give a JSON array of texts"), "{:?}", told(&gathered));
    let (settings, gathered) = settle(&[("allow_host", "[2001:db8::1],b")], &[], "allow_origin = [\"https://a\"]\n");
    assert_eq!(told(&gathered), [""; 0]);
    assert_eq!(
        (settings.allow_host, settings.allow_origin),
        (vec!["[2001:db8::1]".into(), "b".into()], vec!["https://a".into()])
    );
}

#[test]
fn times_take_units_and_old_names_count_milliseconds() {
    let time = |name: &str, text: &str| settle(&[], &[(name, text)], "").0.session_ttl;
    for (text, want) in [("90", 90_000), ("90s", 90_000), ("1500ms", 1_500), ("2m", 120_000), ("1h", 3_600_000)] {
        assert_eq!(time("LANDBRIDGE_SESSION_TTL", text), Duration::from_millis(want), "{text}");
    }
    assert_eq!(time("SESSION_TTL_MS", "1500"), Duration::from_millis(1_500));
    assert_eq!(time("MCP_CONFIG_STORAGE_SESSION_TTL", "60"), Duration::from_secs(60));
    for bad in ["", "0", "-1", "1.5s", "1 year", "99999999999999999999", "18446744073709551615h", "400d"] {
        let (_, gathered) = settle(&[], &[("LANDBRIDGE_SESSION_TTL", bad)], "");
        assert_eq!(gathered.is_broken(), !bad.is_empty(), "{bad}");
    }
}

#[test]
fn values_of_files_have_the_right_kind() {
    let (settings, gathered) =
        settle(&[], &[], "port = 0x1F90\nrecord_args = true\nquiet_timeout = 5\nmax_body = \"2048\"\n");
    assert_eq!(told(&gathered), [""; 0]);
    assert_eq!((settings.record_args, settings.quiet_timeout.as_secs(), settings.body_bytes_max), (true, 5, 2_048));
    for (toml, says) in [
        ("port = 1.5", "landbridge.toml:1: port: give a whole number from 1 to 65535"),
        ("\nname = 7", "landbridge.toml:2: name: 7 cannot be used: give a text, in quotes"),
        ("record_args = 1", "give true or false"),
        ("[listen]\nhost = \"x\"", "listen: give a text, not a section"),
        ("port = ", "landbridge.toml:1:"),
        ("port = 1\nport = 2", "duplicate key"),
        ("mcpServers = 1", "config = \"mcp.json\""),
        ("log_levl = \"info\"", "did you mean log_level?"),
    ] {
        let (_, gathered) = settle(&[], &[], toml);
        assert!(gathered.is_broken() && told(&gathered).join("\n").contains(says), "{toml}: {:?}", told(&gathered));
    }
}

proptest! {
    #[test]
    fn no_text_of_a_file_makes_it_panic(text in "[a-z_]{0,12} ?=? ?[\\PC\n]{0,40}") {
        let (_, gathered) = settle(&[], &[], &text);
        prop_assert!(told(&gathered).len() < 1_000);
    }

    #[test]
    fn no_value_makes_it_panic(value in "\\PC{0,40}", key in 0..40_usize) {
        let setting = &crate::settings::table()[key];
        let (_, gathered) = settle(&[(setting.key, &value)], &[(&setting.variable(), &value)], "");
        prop_assert!(told(&gathered).len() < 10);
    }
}

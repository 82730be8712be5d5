//! Whole files: what is read, and what their writers are told.

mod auth;
mod disk;
mod told;

use std::path::{Path, PathBuf};
use std::time::Duration;

use lb_exchange::{Isolation, Restart, Secret, ServerSpec, Target, Transport};
use proptest::prelude::*;

use crate::{Loaded, Problem, fuzz_parse, parse};

fn read(text: &str) -> Result<Loaded, Vec<Problem>> {
    let env = |name: &str| match name {
        "HOME" => Some("/home/a".to_owned()),
        "TOKEN" => Some("hunter2".to_owned()),
        "BREAK" => Some("a\r\nX-Evil: 1".to_owned()),
        "NUL" => Some("a\0b".to_owned()),
        _ => None,
    };
    parse(text, Path::new("conf/mcp.json"), &env)
}

fn shown(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// The servers of a file that is good without a remark.
fn servers(text: &str) -> Vec<ServerSpec> {
    let loaded = read(text).unwrap_or_else(|problems| panic!("input {text}\n{}", shown(&problems)));
    let remarks = [loaded.warnings, loaded.left_out].concat();
    assert!(remarks.is_empty(), "input {text}\n{}", shown(&remarks));
    loaded.servers
}

fn only(text: &str) -> ServerSpec {
    let mut servers = servers(text);
    assert_eq!(servers.len(), 1, "input {text}");
    servers.remove(0)
}

fn pair(name: &str, value: &str) -> (String, Secret) {
    (name.into(), Secret::new(value))
}

#[test]
fn the_three_shapes_mean_the_same() {
    let entry = r#""command": "git-mcp", "args": ["--root", "."]"#;
    let shapes = [
        format!(r#"{{"mcpServers": {{"git": {{{entry}}}}}}}"#),
        format!(r#"{{"servers": {{"git": {{"type": "stdio", {entry}}}}}}}"#),
        format!(r#"{{"servers": [{{"name": "git", {entry}}}]}}"#),
    ];
    let read: Vec<ServerSpec> = shapes.iter().map(|text| only(text)).collect();
    assert_eq!(read[0], read[1]);
    assert_eq!(read[0], read[2]);
    assert_eq!(read[0].name.as_str(), "git");
}

#[test]
fn a_child_has_its_defaults() {
    let spec = only(r#"{"mcpServers": {"git": {"command": "git-mcp"}}}"#);
    let target = Target::Child { command: "git-mcp".into(), args: vec![], env: vec![], cwd: None, inherit_env: false };
    assert_eq!(spec, ServerSpec::new(spec.name.clone(), target));
    assert_eq!((spec.isolation, spec.timeout, spec.disabled), (Isolation::Session, None, false));
}

#[test]
fn every_key_of_a_child_is_read_and_expanded() {
    let spec = only(
        r#"{
        // as pasted
        "$schema": "https://example.com/schema.json",
        "mcpServers": {
            "git": {
                "type": "stdio",
                "command": "${HOME}/bin/git-mcp",
                "args": ["--token", "${env:TOKEN}", "$${TOKEN}", "${NONE:-none}"],
                "env": {"GIT_TOKEN": "${TOKEN}", "LEVEL": "debug"},
                "cwd": "work/tree",
                "inherit_env": true,
                "isolation": "shared",
                "timeout_ms": 1500,
                "disabled": true,
                "restartConfig": {"enabled": false, "maxAttempts": 2, "baseDelayMs": 10, "maxDelayMs": 20,
                                  "backoffMultiplier": 1.5}, /* the end */
            },
        },
    }"#,
    );
    let target = Target::Child {
        command: "/home/a/bin/git-mcp".into(),
        args: ["--token", "hunter2", "${TOKEN}", "none"].map(String::from).to_vec(),
        env: vec![pair("GIT_TOKEN", "hunter2"), pair("LEVEL", "debug")],
        cwd: Some(PathBuf::from("conf/work/tree")),
        inherit_env: true,
    };
    let restart = Restart {
        enabled: false,
        attempts_max: 2,
        delay_first: Duration::from_millis(10),
        delay_max: Duration::from_millis(20),
        delay_factor: 1.5,
        ..Restart::default()
    };
    let timeout = Some(Duration::from_millis(1500));
    let plain = ServerSpec::new(spec.name.clone(), target);
    let want = ServerSpec { isolation: Isolation::Shared, timeout, restart, disabled: true, ..plain };
    assert_eq!(spec, want);
}

#[test]
fn what_is_kept_of_a_server_is_read() {
    let spec = only(
        r#"{"mcpServers": {"a": {"command": "a", "cached": true, "idle_timeout": 90, "max_age": 60,
            "isolation": "shared", "pool": 3}}}"#,
    );
    assert!(spec.cached);
    assert_eq!(spec.idle_timeout, Some(Duration::from_secs(90)));
    assert_eq!((spec.max_age, spec.pool), (Duration::from_secs(60), 3));
    let spec = only(r#"{"mcpServers": {"a": {"command": "a", "idle_timeout": 0}}}"#);
    assert_eq!((spec.cached, spec.idle_timeout, spec.max_age, spec.pool), (false, None, ServerSpec::MAX_AGE, 1));
}

#[test]
fn every_type_of_an_http_server_is_read() {
    for (kind, transport) in [
        ("", Transport::Found),
        (r#""type": "http","#, Transport::Found),
        (r#""type": "streamable-http","#, Transport::Found),
        (r#""type": "streamableHttp","#, Transport::Found),
        (r#""type": "sse","#, Transport::Sse),
    ] {
        let text = format!(
            r#"{{"mcpServers": {{"hub": {{{kind} "url": "https://${{NONE:-example.com}}/mcp?k=${{TOKEN}}",
                "headers": {{"Authorization": "Bearer ${{TOKEN}}", "X-Team": "a"}}}}}}}}"#
        );
        let headers = vec![pair("Authorization", "Bearer hunter2"), pair("X-Team", "a")];
        let spec = only(&text);
        let target = Target::Http { url: "https://example.com/mcp?k=hunter2".into(), headers };
        assert_eq!((spec.target, spec.transport), (target, transport), "input {text}");
    }
}

#[test]
fn only_a_relative_cwd_starts_at_the_folder_of_the_file() {
    for (cwd, want) in [(".", "conf/."), ("../x", "conf/../x"), ("/abs", "/abs"), ("${HOME}", "/home/a")] {
        let spec = only(&format!(r#"{{"servers": {{"a": {{"command": "./run", "cwd": "{cwd}"}}}}}}"#));
        let Target::Child { command, cwd: got, .. } = spec.target else { panic!("a child") };
        assert_eq!((command.as_str(), got.as_deref()), ("./run", Some(Path::new(want))), "input {cwd}");
    }
}

#[test]
fn only_a_relative_path_to_a_program_starts_at_the_folder_of_the_file() {
    for (command, want) in [
        ("./run", "conf/run"),
        ("bin/run", "conf/bin/run"),
        ("../run", "conf/../run"),
        ("run", "run"),
        ("/bin/run", "/bin/run"),
        ("${HOME}/run", "/home/a/run"),
    ] {
        let spec = only(&format!(r#"{{"servers": {{"a": {{"command": "{command}"}}}}}}"#));
        let Target::Child { command: got, cwd, .. } = spec.target else { panic!("a child") };
        assert_eq!((got.as_str(), cwd), (want, None), "input {command}");
    }
}

#[test]
fn one_restart_delay_alone_moves_the_default_of_the_other() {
    for (text, want) in [
        (r#"{"baseDelayMs": 90000}"#, (90_000, 90_000)),
        (r#"{"maxDelayMs": 500}"#, (500, 500)),
        (r#"{"baseDelayMs": 0}"#, (0, 60_000)),
        ("{}", (1_000, 60_000)),
    ] {
        let restart = only(&format!(r#"{{"servers": {{"a": {{"command": "x", "restartConfig": {text}}}}}}}"#)).restart;
        assert_eq!((restart.delay_first.as_millis(), restart.delay_max.as_millis()), want, "input {text}");
    }
}

#[test]
fn order_is_file_order_across_sections_and_none_is_fine() {
    let text = r#"{"servers": [{"name": "z", "url": "http://z"}, {"name": "a", "command": "a"}],
                   "mcpServers": {"m": {"command": "m"}}}"#;
    let names: Vec<String> = servers(text).iter().map(|spec| spec.name.to_string()).collect();
    assert_eq!(names, ["z", "a", "m"]);
    assert_eq!(servers(r#"{"mcpServers": {}}"#), []);
    assert_eq!(servers(r#"{"servers": []}"#), []);
}

#[test]
fn enabled_false_is_never_started() {
    let loaded =
        read(r#"{"mcpServers": {"a": {"command": "a", "enabled": false}, "b": {"command": "b", "enabled": true}}}"#)
            .unwrap();
    let disabled: Vec<bool> = loaded.servers.iter().map(|spec| spec.disabled).collect();
    assert_eq!((disabled, loaded.warnings.len()), (vec![true, false], 2));
}

#[test]
fn no_value_is_repeated_to_the_reader() {
    let text = r#"{"mcpServers": {
        "a": {"command": "a", "env": {"X=": "hunter2", "Y": "hunter2 ${", "Z": "${A B:-hunter2}", "N": "${NUL}hunter2"}},
        "b": {"url": "http://a b/?${TOKEN}", "headers": {"X": "${BREAK}hunter2", "Y": "hunter2é"}},
        "c": {"url": "ftp://hunter2", "type": "stdio", "auth": "hunter2"},
        "d": {"command": "~/hunter2", "cwd": "~/hunter2", "args": ["${NONE}hunter2"]}}}"#;
    let problems = read(text).unwrap_err();
    assert!(10 <= problems.len(), "{}", shown(&problems));
    let told = shown(&problems) + &format!("{problems:?}") + &crate::problems_json(&problems);
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn a_hostile_file_cannot_fill_the_memory_with_problems() {
    let text = format!("{{\"servers\": [{}]}}", "1,".repeat(50_000));
    assert_eq!(read(&text).unwrap_err().len(), 1_000);
    let text = format!("{{\"mcpServers\": {{{}}}}}", "\"a\":1,".repeat(50_000));
    assert!(read(&text).unwrap_err().len() <= 3_000);
}

/// A config file of sorts: known keys and values, in places where some of them do not belong.
fn any_config() -> impl Strategy<Value = String> {
    const WORDS: [&str; 24] = [
        "command",
        "args",
        "env",
        "url",
        "headers",
        "type",
        "disabled",
        "restartConfig",
        "isolation",
        "timeout_ms",
        "cwd",
        "name",
        "maxDelayMs",
        "http",
        "stdio",
        "${HOME}",
        "${NONE}",
        "$${",
        "${",
        "http://a/",
        "a__b",
        "é",
        "",
        "KEY",
    ];
    let word = prop::sample::select(&WORDS[..]).prop_map(str::to_owned);
    let leaf = prop_oneof![
        word.clone().prop_map(|word| serde_json::json!(word)),
        (-10i64..100_000).prop_map(|number| serde_json::json!(number)),
        any::<bool>().prop_map(|value| serde_json::json!(value)),
        Just(serde_json::Value::Null),
    ];
    let tree = leaf.prop_recursive(3, 30, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map(word.clone(), inner, 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    });
    (prop::sample::select(&["servers", "mcpServers", "$schema"][..]), tree)
        .prop_map(|(section, tree)| format!("{{\"{section}\": {tree}}}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_config_panics_and_no_refusal_is_silent(text in any_config()) {
        fuzz_parse(text.as_bytes());
        if let Err(problems) = read(&text) {
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.iter().all(|problem| 1 <= problem.line && 1 <= problem.column));
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz_parse(&bytes);
    }
}

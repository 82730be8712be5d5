//! Where state is kept, as people say it.

use std::path::PathBuf;

use super::{Durability, Store, settle, told};

const KEY: (&str, &str) = ("LANDBRIDGE_KEY", "0123456789abcdef0123456789abcdef");

fn store(flags: &[(&'static str, &str)], variables: &[(&str, &str)], toml: &str) -> String {
    let (settings, gathered) = settle(flags, variables, toml);
    assert_eq!(told(&gathered), [""; 0], "{flags:?} {variables:?} {toml}");
    match settings.state.store {
        Store::Memory => "memory".to_owned(),
        Store::Disk(None) => "disk".to_owned(),
        Store::Disk(Some(folder)) => folder.display().to_string(),
        Store::Shared { url, prefix, .. } => format!("{prefix} {}", url.expose()),
    }
}

#[test]
fn state_is_kept_where_flags_variables_or_the_file_say() {
    assert_eq!(store(&[], &[], ""), "disk");
    assert_eq!(store(&[("data", "none")], &[], ""), "memory");
    assert_eq!(store(&[("data", "/x")], &[], "data = \"none\""), "/x");
    assert_eq!(store(&[], &[("LANDBRIDGE_DATA", "none")], "data = \"/x\""), "memory");
    assert!(store(&[], &[], "data = \"state\"").ends_with("/state"), "a path of a file starts at the file");
    assert_eq!(
        store(&[], &[("MCP_CONFIG_STORAGE_TYPE", "memory"), ("MCP_CONFIG_STORAGE_VALKEY_URL", "redis://x")], ""),
        "memory"
    );
    let valkey = [("MCP_CONFIG_STORAGE_TYPE", "valkey"), ("MCP_CONFIG_STORAGE_VALKEY_URL", "redis://x:1/2"), KEY];
    assert_eq!(store(&[], &valkey, ""), "landbridge: redis://x:1/2");
    assert_eq!(store(&[("store", "valkey://y")], &valkey[1..], "store_prefix = \"a:\""), "a: valkey://y");
    assert_eq!(store(&[("store", "valkey://y"), ("data", "none")], &[KEY], ""), "landbridge: valkey://y");
}

#[test]
fn what_does_not_fit_together_is_told_with_what_to_do() {
    type Given<'a> = &'a [(&'static str, &'a str)];
    let cases: [(Given<'_>, Given<'_>, &str, &str); 11] = [
        (&[("store", "valkey://h")], &[], "--store: what is kept on a server is sealed", "openssl rand -hex 32"),
        (&[("store", "mysql://u:hunter2@h")], &[], "--store: give valkey://HOST:PORT", ""),
        (&[("store", "valkey://h"), ("data", "/x")], &[KEY], "--store: state is kept in one place", "give one of them"),
        (&[("key_file", "/k")], &[KEY], "--key-file: LANDBRIDGE_KEY says the same", "give one of them"),
        (&[("node_listen", "127.0.0.1:0")], &[], "--node-listen: there are no other nodes", "--store"),
        (&[("node_url", "http://127.0.0.1:1")], &[KEY], "--node-url: nothing listens there", "--node-listen"),
        (
            &[("store", "valkey://h"), ("node_listen", "10.0.0.1:1")],
            &[KEY],
            "--node-listen: other nodes would be spoken to without TLS",
            "--node-insecure",
        ),
        (&[], &[("LANDBRIDGE_KEY", "short")], "LANDBRIDGE_KEY: give at least 32 characters", ""),
        (
            &[],
            &[("LANDBRIDGE_KEY", "${SECRET_OF_ALL_NODES_TOGETHER}-x")],
            "LANDBRIDGE_KEY: this stands for a secret",
            "",
        ),
        (
            &[],
            &[("LANDBRIDGE_OPERATOR_TOKEN", "${OPERATOR_TOKEN}")],
            "LANDBRIDGE_OPERATOR_TOKEN: this stands for a secret",
            "",
        ),
        (
            &[],
            &[("LANDBRIDGE_KEY", "please-changeme-please-changeme-please")],
            "LANDBRIDGE_KEY: this is an example",
            "",
        ),
    ];
    for (flags, variables, what, hint) in cases {
        let (_, gathered) = settle(flags, variables, "");
        let said = told(&gathered).join("\n");
        assert!(said.contains(&format!("error: {what}")) && said.contains(hint), "{flags:?}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    let fine = [("store", "valkey://h"), ("node_listen", "10.0.0.1:1"), ("node_insecure", "")];
    let (settings, gathered) = settle(&fine, &[KEY], "durability = \"event\"");
    assert_eq!(told(&gathered), [""; 0]);
    assert_eq!(settings.state.durability, Durability::Event);
    let with_tls = [("store", "valkey://h"), ("node_listen", "10.0.0.1:1"), ("node_url", "https://a.example")];
    let (settings, gathered) = settle(&with_tls, &[], "key_file = \"/k\"");
    assert_eq!(told(&gathered), [""; 0]);
    assert_eq!(settings.state.key_file, Some(PathBuf::from("/k")));
}

//! Which place wins, and what is said of each.

use std::time::Duration;

use super::{settle, told};
use crate::settings::{Listen, Mistakes, Setting, changed, shown_json, table};

#[test]
fn a_flag_beats_a_variable_beats_an_alias_beats_the_file_beats_the_default() {
    let flag = [("max_sessions", "1")];
    let own = ("LANDBRIDGE_SESSION_TTL", "5s");
    let alias = ("SESSION_TTL_MS", "6000");
    let file = "session_ttl = \"7s\"\n";
    let ttl = |flags: &[(&'static str, &str)], variables: &[(&str, &str)], toml: &str| {
        let (settings, gathered) = settle(flags, variables, toml);
        assert_eq!(told(&gathered), [""; 0]);
        settings.session_ttl
    };
    assert_eq!(ttl(&[("session_ttl", "4s")], &[own, alias], file), Duration::from_secs(4));
    assert_eq!(ttl(&flag, &[own, alias], file), Duration::from_secs(5));
    assert_eq!(ttl(&flag, &[alias], file), Duration::from_secs(6));
    assert_eq!(ttl(&flag, &[], file), Duration::from_secs(7));
    assert_eq!(ttl(&flag, &[], ""), Duration::from_secs(30 * 60));
}

#[test]
fn every_error_of_every_place_is_told_at_once() {
    let flags = [("max_sessions", "none"), ("log_format", "xml"), ("auth", "password")];
    let variables = [("PORT", "99999"), ("ALLOWED_HOSTS", "http://a"), ("MCP_CONFIG_STORAGE_TYPE", "valkey")];
    let toml = "port = 0\nenviroment = \"prod\"\nsession_ttl = -1\n[tls_cert]\n";
    let (_, gathered) = settle(&flags, &variables, toml);
    assert!(gathered.is_broken());
    insta::assert_snapshot!(told(&gathered).join("\n"), @r#"
    error: landbridge.toml:2:1: enviroment: unknown key | hint: did you mean environment?
    error: PORT: "99999" cannot be used: give a whole number from 1 to 65535
    error: landbridge.toml:1: port: 0 cannot be used: give a whole number from 1 to 65535
    error: ALLOWED_HOSTS: "http://a" cannot be used: give a name or address alone, without scheme, port or path, as in mcp.example.com or [2001:db8::1]
    error: landbridge.toml:4: tls_cert: give a text, not a section
    error: --max-sessions: "none" cannot be used: give a whole number from 1 to 10000000
    error: landbridge.toml:3: session_ttl: -1 cannot be used: give seconds, or a time such as 500ms, 30s, 5m, 24h, at least 1ms, at most a year
    error: --log-format: "xml" cannot be used: give text or json
    error: --auth: "password" cannot be used: give oidc, or keys and a file
    error: MCP_CONFIG_STORAGE_TYPE: the address of the server is missing | hint: set MCP_CONFIG_STORAGE_VALKEY_URL, or give --store
    "#);
}

#[test]
fn a_secret_is_never_shown() {
    let (settings, gathered) = settle(&[], &[("LANDBRIDGE_OPERATOR_TOKEN", "12345678901234567890")], "");
    assert_eq!(settings.operator_token.map(|token| token.expose().to_owned()), Some("12345678901234567890".into()));
    assert!(!shown_json(&gathered).to_string().contains("1234567"));
    let (_, gathered) = settle(&[], &[("LANDBRIDGE_OPERATOR_TOKEN", "hush"), ("LANDBRIDGE_KEY", "hush")], "");
    let told = told(&gathered).join("\n");
    assert!(told.contains("LANDBRIDGE_OPERATOR_TOKEN") && told.contains("LANDBRIDGE_KEY"), "{told}");
    assert!(!told.contains("hush"), "{told}");
}

#[test]
fn names_that_look_like_ours_are_told_with_what_they_may_mean() {
    let variables = [("MCP_CONFIG_SERVER_HTTP_ENDPOINT", "x"), ("LANDBRIDGE_MAX_SESSION", "1"), ("OTHER", "x")];
    let (_, gathered) = settle(&[], &variables, "");
    assert!(!gathered.is_broken());
    assert_eq!(
        told(&gathered),
        [
            "warning: LANDBRIDGE_MAX_SESSION: a variable of this name has no effect | hint: did you mean LANDBRIDGE_MAX_SESSIONS?",
            "warning: MCP_CONFIG_SERVER_HTTP_ENDPOINT: a variable of this name has no effect",
        ]
    );
}

#[test]
fn the_stronger_of_an_address_and_its_parts_holds() {
    for (flags, variables, toml, want) in [
        (&[][..], &[][..], "", "127.0.0.1:8080"),
        (&[], &[("PORT", "9000")], "", "127.0.0.1:9000"),
        (&[("listen", "127.0.0.1:0")], &[("PORT", "9000")], "", "127.0.0.1:0"),
        (&[("port", "9001")], &[("PORT", "9000"), ("LANDBRIDGE_LISTEN", "[::1]:1")], "", "[::1]:9001"),
        (&[], &[("HOST", "::1")], "listen = \"localhost:7\"", "[::1]:7"),
        (&[("port", "9001")], &[], "listen = \"unix:/tmp/x\"", "127.0.0.1:9001"),
    ] {
        let (settings, gathered) = settle(flags, variables, toml);
        assert_eq!(settings.listen, Listen::Tcp(want.to_owned()), "{flags:?} {variables:?} {toml}");
        assert!(!gathered.is_broken(), "{:?}", told(&gathered));
    }
    let (settings, _) = settle(&[("listen", "unix:/run/x")], &[("PORT", "9000")], "");
    assert_eq!(settings.listen, Listen::Unix("/run/x".into()));
    let (_, gathered) = settle(&[("listen", "localhost:1"), ("port", "2")], &[], "");
    assert_eq!(told(&gathered), ["error: --port: says the same as --listen: leave one of them out"]);
}

/// Value and source of `listen`, `host` and `port`, as they are shown.
fn address(flags: &[(&'static str, &str)], variables: &[(&str, &str)], toml: &str) -> [String; 3] {
    let shown = shown_json(&settle(flags, variables, toml).1);
    let rows = shown.as_array().expect("rows");
    ["listen", "host", "port"].map(|key| {
        let row = rows.iter().find(|row| row["key"] == key).expect("a row");
        let source = row["source"].as_str().expect("text").rsplit('/').next().unwrap_or_default();
        format!("{} {source}", row["value"].as_str().expect("text"))
    })
}

#[test]
fn what_is_shown_of_an_address_is_what_holds() {
    let shown = |listen: &str, host: &str, port: &str| [listen, host, port].map(str::to_owned);
    for (flags, variables, toml, want) in [
        (&[][..], &[][..], "", shown("127.0.0.1:8080 default", "127.0.0.1 default", "8080 default")),
        (&[], &[("PORT", "9000")], "", shown("127.0.0.1:9000 PORT", "127.0.0.1 default", "9000 PORT")),
        (
            &[("listen", "localhost:1")],
            &[("PORT", "9000"), ("HOST", "x.invalid")],
            "",
            shown("localhost:1 --listen", "localhost --listen", "1 --listen"),
        ),
        (
            &[("port", "9001")],
            &[("HOST", "::1")],
            "listen = \"localhost:7\"",
            shown("[::1]:9001 HOST, --port", "[::1] HOST", "9001 --port"),
        ),
        (
            &[],
            &[("PORT", "9000")],
            "listen = \"localhost:7\"",
            shown("localhost:9000 landbridge.toml:1, PORT", "localhost landbridge.toml:1", "9000 PORT"),
        ),
        (
            &[("listen", "unix:/run/x")],
            &[("PORT", "9000")],
            "",
            shown("unix:/run/x --listen", "none --listen", "none --listen"),
        ),
    ] {
        assert_eq!(address(flags, variables, toml), want, "{flags:?} {variables:?} {toml}");
    }
}

#[test]
fn a_host_that_cannot_be_used_is_told_by_the_name_it_came_under() {
    let host = ("HOST", "myworkstation.invalid");
    for (flags, variables) in [(&[][..], &[host][..]), (&[("port", "1")], &[host, ("PORT", "2")])] {
        let (_, gathered) = settle(flags, variables, "");
        let said = told(&gathered).join("");
        assert!(said.starts_with("error: HOST: refused to listen on myworkstation.invalid:"), "{said}");
        assert!(said.contains("knows no address") && said.contains("set LANDBRIDGE_HOST=127.0.0.1"), "{said}");
    }
    let (_, gathered) = settle(&[("port", "1")], &[("HOST", "0.0.0.0")], "");
    assert!(told(&gathered).join("").starts_with("error: HOST: refused to listen on 0.0.0.0:1: everybody"));
    let (_, gathered) = settle(&[("port", "1")], &[], "host = \"0.0.0.0\"\n");
    let said = told(&gathered).join("");
    assert!(said.starts_with("error: landbridge.toml:1: host: refused to listen on 0.0.0.0:1"), "{said}");
    let (settings, _) = settle(&[], &[host, ("LANDBRIDGE_INSECURE_NO_AUTH", "1")], "");
    assert_eq!(settings.listen_source, "HOST");
}

#[test]
fn nobody_listens_beyond_this_machine_by_accident() {
    for (listen, hint) in [
        ("0.0.0.0:1", "--insecure-no-auth"),
        ("192.0.2.1:1", "--insecure-no-auth"),
        ("[::]:1", "--insecure-no-auth"),
        ("nowhere.invalid:1", "give an address of this machine"),
    ] {
        let (_, gathered) = settle(&[("listen", listen)], &[], "");
        let said = told(&gathered).join("");
        assert!(said.starts_with(&format!("error: --listen: refused to listen on {listen}")), "{said}");
        assert!(said.contains(hint), "{said}");
        let (_, gathered) = settle(&[("listen", listen), ("insecure_no_auth", "")], &[], "");
        assert!(!gathered.is_broken(), "{:?}", told(&gathered));
    }
    let (_, gathered) = settle(&[], &[("LANDBRIDGE_PUBLIC_URL", "https://mcp.example.com")], "");
    assert!(told(&gathered).join("").starts_with("error: LANDBRIDGE_PUBLIC_URL: refused to be reached"));
    let flags = [("public_url", "https://Mcp.Example.com:8443/"), ("insecure_no_auth", "")];
    let (settings, gathered) = settle(&flags, &[], "");
    assert!(!gathered.is_broken(), "{:?}", told(&gathered));
    assert_eq!(settings.allow_host, ["mcp.example.com"]);
    assert_eq!(settings.allow_origin, ["https://Mcp.Example.com:8443"]);
}

#[test]
fn what_is_not_there_can_be_switched_off() {
    let variables = [
        ("MCP_CONFIG_SERVER_AUTH_ENABLED", "false"),
        ("MCP_CONFIG_SERVER_AUTH_ISSUER", "https://x"),
        ("MCP_CONFIG_STORAGE_TYPE", "memory"),
        ("MCP_CONFIG_STORAGE_VALKEY_URL", "redis://x"),
        ("LANDBRIDGE_NO_CODEMODE", "1"),
    ];
    let (_, gathered) = settle(&[("no_codemode", "")], &variables, "");
    assert_eq!(told(&gathered), [""; 0]);
    let (settings, gathered) = settle(&[], &variables[1..2], "");
    assert_eq!((told(&gathered).len(), settings.public_url), (0, None), "it is for a login only");
}

#[test]
fn a_certificate_needs_its_key() {
    let (_, gathered) = settle(&[], &[], "tls_cert = \"a.pem\"\n");
    assert_eq!(
        told(&gathered),
        ["error: landbridge.toml:1: tls_cert: a certificate and its key belong together | hint: give --tls-key too"]
    );
    let (settings, _) = settle(&[], &[], "tls_cert = \"a.pem\"\ntls_key = \"/b.pem\"\n");
    let tls = settings.tls.expect("both are there");
    assert!(tls.cert.is_absolute() && tls.cert.ends_with("a.pem"), "a path of a file starts at the file: {tls:?}");
    assert_eq!(tls.key.to_str(), Some("/b.pem"));
}

#[test]
fn what_a_reload_cannot_take_up_is_known() {
    let (_, before) = settle(&[], &[], "port = 9000\nlog_level = \"info\"\n");
    let (_, after) = settle(&[], &[], "port = 9001\nlog_level = \"debug\"\nname = \"x\"\n");
    assert_eq!(changed(&before, &after), (vec!["log_level"], vec!["port", "name"]));
    assert_eq!(changed(&before, &before), (vec![], vec![]));
}

#[test]
#[cfg(unix)]
fn a_file_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("landbridge.toml");
    std::fs::write(&file, "operator_token = \"12345678901234567890\"").expect("written");
    let told = |mode: u32| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("changed");
        let sources = super::Sources { file: Some(file.clone()), ..super::Sources::default() };
        super::told(&super::gather(sources, super::ALL)).join("\n")
    };
    assert_eq!(told(0o600), "");
    assert!(told(0o640).contains("warning: ") && told(0o640).contains("holds a secret, and others can read it"));
    assert!(told(0o620).contains("refused: others may write to this file"));
}

#[test]
fn a_command_that_hardly_uses_the_file_is_warned_of_its_mistakes_and_runs_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("landbridge.toml");
    let settle = |toml: &str| {
        std::fs::write(&file, toml).expect("written");
        let sources = super::Sources { file: Some(file.clone()), ..super::Sources::default() };
        let mut gathered = super::gather(sources.with(Mistakes::Warned), &[super::Scope::Every]);
        (super::Settings::settle(&mut gathered).log_level, super::told(&gathered).join(""), gathered.is_broken())
    };
    let (level, said, is_broken) = settle("log_level = \"debug\"\nmax_sessions = 7\n");
    assert_eq!((level.as_deref(), said.as_str(), is_broken), (Some("debug"), "", false));
    let (level, said, is_broken) = settle("log_level = \"debug\"\nmax_sesions = 7\n");
    assert_eq!((level, is_broken), (None, false));
    assert!(said.starts_with("warning: ") && said.contains("did you mean max_sessions?"), "{said}");
    let (level, said, is_broken) = settle("log_level = \"loud\"\nmax_sesions = 7\n");
    assert!(level.is_none() && !is_broken && said.contains("max_sesions") && said.contains("\"loud\""), "{said}");
    let (_, said, is_broken) = settle("log_level = \"loud\"\n");
    assert!(!is_broken && said.starts_with("warning: ") && said.contains("log_level"), "{said}");
}

#[test]
fn names_are_given_once() {
    let mut names: Vec<String> = table().iter().map(Setting::variable).collect();
    names.extend(table().iter().flat_map(|setting| setting.aliases).map(|name| (*name).to_owned()));
    names.extend(table().iter().map(|setting| setting.key.to_owned()));
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn names_that_other_parts_read_are_not_complained_about() {
    let names =
        ["LANDBRIDGE_PEERS", "LANDBRIDGE_SEED", "LANDBRIDGE_LONG", "LANDBRIDGE_EVENTS", "LANDBRIDGE_WRAP_DEBUG"];
    let (_, gathered) = settle(&[], &names.map(|name| (name, "1")), "");
    assert_eq!(told(&gathered), [""; 0]);
}

#[test]
fn the_limit_of_requests_depends_on_who_can_connect_unless_somebody_sets_it() {
    let open = [("listen", "0.0.0.0:1"), ("insecure_no_auth", "")];
    let max = |flags: &[(&'static str, &str)], local: bool| settle(flags, &[], "").0.reached(local).rate_limit_max;
    assert_eq!((settle(&[], &[], "").0.rate_limit_max, settle(&open, &[], "").0.rate_limit_max), (None, Some(100)));
    assert_eq!((max(&[], false), max(&[], true)), (Some(100), None), "a socket that was handed over");
    assert_eq!((max(&open, false), max(&open, true)), (Some(100), None));
    // A proxy on this machine brings strangers from anywhere to those who let people log in.
    let login = [("auth", "keys keys.txt")];
    assert_eq!((max(&login, false), max(&login, true)), (Some(100), Some(100)));
    for local in [true, false] {
        assert_eq!(max(&[("rate_limit_max", "7")], local), Some(7));
        assert_eq!(max(&[("rate_limit_max", "0")], local), None);
        assert_eq!(max(&[login[0], ("rate_limit_max", "0")], local), None);
    }
}

#[test]
fn a_file_that_nobody_named_may_go_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().to_str().expect("a path");
    let place = |variables: &[(&str, &str)]| settle(&[], variables, "").1;
    let gathered = place(&[("XDG_CONFIG_HOME", home)]);
    let expected = folder.path().join("landbridge/landbridge.toml");
    assert_eq!((&gathered.file, &gathered.file_place), (&None, &Some((expected, false))));
    assert!(!gathered.is_broken());
    let named = place(&[("LANDBRIDGE_SETTINGS", "/nowhere/x.toml")]);
    assert_eq!(named.file_place, Some(("/nowhere/x.toml".into(), true)));
    assert!(named.is_broken());
}

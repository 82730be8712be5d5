//! What is wrong is told at once, with its place; and what holds is shown with its source.

use serde_json::{Value, json};

use crate::world::{Run, World, arg, output, server};

#[tokio::test]
async fn every_wrong_setting_is_told_at_once_and_nothing_is_served() {
    let world = World::new();
    let file = world.write("landbridge.toml", "max_sessions = 0\nlog_formt = \"json\"\n");
    let config = world.servers(&json!({ "bad": { "command": 7 } }));
    let args = ["serve", "--settings", arg(&file), "--config", arg(&config), "--trusted-proxies", "10.0.0.0/99"];
    let mut command = world.landbridge(&args);
    command.env("PORT", "http").env("SESSION_TTL_MS", "-5").env("RATE_LIMIT_MAX", "many").env("MCP_LOG_LEVEL", "loud");
    let (code, out, said) = output(&mut command).await;
    assert_eq!((code, out.as_str()), (Some(2), ""), "{said}");
    for part in [
        "error: PORT: \"http\" cannot be used: give a whole number from 1 to 65535",
        "error: SESSION_TTL_MS: \"-5\" cannot be used: give milliseconds",
        "error: RATE_LIMIT_MAX: \"many\" cannot be used",
        "error: MCP_LOG_LEVEL: \"loud\" cannot be used: give off, error, warn",
        "error: --trusted-proxies: \"10.0.0.0/99\" cannot be used: give an address or a network",
        "landbridge.toml:1: max_sessions: 0 cannot be used",
        "landbridge.toml:2:1: log_formt: unknown key\n  hint: did you mean log_format?",
        "mcpServers.bad.command: must be a string",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    assert!(!said.contains("listening on"), "{said}");
}

#[tokio::test]
async fn nobody_can_connect_from_elsewhere_unless_that_is_said() {
    let world = World::new();
    for args in
        [&["--listen", "0.0.0.0:0"][..], &["serve", "--host", "::"], &["serve", "--public-url", "https://a.example"]]
    {
        let (code, _, said) = output(&mut world.landbridge(args)).await;
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(said.contains("refused to") && said.contains("--insecure-no-auth"), "{args:?}: {said}");
    }
}

#[tokio::test]
async fn a_host_that_was_not_meant_for_us_is_told_by_its_name() {
    let world = World::new();
    for args in [&[][..], &["serve"], &["serve", "--port", "1"], &["config", "check"]] {
        let (code, _, said) = output(world.landbridge(args).env("HOST", "myworkstation.invalid")).await;
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(said.contains("error: HOST: refused to listen on myworkstation.invalid:"), "{args:?}: {said}");
        assert!(said.contains("set LANDBRIDGE_HOST=127.0.0.1 or give --host 127.0.0.1"), "{args:?}: {said}");
    }
    // What is not refused cannot be listened on, and is told the same way.
    let mut command = world.landbridge(&["serve", "--insecure-no-auth"]);
    let (code, _, said) = output(command.env("HOST", "myworkstation.invalid")).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot listen on myworkstation.invalid:8080 (from HOST): "), "{said}");
    // What is stronger holds, and the variable may be what it is.
    let mut command = world.landbridge(&["serve", "--listen", "127.0.0.1:0"]);
    let run = Run::start(command.env("HOST", "myworkstation.invalid"));
    run.address().await;
}

#[tokio::test]
async fn what_is_shown_of_the_address_is_what_is_listened_on() {
    let world = World::new();
    let file = world.write("landbridge.toml", "listen = \"localhost:7\"\n");
    let show = ["config", "show", "--settings", arg(&file)];
    let (code, out, said) = output(world.landbridge(&show).env("PORT", "9000").env("HOST", "::1")).await;
    assert_eq!(code, Some(0), "{said}");
    let row = |key: &str| {
        let line = out.lines().find(|line| line.split_whitespace().next() == Some(key)).unwrap_or_default();
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("listen"), "[::1]:9000 HOST, PORT", "{out}");
    assert_eq!((row("host"), row("port")), ("[::1] HOST".to_owned(), "9000 PORT".to_owned()), "{out}");
}

/// A certificate for localhost and its key, in files of these names.
fn certificate(world: &World, cert: &str, key: &str) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    world.write(cert, &made.cert.pem());
    world.write(key, &made.signing_key.serialize_pem());
}

#[tokio::test]
async fn a_check_opens_the_files_that_settings_name() {
    let world = World::new();
    certificate(&world, "cert.pem", "key.pem");
    certificate(&world, "other.pem", "other-key.pem");
    world.write("text", "no PEM at all");
    let check = async |cert: &str, key: &str| {
        let args = ["config", "check", "--tls-cert", cert, "--tls-key", key];
        output(&mut world.landbridge(&args)).await
    };
    let (code, out, said) = check("cert.pem", "key.pem").await;
    assert_eq!((code, out.as_str()), (Some(0), "fine: no servers\n"), "{said}");
    for (cert, key, want) in [
        ("none.pem", "key.pem", "error: --tls-cert: cannot read none.pem: No such file"),
        ("cert.pem", "none.pem", "error: --tls-key: cannot read none.pem: No such file"),
        ("text", "key.pem", "error: --tls-cert: text holds no certificate in PEM"),
        ("cert.pem", "text", "error: --tls-key: text holds no private key in PEM"),
        ("cert.pem", "other-key.pem", "error: --tls-key: the certificate in cert.pem and the key in other-key.pem"),
    ] {
        let (code, _, said) = check(cert, key).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(want) && said.contains("1 error to correct"), "{want} is not in {said}");
        let args = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key];
        let (code, _, said) = output(&mut world.landbridge(&args)).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(want), "serve says the same: {want} is not in {said}");
    }
    let file = world.write("landbridge.toml", "log_file = \"text/log\"\n");
    let (code, _, said) = output(&mut world.landbridge(&["config", "check", "--settings", arg(&file)])).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("landbridge.toml:1: log_file: cannot be written") && said.contains("is no folder"), "{said}");
}

#[tokio::test]
async fn a_check_tells_of_everything_that_serve_would_stumble_over() {
    let world = World::new();
    world.write("text", "no program");
    let config = world.servers(&json!({
        "bare": { "command": "no-such-program" },
        "path": { "command": "./no-such-file" },
        "folder": { "command": "/" },
        "plain": { "command": "./text" },
        "fine": { "command": "sh" },
        "off": { "command": "no-such-program", "disabled": true },
    }));
    let (code, out, said) = output(&mut world.landbridge(&["config", "check", "--config", arg(&config)])).await;
    assert_eq!((code, out.as_str()), (Some(0), "usable, with 4 warnings: 6 servers, 1 of them disabled\n"), "{said}");
    assert!(said.contains(":1:") && said.contains("bare.command: \"no-such-program\" is in none of the "), "{said}");
    assert!(said.contains("path.command: there is no ") && !said.contains("/./"), "{said}");
    assert!(said.contains("folder.command: \"/\" is a folder, not a program"), "{said}");
    assert!(said.contains("plain.command: ") && said.contains("text\" is not executable"), "{said}");
    assert_eq!(said.matches("warning: ").count(), 4, "{said}");
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", arg(&config)];
    let run = Run::start(&mut world.landbridge(&args));
    run.says("bare.command: \"no-such-program\" is in none of the ", 1).await;
    run.address().await;
    let (code, _, said) = output(&mut world.landbridge(&["config", "check", "--surface", "server"])).await;
    assert!(code == Some(2) && said.contains("error: surface: there is no server to serve by itself"), "{said}");
    let mut command = world.landbridge(&["config", "check"]);
    let (code, _, said) = output(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere")).await;
    assert!(code == Some(2) && said.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{said}");
}

/// A slip in a path once made a folder wherever it led, and a folder where nothing can be made was found to be fine.
#[tokio::test]
async fn a_place_that_cannot_be_written_to_is_told_by_check_and_serve_alike() {
    let world = World::new();
    let missing = world.path("missing");
    let file = missing.join("log");
    for (flag, value, want) in [
        ("--log-file", arg(&file), "there is no folder "),
        ("--audit-log", arg(&file), "there is no folder "),
        ("--data", "/proc/nope", "cannot be written: in /proc"),
    ] {
        for command in [&["config", "check"][..], &["serve", "--port", "0"]] {
            let (code, _, said) = output(&mut world.landbridge(&[command, &[flag, value]].concat())).await;
            assert_eq!(code, Some(2), "{command:?} {flag}: {said}");
            assert!(said.contains(&format!("error: {flag}: {want}")), "{command:?} {flag}: {said}");
        }
    }
    assert!(!missing.exists(), "nothing was made");
}

#[tokio::test]
async fn keys_that_let_nobody_in_are_told() {
    let world = World::new();
    let config = world.servers(&json!({ "x": server("x") }));
    let keys = world.write("keys", "# none yet\n");
    let args = ["config", "check", "--config", arg(&config), "--auth", "keys", arg(&keys)];
    let (code, out, said) = output(&mut world.landbridge(&args)).await;
    assert_eq!((code, out.as_str()), (Some(0), "usable, with 1 warning: 1 server\n"), "{said}");
    assert!(said.contains("there are no keys in it: nobody gets in with one"), "{said}");
    for (name, scope) in [("good", "server:x"), ("lost", "server:nope")] {
        let args = ["auth", "key", "new", name, "--scope", scope, "--file", arg(&keys)];
        let (code, _, said) = output(&mut world.landbridge(&args)).await;
        assert_eq!(code, Some(0), "{said}");
    }
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", arg(&config), "--auth", "keys", arg(&keys)];
    let run = Run::start(&mut world.landbridge(&args));
    run.says("keys:3: the key \"lost\" is for a server \"nope\", which the config does not have", 1).await;
    assert!(!run.said().contains("\"good\""), "{}", run.said());
    let (code, _, said) = output(&mut world.landbridge(&["auth", "key", "new", "lost", "--file", arg(&keys)])).await;
    assert!(code == Some(2) && said.contains("has a key \"lost\" already") && said.contains("line 3"), "{said}");
}

#[tokio::test]
async fn a_mistake_in_the_file_stops_serve_and_not_what_hardly_uses_it() {
    let world = World::new();
    std::fs::create_dir_all(world.path(".config/landbridge")).expect("a folder");
    world.write(".config/landbridge/landbridge.toml", "max_sesions = 7\n");
    let hint = "did you mean max_sessions?";
    for args in [&["serve"][..], &["stdio"], &[]] {
        let (code, _, said) = output(&mut world.landbridge(args)).await;
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(said.contains("error: ") && said.contains(hint), "{args:?}: {said}");
    }
    for args in [&["demo"][..], &["smoke"], &["init", "mine"], &["wrap", "true"]] {
        let (code, _, said) = output(&mut world.landbridge(args)).await;
        let want = if args[0] == "wrap" { [Some(0), Some(1)] } else { [Some(0), Some(0)] };
        assert!(want.contains(&code), "{args:?}: {code:?} {said}");
        assert!(said.contains("warning: ") && said.contains(hint) && !said.contains("error: "), "{args:?}: {said}");
    }
}

#[tokio::test]
async fn what_is_not_built_in_is_refused_by_its_name() {
    let world = World::new();
    let (code, _, said) = output(&mut world.landbridge(&["serve", "--codemode"])).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("error: --codemode: codemode is not part of this build"), "{said}");
}

#[tokio::test]
async fn files_that_others_may_write_to_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    let config = world.servers(&json!({ "x": server("x") }));
    let check = ["config", "check", "--config", arg(&config)];
    for (mode, code) in [(0o600, 0), (0o644, 0), (0o664, 2), (0o646, 2)] {
        std::fs::set_permissions(&config, std::fs::Permissions::from_mode(mode)).expect("changed");
        let (got, _, said) = output(&mut world.landbridge(&check)).await;
        assert_eq!(got, Some(code), "{mode:o}: {said}");
    }
}

#[tokio::test]
async fn a_check_lists_problems_for_scripts() {
    let world = World::new();
    let config = world.servers(&json!({ "x": { "comand": "y", "url": "http://127.0.0.1:1" } }));
    let args = ["config", "check", "--json", "--config", arg(&config)];
    let (code, out, _) = output(world.landbridge(&args).env("PORT", "x")).await;
    let rows: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(code, Some(2), "{rows}");
    assert_eq!(rows[0]["key"], "PORT");
    assert_eq!((&rows[0]["file"], &rows[0]["line"]), (&Value::Null, &Value::Null));
    assert_eq!((&rows[1]["key"], &rows[1]["line"]), (&json!("mcpServers.x.comand"), &json!(1)));
    assert_eq!(rows[1]["file"], json!(arg(&config)));
    assert_eq!(rows[1]["hint"], json!("did you mean \"command\"?"));
    let (code, out, said) = output(&mut world.landbridge(&args)).await;
    assert_eq!(code, Some(0), "a warning alone is no reason to stop: {out} {said}");
}

#[tokio::test]
async fn what_holds_is_shown_with_its_source_and_no_secret() {
    let world = World::new();
    let file = world.write("landbridge.toml", "max_sessions = 7\n");
    let config = world.servers(&json!({
        "web": { "url": "http://127.0.0.1:1/mcp?key=hush", "headers": { "Authorization": "Bearer hush" } },
        "local": { "command": "python3", "args": ["x.py", "--token=hush"], "env": { "TOKEN": "hush" } },
    }));
    let args = ["config", "show", "--json", "--settings", arg(&file), "--config", arg(&config), "--record-args"];
    let mut command = world.landbridge(&args);
    command.env("PORT", "9000").env("LANDBRIDGE_OPERATOR_TOKEN", "hush-hush-hush-hush");
    let (code, out, said) = output(&mut command).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(!out.contains("hush") && !said.contains("hush"), "{out} {said}");
    let shown: Value = serde_json::from_str(&out).expect("JSON");
    let row = |key: &str| {
        let rows = shown["settings"].as_array().expect("rows");
        rows.iter().find(|row| row["key"] == key).cloned().unwrap_or_default()
    };
    let of = |key: &str| (row(key)["value"].clone(), row(key)["source"].clone());
    assert_eq!(of("port"), (json!("9000"), json!("PORT")));
    assert_eq!(of("record_args"), (json!("true"), json!("--record-args")));
    assert_eq!(of("max_sessions"), (json!("7"), json!(format!("{}:1", arg(&file)))));
    assert_eq!(of("operator_token"), (json!("***"), json!("LANDBRIDGE_OPERATOR_TOKEN")));
    assert_eq!(of("mcp_path"), (json!("/mcp"), json!("default")));
    assert_eq!(shown["servers"][0]["headers"], json!({ "Authorization": "***" }));
    assert_eq!(shown["servers"][1]["env"], json!({ "TOKEN": "***" }));
    let mut plain = world.landbridge(&["config", "show", "--config", arg(&config)]);
    let (_, out, _) = output(&mut plain).await;
    assert!(out.contains("python3 x.py …") && !out.contains("hush"), "{out}");
}

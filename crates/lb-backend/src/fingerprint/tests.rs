//! When a server counts as another.

use std::path::PathBuf;
use std::sync::Arc;

use lb_exchange::{Secret, ServerName, ServerSpec, Target, Tasks};

use super::is_fleeting;
use crate::{Children, Environment, Server};

fn fingerprint(target: Target) -> String {
    let spec = ServerSpec::new(ServerName::parse("x").expect("a name"), target);
    let environment = Environment {
        supervisor: PathBuf::new(),
        embedded: Arc::default(),
        tasks: Tasks::default(),
        children: Children::new(1),
        logins: None,
        names: crate::Names::default(),
    };
    Server::new(Arc::new(spec), environment).expect("a server").fingerprint()
}

fn child(command: &str, args: &[&str], env: &[(&str, &str)], cwd: Option<&str>) -> Target {
    Target::Child {
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: env.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect(),
        cwd: cwd.map(PathBuf::from),
        inherit_env: false,
    }
}

#[test]
fn every_part_of_the_definition_counts() {
    let base = || child("sh", &["-c", "a"], &[("TOKEN", "1")], Some("/"));
    assert_eq!(fingerprint(base()), fingerprint(base()));
    let others = [
        child("env", &["-c", "a"], &[("TOKEN", "1")], Some("/")),
        child("sh", &["-ca"], &[("TOKEN", "1")], Some("/")),
        child("sh", &["-c", "a", ""], &[("TOKEN", "1")], Some("/")),
        child("sh", &["-c", "a"], &[("TOKEN", "2")], Some("/")),
        child("sh", &["-c", "a"], &[("TOKEN", "1")], Some("/tmp")),
        Target::http("http://a/mcp", Vec::new()).expect("a url"),
    ];
    for (n, other) in others.into_iter().enumerate() {
        assert_ne!(fingerprint(base()), fingerprint(other), "{n}");
    }
    let http = |token: &str| Target::http("http://a/mcp", vec![("A".to_owned(), Secret::new(token))]).expect("a url");
    assert_ne!(fingerprint(http("1")), fingerprint(http("2")));
}

#[test]
fn a_program_or_script_that_was_written_anew_is_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("text");
    let (program, script) = (format!("{folder}/server"), format!("{folder}/server.py"));
    let both = || (fingerprint(child(&program, &[], &[], None)), fingerprint(child("sh", &[&script], &[], None)));
    std::fs::write(&program, "1").expect("written");
    std::fs::write(&script, "1").expect("written");
    let before = both();
    assert_eq!(both(), before);
    std::fs::write(&program, "22").expect("written");
    std::fs::write(&script, "22").expect("written");
    let after = both();
    assert_ne!(after.0, before.0);
    assert_ne!(after.1, before.1);
}

#[test]
fn what_differs_from_terminal_to_terminal_does_not_count() {
    for name in ["_", "PWD", "SHLVL", "TERM", "TERM_SESSION_ID", "SSH_TTY", "VSCODE_PID"] {
        assert!(is_fleeting(name.as_ref()), "{name}");
    }
    for name in ["DBUS_SESSION_BUS_ADDRESS", "WINDOWID", "DISPLAY", "XDG_SESSION_ID", "LANDBRIDGE_WRAP_DEBUG"] {
        assert!(is_fleeting(name.as_ref()), "{name}");
    }
    for name in ["HOME", "PATH", "API_TOKEN", "XDG_CACHE_HOME"] {
        assert!(!is_fleeting(name.as_ref()), "{name}");
    }
    let display = |value| fingerprint(child("sh", &[], &[("DISPLAY", value)], Some("/")));
    assert_ne!(display(":1"), display(":2"), "what is configured counts, whatever its name");
}

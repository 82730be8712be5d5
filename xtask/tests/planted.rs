//! `cargo xtask deny` on workspaces in which something was planted that must not be linked: it is named, and the exit
//! code turns CI red.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes one package with an empty library.
fn package(at: &Path, name: &str, license: &str, dependencies: &str) {
    fs::create_dir_all(at.join("src")).unwrap();
    fs::write(at.join("src/lib.rs"), "//! Nothing.\n").unwrap();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2024\"\nlicense = \"{license}\"\n\n\
         [dependencies]\n{dependencies}\n"
    );
    fs::write(at.join("Cargo.toml"), manifest).unwrap();
}

/// A repository of one package, reached by a URL that is no registry.
fn repository(at: &Path) -> String {
    package(at, "far", "MIT", "");
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.com"];
        let status = Command::new("git").current_dir(at).args(identity).args(args).status().unwrap();
        assert!(status.success(), "git {args:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "far"]);
    format!("file://{}", at.display())
}

/// What `cargo xtask deny` says of a workspace whose only package has this licence and these dependencies.
fn deny(folder: &Path, license: &str, dependencies: &str) -> (bool, String) {
    fs::create_dir_all(folder.join("xtask")).unwrap();
    fs::write(folder.join("Cargo.toml"), "[workspace]\nresolver = \"3\"\nmembers = [\"ours\"]\n").unwrap();
    // Asked for now: what was built in another checkout may be run in this one.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap();
    fs::copy(Path::new(&here).join("../deny.toml"), folder.join("deny.toml")).unwrap();
    package(&folder.join("ours"), "ours", license, dependencies);
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("deny")
        .env("CARGO_MANIFEST_DIR", folder.join("xtask"))
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[track_caller]
fn assert_refused((passed, text): (bool, String), why: &str) {
    assert!(!passed && text.contains(why), "expected {why:?} in {text}");
}

#[test]
fn a_workspace_that_keeps_the_rules_passes() {
    let folder = tempfile::tempdir().unwrap();
    let (passed, text) = deny(folder.path(), "MIT", "");
    assert!(passed, "{text}");
}

#[test]
fn a_planted_licence_turns_it_red() {
    let folder = tempfile::tempdir().unwrap();
    assert_refused(deny(folder.path(), "AGPL-3.0-only", ""), "ours 1.0.0: licence `AGPL-3.0-only` is not allowed");
}

#[test]
fn a_planted_source_turns_it_red() {
    let folder = tempfile::tempdir().unwrap();
    let url = repository(&folder.path().join("far"));
    let found = deny(&folder.path().join("work"), "MIT", &format!("far = {{ git = \"{url}\" }}"));
    assert_refused(found, "far 1.0.0: comes from git+file://");
}

#[test]
fn a_planted_ban_turns_it_red() {
    let folder = tempfile::tempdir().unwrap();
    package(&folder.path().join("openssl"), "openssl", "Apache-2.0", "");
    let found = deny(&folder.path().join("work"), "MIT", "openssl = { path = \"../../openssl\" }");
    assert_refused(found, "openssl 1.0.0: banned");
}

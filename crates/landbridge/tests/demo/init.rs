//! `landbridge init`: what it makes, what it refuses, and that the project builds and passes its tests in both modes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use lb_peers::raw::RawStdio;
use tokio::process::Command;

use crate::{ends, landbridge, soon};

/// A build on a busy machine.
const BUILD_MAX: Duration = Duration::from_secs(540);

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

async fn init(at: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let args: Vec<_> = ["init"].into_iter().chain(args.iter().copied()).collect();
    ends(landbridge(&args).current_dir(at)).await
}

/// Everything below a folder, with what files hold and where links lead.
fn tree(at: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut open = vec![at.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let kind = entry.file_type().expect("a kind");
            let what = if kind.is_symlink() {
                format!("-> {}", fs::read_link(&path).expect("a link").display())
            } else if kind.is_dir() {
                open.push(path.clone());
                "/".to_owned()
            } else {
                fs::read_to_string(&path).expect("text")
            };
            all.insert(path, what);
        }
    }
    all
}

#[tokio::test]
async fn a_project_is_made_with_every_blank_filled_in() {
    let at = folder();
    let (code, stdout, stderr) = init(at.path(), &["My Server!"]).await;
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.starts_with("Made my-server in ./my-server\n\nNext\n  cd ./my-server\n  cargo test\n"), "{stdout}");
    let program = at.path().join("my-server/target/release/my-server");
    assert!(stdout.contains(&format!("\"my-server\": {{ \"command\": \"{}\" }}", program.display())), "{stdout}");
    let project = at.path().join("my-server");
    let made = tree(&project);
    let names: Vec<_> =
        made.keys().map(|path| path.strip_prefix(&project).expect("below").display().to_string()).collect();
    let expect = [
        ".env.example",
        ".gitignore",
        "Cargo.lock",
        "Cargo.toml",
        "README.md",
        "mcp.json",
        "src",
        "src/main.rs",
        "src/server.rs",
    ];
    assert_eq!(names, expect);
    for (path, text) in &made {
        assert!(!text.contains("__"), "{}: {text}", path.display());
    }
    assert!(made[&project.join("Cargo.toml")].contains("name = \"my-server\"\n"));
    let config: serde_json::Value = serde_json::from_str(&made[&project.join("mcp.json")]).expect("JSON");
    assert_eq!(config["mcpServers"]["my-server"]["command"], program.to_str().expect("text"), "{config}");
    assert!(made[&project.join(".env.example")].contains("Nothing reads this file by itself"));
}

#[tokio::test]
async fn names_that_lead_elsewhere_are_refused_and_nothing_changes() {
    let at = folder();
    fs::create_dir(at.path().join("real")).expect("a folder");
    fs::create_dir(at.path().join("full")).expect("a folder");
    fs::write(at.path().join("full/README.md"), "mine").expect("a file");
    symlink("real", at.path().join("link")).expect("a link");
    symlink("/nowhere", at.path().join("dangling")).expect("a link");
    fs::write(at.path().join("file"), "mine").expect("a file");
    let before = tree(at.path());
    let absolute = at.path().join("x").display().to_string();
    let mut names: Vec<String> =
        ["..", ".", "../x", "a/../../x", "/etc/x", "//x", "a/b", "a\\b", "..\\x", "-", "!!!", ""]
            .map(str::to_owned)
            .into();
    names.push(absolute);
    // As deep as one likes, and with every character that a path or a terminal could take for more than a letter.
    names.extend((1..40).map(|depth| "../".repeat(depth) + "tmp/x"));
    names.extend((1..32_u8).map(|byte| format!("a{}b", char::from(byte))));
    names.extend((0..20).map(|digit| format!("{digit}lives")));
    names.extend(["fn", "test", "std", "rmcp", "tokio", "self", ".ssh", "a..b"].map(str::to_owned));
    assert!(100 <= names.len());
    for name in &names {
        let (code, stdout, stderr) = init(at.path(), &["--", name]).await;
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{name:?}: {stderr}");
    }
    // Links and files in the way, as the project, as its parent and on the way to it; and a folder that is not empty.
    for args in [
        &["link"][..],
        &["dangling"],
        &["file"],
        &["x", "--dir", "link"],
        &["x", "--dir", "real/../link"],
        &["x", "--dir", "dangling"],
        &["x", "--dir", "file"],
        &["link", "--force"],
        &["full"],
    ] {
        let (code, stdout, stderr) = init(at.path(), args).await;
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{args:?}: {stderr}");
        let way = if args[0] == "full" {
            "is not empty: choose another name, or add --force"
        } else {
            "is a link or no folder"
        };
        assert!(stderr.contains(way), "{args:?}: {stderr}");
    }
    for args in [&["x", "--sdk", "copied"][..], &["x", "--what"], &[], &["x", "y"]] {
        assert_eq!(init(at.path(), args).await.0, Some(2), "{args:?}");
    }
    assert_eq!(tree(at.path()), before);
}

#[tokio::test]
async fn force_replaces_files_and_no_target_of_a_link() {
    let at = folder();
    let project = at.path().join("deep/er/mine");
    fs::create_dir_all(project.join("src")).expect("folders");
    fs::write(at.path().join("secret"), "secret").expect("a file");
    fs::write(project.join("notes.txt"), "kept").expect("a file");
    fs::write(project.join("Cargo.toml"), "old").expect("a file");
    symlink(at.path().join("secret"), project.join("README.md")).expect("a link");
    let (code, _, stderr) = init(at.path(), &["mine", "--dir", "deep/er", "--force"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(fs::read_to_string(at.path().join("secret")).expect("text"), "secret");
    let made = tree(&project);
    assert_eq!(made[&project.join("notes.txt")], "kept");
    assert!(made[&project.join("Cargo.toml")].contains("name = \"mine\""));
    assert!(made[&project.join("README.md")].starts_with("# mine"));
    // A folder of the project that is a link is not gone into.
    fs::remove_dir_all(project.join("src")).expect("removed");
    fs::create_dir(at.path().join("outside")).expect("a folder");
    symlink(at.path().join("outside"), project.join("src")).expect("a link");
    assert_eq!(init(at.path(), &["mine", "--dir", "deep/er", "--force"]).await.0, Some(2));
    assert_eq!(fs::read_dir(at.path().join("outside")).expect("a folder").count(), 0);
}

/// Cargo in a project. All projects share one target folder, so that the SDK is built once.
async fn cargo(project: &Path, args: &[&str], home: Option<&Path>) {
    let shared = Path::new(crate::LANDBRIDGE).parent().expect("a folder").join("init-projects");
    let mut command = Command::new("cargo");
    command.args(args).current_dir(project).stdin(Stdio::null()).kill_on_drop(true);
    command.env("CARGO_TARGET_DIR", shared).env("CARGO_PROFILE_DEV_DEBUG", "0");
    if let Some(home) = home {
        command.env("CARGO_HOME", home);
    }
    let output = tokio::time::timeout(BUILD_MAX, command.output()).await.expect("in time").expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {args:?}: {said}");
    assert!(!said.contains("warning:"), "cargo {args:?}: {said}");
}

#[tokio::test]
async fn projects_of_both_kinds_build_and_pass_their_tests() {
    let at = folder();
    let (code, stdout, stderr) = init(at.path(), &["first-server"]).await;
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let first = at.path().join("first-server");
    cargo(&first, &["test", "--quiet", "--locked"], None).await;

    let args = ["init", "z_second", "--sdk", "vendored"];
    let vendored = tokio::time::timeout(BUILD_MAX, landbridge(&args).current_dir(at.path()).output());
    let vendored = vendored.await.expect("in time").expect("its output");
    assert!(vendored.status.success(), "{}", String::from_utf8_lossy(&vendored.stderr));
    assert!(String::from_utf8_lossy(&vendored.stdout).contains("cargo test --offline\n"));
    let second = at.path().join("z_second");
    let empty = at.path().join("empty-cargo-home");
    fs::create_dir(&empty).expect("a folder");
    for args in [&["build", "--quiet", "--offline", "--locked"][..], &["test", "--quiet", "--offline", "--locked"]] {
        cargo(&second, args, Some(&empty)).await;
    }
    assert!(!empty.join("registry").exists(), "nothing came from a registry");

    let program = Path::new(crate::LANDBRIDGE).with_file_name("init-projects").join("debug/z_second");
    let mut server = RawStdio::spawn(Command::new(program)).expect("the project's program starts");
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    assert!(soon(server.ask(hello)).await.expect("an answer").contains("\"name\":\"z_second\""));
    server.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await.expect("sent");
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"}}}"#;
    assert!(soon(server.ask(call)).await.expect("an answer").contains("Hello, Ada!"));

    // With the config that is there, from any folder, once the program is where its README has it built.
    let release = second.join("target/release");
    fs::create_dir_all(&release).expect("folders");
    let built = Path::new(crate::LANDBRIDGE).with_file_name("init-projects").join("debug/z_second");
    fs::copy(built, release.join("z_second")).expect("a copy");
    let config = second.join("mcp.json");
    fs::write(&config, fs::read_to_string(&config).expect("text").replace("Hello", "Servus")).expect("written");
    let mut behind = landbridge(&["stdio", "--surface", "server", "--config", config.to_str().expect("text")]);
    behind.current_dir("/");
    let mut server = RawStdio::spawn(behind).expect("it starts");
    soon(server.ask(hello)).await.expect("an answer");
    server.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await.expect("sent");
    let said = soon(server.ask(call)).await.expect("an answer");
    assert!(said.contains("Servus, Ada!"), "its variable reaches it: {said}");
}

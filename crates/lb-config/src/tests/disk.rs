//! Files on the disk: their permissions, and the folder they are in.

use std::fs;
use std::path::{Path, PathBuf};

use lb_exchange::Target;

use super::shown;
use crate::{FILE_BYTES_MAX, Problem, load};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, text: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.0.path().join("mcp.json");
        fs::write(&path, text).unwrap();
        chmod(&path, mode);
        path
    }

    /// What the reader is told, without the name of the folder.
    fn told(&self, problems: &[Problem]) -> String {
        shown(problems).replace(&format!("{}/", self.0.path().display()), "")
    }
}

#[cfg(unix)]
fn chmod(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(not(unix))]
fn chmod(_: &Path, _: u32) {}

#[test]
fn the_folder_and_the_environment_are_the_real_ones() {
    let folder = Folder::new();
    // The one variable that every test run has.
    let path = folder.file(r#"{"servers": {"a": {"command": "x", "cwd": "sub", "env": {"P": "${PATH}"}}}}"#, 0o600);
    let loaded = load(&path).unwrap();
    let Target::Child { cwd, env, .. } = &loaded.servers[0].target else { panic!("a child") };
    assert_eq!(cwd.as_deref(), Some(folder.0.path().join("sub").as_path()));
    assert_eq!(env[0].1.expose(), std::env::var("PATH").unwrap());
}

#[cfg(unix)]
#[test]
fn a_file_that_others_may_write_to_is_refused() {
    let folder = Folder::new();
    for (mode, refused) in
        [(0o600, false), (0o644, false), (0o444, false), (0o620, true), (0o602, true), (0o664, true), (0o666, true)]
    {
        let path = folder.file(r#"{"mcpServers": {}}"#, mode);
        assert_eq!(load(&path).is_err(), refused, "mode {mode:o}");
    }
    let path = folder.file(r#"{"mcpServers": {"a": {"command": 1}}}"#, 0o664);
    insta::assert_snapshot!(folder.told(&load(&path).unwrap_err()), @r#"
    error: mcp.json: refused: others may write to this file, and it names programs to start
      hint: run chmod go-w mcp.json
    error: mcp.json:1:34: mcpServers.a.command: must be a string, not a number
      hint: put it in double quotes
    "#);
}

#[cfg(unix)]
#[test]
fn written_out_secrets_are_warned_about_where_others_can_read_them() {
    let folder = Folder::new();
    let text = r#"{"mcpServers": {
        "a": {"command": "a", "env": {"API_KEY": "abc", "my_password": "abc", "EMPTY_TOKEN": "", "TOKEN": "${PATH}",
                                      "LEVEL": "debug"}},
        "b": {"url": "http://b", "headers": {"authorization": "Bearer abc", "X-Token": "Bearer ${PATH:-x}"}}}}"#;
    for (mode, count) in [(0o600, 0), (0o400, 0), (0o640, 3), (0o604, 3), (0o644, 3)] {
        let loaded = load(&folder.file(text, mode)).unwrap();
        assert_eq!((loaded.servers.len(), loaded.warnings.len()), (2, count), "mode {mode:o}");
    }
    let warnings = load(&folder.file(text, 0o644)).unwrap().warnings;
    insta::assert_snapshot!(folder.told(&warnings), @r"
    warning: mcp.json:2:50: mcpServers.a.env.API_KEY: a secret is written out in a file that others can read
      hint: write ${NAME} and set the variable, or run chmod go-r on the file
    warning: mcp.json:2:72: mcpServers.a.env.my_password: a secret is written out in a file that others can read
      hint: write ${NAME} and set the variable, or run chmod go-r on the file
    warning: mcp.json:4:63: mcpServers.b.headers.authorization: a secret is written out in a file that others can read
      hint: write ${NAME} and set the variable, or run chmod go-r on the file
    ");
}

#[cfg(unix)]
#[test]
fn written_out_secrets_of_a_login_are_warned_about_too() {
    let folder = Folder::new();
    let text = r#"{"mcpServers": {
        "a": {"url": "http://a", "auth": {"type": "static", "value": "Bearer abc"}},
        "b": {"url": "http://b", "auth": {"type": "service", "client_id": "x", "client_secret": "abc"}},
        "c": {"url": "http://c", "auth": {"type": "static", "value": "Bearer ${PATH}"}}}}"#;
    for (mode, count) in [(0o600, 0), (0o644, 2)] {
        let loaded = load(&folder.file(text, mode)).unwrap();
        assert_eq!((loaded.servers.len(), loaded.warnings.len()), (3, count), "mode {mode:o}");
    }
}

#[test]
fn what_cannot_be_read_says_so_once() {
    let folder = Folder::new();
    let told = |path: &Path| folder.told(&load(path).unwrap_err());
    let missing = told(&folder.0.path().join("none.json"));
    assert!(missing.starts_with("error: none.json: cannot be read: "), "{missing}");
    let problems = load(folder.0.path()).unwrap_err();
    assert_eq!((problems.len(), problems[0].message.as_str()), (1, "is a folder, not a file"));
    let path = folder.file("", 0o600);
    fs::File::options().write(true).open(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    assert_eq!(told(&path), "error: mcp.json: is larger than 16 MiB");
    assert_eq!(told(&folder.file(b"{\n  \"a\": \"\xff\"}", 0o600)), "error: mcp.json:2:9: the file is not UTF-8");
}

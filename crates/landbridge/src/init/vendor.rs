//! Copying all dependencies into a project, with Cargo's own means.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::logs::Words;
use crate::run::Failure;

/// Makes Cargo take every dependency from the copy.
pub const CONFIG: &str = "# Every dependency comes from the copy in vendor/.\n\
                          [source.crates-io]\nreplace-with = \"vendored-sources\"\n\n\
                          [source.vendored-sources]\ndirectory = \"vendor\"\n";

/// Runs `cargo vendor` in a project.
///
/// Cancel safe: yes, Cargo is killed.
///
/// # Errors
/// There is no Cargo, or it failed.
pub async fn vendor(project: &Path) -> Result<(), Failure> {
    let into = project.join("vendor");
    Words::info("vendoring", format!("copying the dependencies into {}", into.display())).say();
    let output = Command::new("cargo")
        .args(["vendor", "--locked", "--quiet", "vendor"])
        .current_dir(project)
        // Where what runs in its place has no toolchain to run, what it says is enough.
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| {
            let way = "install Rust from https://rustup.rs, or leave out --sdk vendored";
            Failure::runtime(format!("cannot run cargo: {error}; {way}"))
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let way = "it needs the registry this once; the project is made, and lacks only its vendor folder";
    Err(Failure::runtime(format!("cargo vendor failed ({way}):\n{}", said.trim())))
}

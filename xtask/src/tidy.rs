//! Rules of this repository that neither the compiler nor clippy knows: which crate may use which, what may not
//! stand in a source file, and which test shows which acceptance row.

mod rows;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::sh;
use crate::workspace::{self, Package};

/// What each crate may use of our own crates. A new edge is a decision: change it here and in `ARCHITECTURE.md`.
const EDGES: &[(&str, Uses)] = &[
    ("landbridge", Uses::Any),
    ("lb-http", Uses::Only(&["lb-front", "lb-exchange", "lb-auth", "lb-wire"])),
    ("lb-stdio", Uses::Only(&["lb-front", "lb-exchange", "lb-wire"])),
    ("lb-front", Uses::Only(&["lb-exchange", "lb-wire"])),
    ("lb-gateway", Uses::Only(&["lb-session", "lb-exchange", "lb-backend", "lb-store", "lb-telemetry", "lb-wire"])),
    ("lb-tools", Uses::Only(&["lb-gateway", "lb-session", "lb-exchange", "lb-codemode", "lb-wire"])),
    ("lb-session", Uses::Only(&["lb-exchange", "lb-wire"])),
    ("lb-exchange", Uses::Only(&["lb-telemetry", "lb-wire"])),
    ("lb-backend", Uses::Only(&["lb-exchange", "lb-process", "lb-wire"])),
    ("lb-process", Uses::Only(&[])),
    ("lb-codemode", Uses::Only(&["lb-process", "lb-wire"])),
    ("lb-wire", Uses::Only(&[])),
    ("lb-store", Uses::Only(&[])),
    ("lb-auth", Uses::Only(&["lb-exchange", "lb-store", "lb-wire"])),
    ("lb-ui", Uses::Only(&["lb-gateway", "lb-wire"])),
    ("lb-config", Uses::Only(&["lb-exchange", "lb-wire"])),
    ("lb-demo", Uses::Only(&[])),
    ("lb-telemetry", Uses::Only(&[])),
    ("lb-testkit", Uses::Only(&["lb-exchange", "lb-wire"])),
    ("lb-peers", Uses::Nothing),
    ("lb-soak", Uses::Only(&["lb-peers", "lb-testkit"])),
];

/// The right-hand side of [`EDGES`].
enum Uses {
    Any,
    /// These; in tests, any.
    Only(&'static [&'static str]),
    /// None of ours, not in tests either, so that no bug is shared.
    Nothing,
}

/// The one crate with a lint table of its own: it must allow `unsafe`, block by block.
const OWN_LINTS: &str = "lb-process";

/// Runs every rule and fails with all violations at once. Long files are only pointed out.
pub fn check() -> Result<()> {
    let root = workspace::root();
    let metadata = workspace::metadata()?;
    let members: Vec<&Package> =
        metadata.packages.iter().filter(|package| metadata.workspace_members.contains(&package.id)).collect();
    let crates: Vec<&Package> =
        members.iter().copied().filter(|package| package.manifest_path.starts_with(root.join("crates"))).collect();
    let mut problems = Vec::new();
    for package in &crates {
        let ours: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        problems.extend(edges(package, &ours));
        let manifest = fs::read_to_string(&package.manifest_path)?;
        problems.extend(lints(&package.name, &manifest));
    }
    let places = machine_places(&root);
    let files = tracked_files(&root)?;
    for file in &files {
        // What is not UTF-8 is no source of ours.
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        problems.extend(sources::violations(file, &text, &places));
        if let Some(note) = sources::too_long(file, &text) {
            println!("note: {note}");
        }
    }
    problems.extend(rows::violations(&root)?);
    if !problems.is_empty() {
        bail!("{} violations:\n  {}", problems.len(), problems.join("\n  "));
    }
    println!("{} crates and {} files are tidy", crates.len(), files.len());
    Ok(())
}

fn edges(package: &Package, ours: &[&str]) -> Vec<String> {
    let Some((_, uses)) = EDGES.iter().find(|(name, _)| *name == package.name) else {
        return vec![format!("{}: not in the table of edges", package.name)];
    };
    let refused = |dependency: &&crate::workspace::Dependency| {
        let in_tests = dependency.kind.as_deref() == Some("dev");
        ours.contains(&dependency.name.as_str())
            && match uses {
                Uses::Any => false,
                Uses::Only(allowed) => !in_tests && !allowed.contains(&dependency.name.as_str()),
                Uses::Nothing => true,
            }
    };
    let found = package.dependencies.iter().filter(refused);
    found.map(|dependency| format!("{} may not use {}", package.name, dependency.name)).collect()
}

fn lints(name: &str, manifest: &str) -> Option<String> {
    let table: toml::Table = match manifest.parse() {
        Ok(table) => table,
        Err(error) => return Some(format!("{name}: Cargo.toml: {error}")),
    };
    let lints = table.get("lints");
    let shared = lints.and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool) == Some(true);
    let own =
        name == OWN_LINTS && lints.is_some_and(|lints| lints.get("rust").is_some() && lints.get("clippy").is_some());
    (!shared && !own).then(|| format!("{name}: Cargo.toml does not say `lints.workspace = true`"))
}

/// Files under version control and new ones that are not ignored.
fn tracked_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).current_dir(root);
    let text = sh::stdout_of(&mut git).context("tidy reads the list of files from git")?;
    let files = text.split('\0').filter(|file| !file.is_empty()).map(PathBuf::from);
    Ok(files.filter(|file| root.join(file).is_file()).collect())
}

/// Folders that exist only on this machine: where the clone lies, and the home folder.
fn machine_places(root: &Path) -> Vec<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let places = root.parent().map(Path::to_path_buf).into_iter().chain(home);
    places
        .map(|place| place.to_string_lossy().trim_end_matches('/').to_owned())
        .filter(|place| !place.is_empty())
        .collect()
}

#[cfg(test)]
mod tests;

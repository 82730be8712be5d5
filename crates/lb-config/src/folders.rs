//! Where programs of this user keep things.

use std::path::PathBuf;

/// Our folder for what outlives the program and can be made anew: `$XDG_CACHE_HOME/landbridge`, else
/// `~/.cache/landbridge`. `None` where there is no home.
#[must_use]
pub fn cache_folder() -> Option<PathBuf> {
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(cache?.join("landbridge"))
}

/// Our folder for what outlives the program and cannot be made anew: `$XDG_STATE_HOME/landbridge`, else
/// `~/.local/state/landbridge`. `None` where there is no home.
#[must_use]
pub fn state_folder() -> Option<PathBuf> {
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    Some(state?.join("landbridge"))
}

/// Our folder for what belongs to this login: `$XDG_RUNTIME_DIR/landbridge`, else the system's temporary folder.
#[must_use]
pub fn runtime_folder() -> PathBuf {
    absolute("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, |folder| folder.join("landbridge"))
}

/// Where programs of this login speak to each other: `DBUS_SESSION_BUS_ADDRESS`, else the socket `bus` in
/// `$XDG_RUNTIME_DIR`. `None` where there is no such place.
#[must_use]
pub fn session_bus() -> Option<String> {
    let set = std::env::var("DBUS_SESSION_BUS_ADDRESS").ok().filter(|address| !address.is_empty());
    set.or_else(|| {
        let socket = absolute("XDG_RUNTIME_DIR")?.join("bus");
        socket.exists().then(|| format!("unix:path={}", socket.display()))
    })
}

/// The folder that a variable names. One that is relative counts as unset, as the rules of these variables say.
fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// How much a wrapped server is to be logged to a file: `LANDBRIDGE_WRAP_DEBUG`, or `MCP_WRAPPER_DEBUG`.
#[must_use]
pub fn wrap_debug() -> Option<String> {
    let value = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    value("LANDBRIDGE_WRAP_DEBUG").or_else(|| value("MCP_WRAPPER_DEBUG"))
}

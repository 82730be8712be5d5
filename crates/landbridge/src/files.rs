//! Files that settings name: whether they can be used, before anything is served.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use lb_backend::{Anchors, Trust};
use lb_config::settings::{Gathered, Login, Settings, State, Store, check_key};
use lb_config::{Loaded, Problem, Severity};
use lb_exchange::{ServerSpec, Target};
use lb_http::{Tls, TlsError};
use rustix::fs::{Access, OFlags, access};

use crate::auth;
use crate::run::quoted;
use crate::state::key;

/// Looks at each of them, and tells what is wrong with the place that names it.
pub fn check(settings: &Settings, gathered: &mut Gathered) {
    if let Some(files) = &settings.tls
        && let Err(error) = Tls::load(&files.cert, &files.key)
    {
        let (key, hint) = match &error {
            TlsError::Read { path, .. } | TlsError::Pem { path, .. } if *path == files.cert => ("tls_cert", None),
            TlsError::Read { .. } | TlsError::Pem { .. } => ("tls_key", None),
            TlsError::Pair { .. } => ("tls_key", Some("give the key that the certificate was made with".to_owned())),
        };
        gathered.refuse(key, error.to_string(), hint);
    }
    check_state(&settings.state, gathered);
    if let Some(login) = &settings.login {
        check_login(login, gathered);
    }
    let file = settings.log_file.as_deref().map(|path| ("log_file", path.to_owned()));
    // A new file is made in the folder, of whatever name.
    let folder = settings.log_dir.as_deref().map(|path| ("log_dir", path.join("log")));
    let audit = settings.audit_log.as_deref().map(|path| ("audit_log", path.to_owned()));
    for (key, path) in file.into_iter().chain(folder).chain(audit) {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty() && !above.exists());
        match (above, can_be_written(&path)) {
            // Most often a slip, and logs that nobody finds are none.
            (Some(above), _) if key != "log_dir" => {
                let hint = Some("make it, or correct the path".to_owned());
                gathered.refuse(key, format!("there is no folder {}", above.display()), hint);
            }
            (_, Err(error)) => gathered.refuse(key, format!("cannot be written: {error}"), None),
            (_, Ok(())) => {}
        }
    }
}

/// What a login needs. That the provider answers is seen when somebody logs in.
fn check_login(login: &Login, gathered: &mut Gathered) {
    if let Err(why) = auth::api_keys(&login.keys) {
        gathered.refuse("auth", why, None);
    }
    let secret = login.oidc.as_ref().and_then(|oidc| oidc.client_secret_file.as_deref());
    if let Some(Err(why)) = secret.map(auth::secret_of) {
        gathered.refuse("oidc_client_secret_file", why, None);
    }
    let trust = login.outbound_ca.clone().map(Trust::Also);
    if let Some(Err(error)) = trust.as_ref().map(Anchors::read) {
        gathered.refuse("outbound_ca", error.to_string(), None);
    }
}

/// What state is kept with. That the server answers, or nobody else has the folder, is seen when it is opened.
fn check_state(state: &State, gathered: &mut Gathered) {
    if let Some(Err(why)) = state.key_file.as_deref().map(good_keys) {
        gathered.refuse("key_file", why, None);
    }
    match &state.store {
        Store::Shared { url, ca, .. } => {
            if let Err(error) = lb_store::Settings::parse(url.expose()) {
                gathered.refuse("store", error.to_string(), None);
            }
            if let Some(Err(error)) = ca.as_deref().map(std::fs::File::open) {
                gathered.refuse("store_ca", format!("cannot be read: {error}"), None);
            }
        }
        Store::Disk(Some(folder)) => {
            if let Err(error) = can_be_written(&folder.join("state.redb")) {
                gathered.refuse("data", format!("cannot be written: {error}"), None);
            }
        }
        Store::Disk(None) | Store::Memory => {}
    }
}

/// Whether a file holds keys that nobody knows: what would be refused as `LANDBRIDGE_KEY` is no better in a file.
fn good_keys(file: &Path) -> Result<(), String> {
    for key in key::lines(file)? {
        check_key(key.expose()).map_err(|why| format!("{}: {why}", file.display()))?;
    }
    Ok(())
}

/// Warnings of servers whose programs are not there, or are none. They may come, so that it is no more than that.
pub fn missing_programs(loaded: &Loaded, config: &Path) -> Vec<Problem> {
    let warning = |server: &ServerSpec| {
        let (message, hint) = missing_program(&server.target)?;
        let place = loaded.commands.iter().find(|place| place.server == server.name);
        Some(Problem {
            severity: Severity::Warning,
            file: config.to_owned(),
            line: place.map_or(0, |place| place.line),
            column: place.map_or(0, |place| place.column),
            key: place.map_or_else(|| format!("{}.command", server.name), |place| place.key.clone()),
            message,
            hint: Some(hint),
        })
    };
    loaded.servers.iter().filter(|server| !server.disabled).filter_map(warning).collect()
}

/// What is wrong with the program of a server, and what to do about it.
fn missing_program(target: &Target) -> Option<(String, String)> {
    let Target::Child { command, env, cwd, .. } = target else { return None };
    let install = || "install it, give its full path, or correct it".to_owned();
    if command.contains('/') {
        // From `cwd`, as the system takes it.
        let file = cwd.as_deref().unwrap_or(Path::new("")).join(command);
        return match file.metadata() {
            Err(_) => Some((format!("there is no {command:?}"), install())),
            Ok(found) if found.is_dir() => {
                Some((format!("{command:?} is a folder, not a program"), "give the path of a program in it".to_owned()))
            }
            Ok(_) if access(&file, Access::EXEC_OK).is_err() => {
                Some((format!("{command:?} is not executable"), format!("run chmod +x {}", quoted(command))))
            }
            Ok(_) => None,
        };
    }
    let own = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.expose().into());
    let path: OsString = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(command)).filter(|file| file.is_file());
    if found.any(|file| access(&file, Access::EXEC_OK).is_ok()) {
        return None;
    }
    let count = std::env::split_paths(&path).count();
    Some((format!("{command:?} is in none of the {count} folders of PATH"), install()))
}

/// Warnings of keys that let nobody in: files without any, and scopes for servers that are not there.
pub fn useless_keys(settings: &Settings, servers: &[ServerSpec]) -> Vec<Problem> {
    let Some(login) = &settings.login else { return Vec::new() };
    let warning = |file: &Path, line: usize, message: String, hint: String| Problem {
        severity: Severity::Warning,
        file: file.to_owned(),
        line,
        column: 0,
        key: String::new(),
        message,
        hint: Some(hint),
    };
    let mut found = Vec::new();
    for file in &login.keys {
        // One that cannot be read is an error, and told as such.
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        let lines = (1..).zip(text.lines().map(str::trim));
        let keys: Vec<_> = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect();
        if keys.is_empty() {
            let hint = format!("landbridge auth key new NAME --file {}", quoted(&file.display().to_string()));
            found.push(warning(file, 0, "there are no keys in it: nobody gets in with one".to_owned(), hint));
        }
        for (line, key) in keys {
            let mut words = key.split_whitespace();
            let id = words.next().unwrap_or_default();
            let names = words.filter_map(|word| word.strip_prefix("server:"));
            for name in names.filter(|name| !servers.iter().any(|server| server.name.as_str() == *name)) {
                let message = format!("the key {id:?} is for a server {name:?}, which the config does not have");
                let hint = "a client or an operator may add it; else correct the scope".to_owned();
                found.push(warning(file, line, message, hint));
            }
        }
    }
    found
}

/// Whether a file can be opened or made, without leaving anything behind.
fn can_be_written(path: &Path) -> io::Result<()> {
    if path.exists() {
        // A pipe without a reader would be waited for.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        return match OpenOptions::new().append(true).custom_flags(flags).open(path) {
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::NXIO.raw_os_error()) => Err(error),
            _ => Ok(()),
        };
    }
    let above =
        path.ancestors().skip(1).map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let Some(folder) = above.into_iter().find(|folder| folder.exists()) else { return Ok(()) };
    if !folder.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{} is no folder", folder.display())));
    }
    // The rights alone do not tell: a system has folders where nobody can make anything.
    let probe = folder.join(format!(".landbridge-{}", std::process::id()));
    std::fs::create_dir(&probe)
        .and_then(|()| std::fs::remove_dir(&probe))
        .map_err(|error| io::Error::other(format!("in {}: {error}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_writable_when_it_or_its_folders_can_be_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "").expect("written");
        for good in ["file", "new", "new/deep/log"] {
            assert!(can_be_written(&at(good)).is_ok(), "{good}");
        }
        assert!(!at("new").exists(), "nothing is made");
        assert!(can_be_written(Path::new("log")).is_ok() && can_be_written(Path::new("/dev/full")).is_ok());
        let told = can_be_written(&at("file/log")).expect_err("it is below a file").to_string();
        assert!(told.ends_with("/file is no folder"), "{told}");
        assert!(can_be_written(folder.path()).is_err(), "a folder is no file");
    }
}

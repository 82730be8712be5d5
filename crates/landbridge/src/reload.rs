//! Taking up changed servers and settings while it runs: on SIGHUP, and when a file changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lb_config::settings::{Gathered, Given, Scope, Settings, Sources, changed, gather};
use lb_exchange::{ServerSpec, Tasks};
use lb_gateway::{Change, Gateway};

use crate::assembly::{Loaded, read_servers};
use crate::cli::SurfaceName;
use crate::settled::Settled;
use crate::{auth, logs, serve};

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What is compared with what the files say next.
pub struct Reload {
    flags: Given,
    /// The file of settings that the command line names.
    named_file: Option<PathBuf>,
    scopes: &'static [Scope],
    gathered: Gathered,
    servers: Vec<ServerSpec>,
    surface: SurfaceName,
    logs: logs::Handle,
    door: Option<Door>,
}

/// The HTTP side, which takes up settings while it serves.
pub struct Door {
    /// The HTTP side.
    pub handle: lb_http::Handle,
    /// Whether only this machine can connect.
    pub is_local: bool,
    /// Who checks whoever connects.
    pub auth: Option<Arc<lb_auth::Auth>>,
}

/// A file that is looked at, and whether nothing can be served without it.
type Looked = (PathBuf, bool);

/// What tells one state of the files from another. Editors replace files, so that the path counts and not the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(BTreeMap<PathBuf, State>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// When it was last changed in any way, who may read it among them; length and number. If it is there.
    found: Option<((i64, i64), u64, u64)>,
    needed: bool,
}

impl Stamp {
    fn of(files: Vec<Looked>) -> Self {
        let found = |path: &Path| {
            use std::os::unix::fs::MetadataExt as _;
            let metadata = std::fs::metadata(path).ok()?;
            Some(((metadata.ctime(), metadata.ctime_nsec()), metadata.len(), metadata.ino()))
        };
        Self(files.into_iter().map(|(path, needed)| (path.clone(), State { found: found(&path), needed })).collect())
    }

    /// The same files as they are now.
    fn again(&self) -> Self {
        Self::of(self.0.iter().map(|(path, state)| (path.clone(), state.needed)).collect())
    }

    /// With the states that some of the files had earlier.
    fn since(mut self, earlier: &Self) -> Self {
        for (path, state) in &mut self.0 {
            state.found = earlier.0.get(path).map_or(state.found, |earlier| earlier.found);
        }
        self
    }

    /// The files that are needed and not there.
    fn missing(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter().filter(|(_, state)| state.found.is_none() && state.needed).map(|(path, _)| path)
    }

    /// A file that is just being replaced is not there for a moment.
    fn is_whole(&self) -> bool {
        self.missing().next().is_none()
    }
}

impl Reload {
    /// Begins with what is served now.
    pub fn new(settled: &Settled, surface: SurfaceName, loaded: &Loaded, logs: logs::Handle) -> Self {
        let servers = loaded.servers.clone();
        logs::hide(&servers);
        let (flags, scopes) = (settled.flags.clone(), settled.scopes);
        let named_file = settled.named_file.clone();
        Self { flags, named_file, scopes, gathered: settled.gathered.clone(), servers, surface, logs, door: None }
    }

    /// Where who did what is written, if anywhere.
    pub fn audit(&self) -> Option<logs::Audit> {
        self.logs.audit()
    }

    /// Watches until the tasks are stopped.
    pub fn start(mut self, gateway: &Gateway, door: Option<Door>, tasks: &Tasks) {
        self.door = door;
        let (gateway, stopping) = (gateway.clone(), tasks.clone());
        tasks.spawn(async move {
            tokio::select! {
                () = self.watch(gateway) => {}
                () = stopping.stopping() => {}
            }
        });
    }

    async fn watch(mut self, gateway: Gateway) {
        use tokio::signal::unix::{SignalKind, signal};
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => return tracing::warn!(%error, "cannot hear SIGHUP: nothing is reloaded"),
        };
        let mut known = Stamp::of(files(&self.gathered));
        let mut seen = known.clone();
        let mut told: Vec<PathBuf> = Vec::new();
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let asked = tokio::select! {
                heard = hangup.recv() => heard.is_some(),
                _ = look.tick() => false,
            };
            let now = known.again();
            // Twice the same: nobody is in the middle of writing it.
            let settled = now != known && now == seen && now.is_whole();
            if now == seen {
                tell_missing(&now, &mut told);
            }
            seen = now.clone();
            if asked || settled {
                // Stamped before they are read: what is changed meanwhile is seen at the next look.
                known = self.reload(&gateway, now).await;
                seen = known.clone();
            }
        }
    }

    /// Takes up what the files say now, which were in this state. What is served now was read from the state that is
    /// returned, or from a later one.
    async fn reload(&mut self, gateway: &Gateway, before: Stamp) -> Stamp {
        let sources = Sources::of_process(self.flags.clone(), self.named_file.clone());
        let mut gathered = gather(sources, self.scopes);
        let settings = Settings::settle(&mut gathered);
        let stamp = Stamp::of(files(&gathered)).since(&before);
        let read = read_servers(&settings);
        if gathered.is_broken() || read.is_err() {
            logs::tell(gathered.problems());
            logs::tell(&read.err().unwrap_or_default());
            tracing::warn!(why = "there are errors, so nothing was changed", "config_reload_failed");
            return before;
        }
        let loaded = read.unwrap_or_default();
        logs::tell(&loaded.warnings);
        logs::tell(&loaded.left_out);
        let servers: Vec<_> = loaded.servers.into_iter().filter(|server| !server.disabled).collect();
        if self.surface == SurfaceName::Server && servers.is_empty() {
            tracing::warn!(why = "no server is left to serve, so nothing was changed", "config_reload_failed");
            return before;
        }
        self.take_settings(gathered, settings);
        self.take_servers(servers, gateway).await;
        stamp
    }

    fn take_settings(&mut self, gathered: Gathered, settings: Settings) {
        let (taken, left) = changed(&self.gathered, &gathered);
        self.take_access(&gathered, &settings);
        if taken.contains(&"log_level") {
            self.logs.set_level(settings.log_level.as_deref());
        }
        if let Some(door) = self.door.as_ref().filter(|_| !taken.is_empty()) {
            let now = door.handle.settings();
            let (pages, health, node) = (now.pages.clone(), now.health.clone(), now.node.clone());
            let managed = now.managed.clone();
            let settings = serve::http(&settings.reached(door.is_local));
            let (auth, behind, closed) = (now.auth.clone(), now.behind.clone(), now.closed.clone());
            door.handle.update(lb_http::Settings { pages, managed, health, node, auth, behind, closed, ..settings });
        }
        for key in taken {
            tracing::info!(key, "setting_reloaded");
            tracing::info!(target: "audit", event = "setting_reloaded", who = "operator", setting = key, outcome = "ok");
        }
        for key in left {
            tracing::warn!(key, why = "it holds from the next start on", "setting_not_reloaded");
        }
        self.gathered = gathered;
    }

    /// Takes up who gets in and may do what; of how people log in nothing is taken up.
    fn take_access(&self, gathered: &Gathered, settings: &Settings) {
        let auth = self.door.as_ref().and_then(|door| door.auth.as_ref());
        let (Some(auth), Some(login)) = (auth, &settings.login) else { return };
        for key in auth::left(&gathered.access, &self.gathered.access) {
            tracing::warn!(key, why = "it holds from the next start on", "setting_not_reloaded");
        }
        match auth::reload(auth, login, settings) {
            Ok(()) if auth::is_reloaded(&gathered.access, &self.gathered.access) => {
                tracing::info!("access_reloaded");
                tracing::info!(target: "audit", event = "access_reloaded", who = "operator", outcome = "ok");
            }
            Ok(()) => {}
            Err(why) => tracing::warn!(%why, "access_reload_failed"),
        }
    }

    async fn take_servers(&mut self, servers: Vec<ServerSpec>, gateway: &Gateway) {
        logs::hide(&servers);
        let before = std::mem::replace(&mut self.servers, servers);
        let changes = gateway.reload(&before, &self.servers).await;
        let count = |wanted: Change| changes.iter().filter(|(_, change)| *change == wanted).count();
        for (server, change) in &changes {
            let event = match change {
                Change::Added | Change::Refused => "server_added",
                Change::Updated => "server_updated",
                Change::Removed => "server_removed",
            };
            let outcome = if *change == Change::Refused { "refused" } else { "ok" };
            tracing::info!(target: "audit", event, who = "operator", %server, outcome);
        }
        tracing::info!(
            added = count(Change::Added),
            updated = count(Change::Updated),
            removed = count(Change::Removed),
            refused = count(Change::Refused),
            "config_reloaded"
        );
    }
}

/// Tells of each file once that is gone for longer than it takes to replace it.
fn tell_missing(now: &Stamp, told: &mut Vec<PathBuf>) {
    let missing: Vec<PathBuf> = now.missing().cloned().collect();
    for file in missing.iter().filter(|file| !told.contains(file)) {
        let why = "the file is gone; what it said stays as it was until it is back";
        tracing::warn!(file = %file.display(), why, "config_missing");
    }
    *told = missing;
}

/// The files that hold what is reloaded.
fn files(gathered: &Gathered) -> Vec<Looked> {
    let settings = Settings::settle(&mut gathered.clone());
    let servers = settings.config.filter(|_| settings.inline_servers.is_none()).map(|path| (path, true));
    let keys = settings.login.into_iter().flat_map(|login| login.keys).map(|path| (path, true));
    gathered.file_place.clone().into_iter().chain(servers).chain(keys).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_while_it_is_read_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        std::fs::write(&old, "1").expect("written");
        std::fs::write(&new, "1").expect("written");
        let before = Stamp::of(vec![(old.clone(), true)]);
        std::fs::write(&old, "changed").expect("written");
        let known = Stamp::of(vec![(old.clone(), true), (new, true)]).since(&before);
        assert_ne!(known.again(), known, "the change was made after the look");
        let known = known.again();
        assert_eq!(known.again(), known);
    }

    #[test]
    fn a_file_that_may_be_missing_stops_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let [optional, needed] = ["optional", "needed"].map(|name| folder.path().join(name));
        std::fs::write(&needed, "1").expect("written");
        let stamp = Stamp::of(vec![(optional.clone(), false), (needed.clone(), true)]);
        assert!(stamp.is_whole());
        std::fs::write(&optional, "1").expect("written");
        assert_ne!(stamp.again(), stamp, "it is seen when it comes");
        std::fs::remove_file(&needed).expect("removed");
        assert!(!stamp.again().is_whole());
    }
}

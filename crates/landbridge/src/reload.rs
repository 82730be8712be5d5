//! Taking up changed servers and settings while it runs: on SIGHUP, and when a file changes.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use lb_config::settings::{Gathered, Given, Scope, Settings, Sources, changed, gather};
use lb_exchange::{ServerSpec, Tasks};
use lb_gateway::{Change, Gateway};

use crate::assembly::{Loaded, read_servers};
use crate::cli::SurfaceName;
use crate::settled::{Settled, say};
use crate::{logs, serve};

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What is compared with what the files say next.
pub struct Reload {
    flags: Given,
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
    /// Its certificate.
    pub tls: Option<lb_http::Tls>,
}

/// What tells one state of a file from another. Editors replace files, so that the path counts and not the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(Vec<Option<(SystemTime, u64, u64)>>);

impl Stamp {
    fn of(files: &[PathBuf]) -> Self {
        let stamp = |path: &PathBuf| {
            use std::os::unix::fs::MetadataExt as _;
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
        };
        Self(files.iter().map(stamp).collect())
    }

    /// A file that is just being replaced is not there for a moment.
    fn is_whole(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }
}

impl Reload {
    /// Begins with what is served now.
    pub fn new(settled: &Settled, surface: SurfaceName, loaded: &Loaded, logs: logs::Handle) -> Self {
        let servers = loaded.servers.clone();
        logs::hide(&servers);
        let (flags, scopes) = (settled.flags.clone(), settled.scopes);
        Self { flags, scopes, gathered: settled.gathered.clone(), servers, surface, logs, door: None }
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
        let mut files = self.files();
        let mut known = Stamp::of(&files);
        let mut seen = known.clone();
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let asked = tokio::select! {
                heard = hangup.recv() => heard.is_some(),
                _ = look.tick() => false,
            };
            let now = Stamp::of(&files);
            // Twice the same: nobody is in the middle of writing it.
            let settled = now != known && now == seen && now.is_whole();
            seen = now.clone();
            self.renew_certificate();
            if asked || settled {
                self.reload(&gateway).await;
                files = self.files();
                known = if asked { Stamp::of(&files) } else { now };
                seen = known.clone();
            }
        }
    }

    /// Certificates are replaced by others, often without a word.
    fn renew_certificate(&self) {
        match self.door.as_ref().and_then(|door| door.tls.as_ref()).map(lb_http::Tls::reload_if_changed) {
            Some(Ok(true)) => tracing::info!("certificate_reloaded"),
            Some(Err(error)) => tracing::warn!(%error, "certificate_reload_failed"),
            Some(Ok(false)) | None => {}
        }
    }

    /// The files that hold what is reloaded.
    fn files(&self) -> Vec<PathBuf> {
        let mut probe = self.gathered.clone();
        let settings = Settings::settle(&mut probe);
        let servers = settings.config.filter(|_| settings.inline_servers.is_none());
        servers.into_iter().chain(self.gathered.file.clone()).collect()
    }

    async fn reload(&mut self, gateway: &Gateway) {
        let sources = Sources::of_process(self.flags.clone(), self.gathered.file.clone());
        let mut gathered = gather(sources, self.scopes);
        let settings = Settings::settle(&mut gathered);
        let read = read_servers(&settings);
        if gathered.is_broken() || read.is_err() {
            say(gathered.problems());
            say(&read.err().unwrap_or_default());
            tracing::warn!(why = "there are errors, so nothing was changed", "config_reload_failed");
            return;
        }
        let loaded = read.unwrap_or_default();
        say(&loaded.warnings);
        say(&loaded.left_out);
        let servers: Vec<_> = loaded.servers.into_iter().filter(|server| !server.disabled).collect();
        if self.surface == SurfaceName::Server && servers.is_empty() {
            return tracing::warn!(why = "no server is left to serve, so nothing was changed", "config_reload_failed");
        }
        self.take_settings(gathered, &settings);
        self.take_servers(servers, gateway).await;
    }

    fn take_settings(&mut self, gathered: Gathered, settings: &Settings) {
        let (taken, left) = changed(&self.gathered, &gathered);
        if taken.contains(&"log_level") {
            self.logs.set_level(settings.log_level.as_deref());
        }
        if let Some(door) = self.door.as_ref().filter(|_| !taken.is_empty()) {
            let now = door.handle.settings();
            let (pages, health) = (now.pages.clone(), now.health.clone());
            door.handle.update(lb_http::Settings { pages, health, ..serve::http(settings) });
        }
        for key in left {
            tracing::warn!(key, why = "it holds from the next start on", "setting_not_reloaded");
        }
        self.gathered = gathered;
    }

    async fn take_servers(&mut self, servers: Vec<ServerSpec>, gateway: &Gateway) {
        logs::hide(&servers);
        let before = std::mem::replace(&mut self.servers, servers);
        let changes = gateway.reload(&before, &self.servers).await;
        let count = |wanted: Change| changes.iter().filter(|(_, change)| *change == wanted).count();
        tracing::info!(
            added = count(Change::Added),
            updated = count(Change::Updated),
            removed = count(Change::Removed),
            refused = count(Change::Refused),
            "config_reloaded"
        );
    }
}

//! A real OIDC provider on loopback, and a browser without a window that logs people in.

mod browser;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::installed;

pub use browser::{Browser, Decision, Stopped};

/// How long it may take to listen, on a machine that is busy.
const START_MAX: Duration = Duration::from_secs(50);

/// How a provider is set up.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where the client `gateway` may send people back to.
    pub redirects: Vec<String>,
    /// What its issuer ends with; some write a slash.
    pub issuer_end: String,
    /// The claim that groups are in; empty for `groups`.
    pub groups_claim: String,
    /// How what it says of people is signed, with a key of its own; empty for RS256.
    pub signing: String,
    /// A file that it writes every exchange to where tokens and clients are made, secrets and all.
    pub notes: Option<PathBuf>,
    /// A file that it writes the path of every request to, a line each.
    pub visits: Option<PathBuf>,
    /// Its port; 0 is any.
    pub port: u16,
    /// A file with its keys; without one they are those of its examples.
    pub keys: Option<PathBuf>,
    /// Groups of people, as in `alice=admins,staff;bob=staff`.
    pub groups: String,
    /// How long its access tokens live; five minutes where nothing else is said.
    pub access_life: Option<Duration>,
    /// A file with everything that it must know after a restart; without one it forgets.
    pub store: Option<PathBuf>,
    /// The certificate of a site whose documents it takes as clients; without one it takes none.
    pub documents_ca: Option<PathBuf>,
    /// A file with the milliseconds that it thinks about every request, as it is when the request comes.
    pub delay: Option<PathBuf>,
}

/// A running provider. Dropping it kills it.
#[derive(Debug)]
pub struct Idp {
    /// Its issuer, byte for byte.
    pub issuer: String,
    /// Its port on 127.0.0.1.
    pub port: u16,
    child: Child,
}

/// The secret of the client `service`, which is a program of its own.
pub const SERVICE_SECRET: &str = "service-secret-for-tests-only";

/// The secret of the client `gateway`.
pub const CLIENT_SECRET: &str = "gateway-secret-for-tests-only";

impl Idp {
    /// Starts one and waits until it listens.
    ///
    /// # Panics
    /// When it is not installed or does not start.
    pub fn start(options: &Options) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/idp/provider.mjs");
        let mut command = Command::new(installed::node());
        command.arg(script).arg(installed::file("oidc-provider", "node_modules/oidc-provider/lib/index.js"));
        command.env("PORT", options.port.to_string()).env("ISSUER_END", &options.issuer_end);
        command.env("GROUPS_CLAIM", &options.groups_claim).env("SIGNING", &options.signing);
        command.envs(options.notes.as_ref().map(|notes| ("NOTES", notes)));
        command.envs(options.visits.as_ref().map(|visits| ("VISITS", visits)));
        command.env("GROUPS", &options.groups).env("CLIENT_REDIRECTS", options.redirects.join(","));
        command.envs(options.delay.as_ref().map(|delay| ("DELAY", delay)));
        if let Some(ca) = &options.documents_ca {
            command.env("DOCUMENTS", "yes").env("NODE_EXTRA_CA_CERTS", ca);
        }
        if let Some(keys) = &options.keys {
            command.env("JWKS", keys);
        }
        if let Some(life) = options.access_life {
            command.env("AT_TTL", life.as_secs().to_string());
        }
        if let Some(store) = &options.store {
            command.env("STORE", store);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("node starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (tell, told) = mpsc::sync_channel(1);
        // It writes more lines, which must go somewhere; the thread ends with the process.
        std::thread::spawn(move || {
            let mut line = String::new();
            let first = lines.read_line(&mut line).map(|_| line);
            if tell.send(first).is_ok() {
                std::io::copy(&mut lines, &mut std::io::sink()).ok();
            }
        });
        let line = told.recv_timeout(START_MAX).expect("the provider says where it is").expect("a line of text");
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("the provider says {line:?}"));
        let port = told["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
        Self { issuer: told["issuer"].as_str().expect("an issuer").to_owned(), port, child }
    }
}

impl Idp {
    /// Ends it after it has answered what it was asked.
    ///
    /// # Panics
    /// When it cannot be told or does not end.
    pub fn stop(mut self) {
        self.signal(rustix::process::Signal::TERM);
        self.child.wait().expect("the provider ends");
    }

    /// Stops it without closing its connections: it can be reached and says nothing.
    ///
    /// # Panics
    /// When it has ended.
    pub fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// When it has ended.
    pub fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).expect("the provider is there");
    }
}

impl Drop for Idp {
    fn drop(&mut self) {
        // Whether it has ended before does not matter.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

//! Reaching a server in the era of the front, and the connection that comes of it.

mod connector;
mod handshake;
mod open;
mod passing;
mod report;
mod turn;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lb_exchange::{
    Caller, ErrorBody, Feed, Isolation, Login, Logins, Outcome, Principal, ServerAuth, ServerName, ServerSpec, Target,
    Tasks,
};
use lb_process::Child;
use lb_wire::Raw;
use lb_wire::revision::{Era, Revision};
use parking_lot::Mutex;
use tokio::io::DuplexStream;

use crate::breaker::gate::Gate;
use crate::child;
use crate::children::{Children, Taken};
use crate::error::{ConnectError, EraError};
use crate::http::{Access, Endpoint, HttpConnection, Over};
use crate::inbound::Intake;
use crate::lane::Lane;
use crate::names::Names;
use crate::pipe::{Ends, Pipe, Runs};

pub use connector::Connector;
pub(crate) use connector::jitter;

/// Makers of servers that run inside this process, by name. Each call starts one and gives our end of its stream.
pub type EmbeddedServers = HashMap<String, Arc<dyn Fn() -> DuplexStream + Send + Sync>>;

/// What servers of every kind need to be reached.
#[derive(Clone)]
pub struct Environment {
    /// The binary that runs as the supervisor of children.
    pub supervisor: PathBuf,
    /// Servers inside this process.
    pub embedded: Arc<EmbeddedServers>,
    /// Owner of all tasks.
    pub tasks: Tasks,
    /// Room for children.
    pub children: Children,
    /// What we prove ourselves with at servers that want a login; `None` where there are no logins.
    pub logins: Option<Arc<dyn Logins>>,
    /// What hosts are looked up with.
    pub names: Names,
}

/// Children at one time, over all servers and sessions.
pub const CHILDREN_MAX: usize = 64;

/// Handshakes that a server has time for: one in each era, and one more if it refuses a revision of its own.
const HANDSHAKES: u32 = 3;

/// One configured server, and what has been learned about it.
pub struct Server {
    spec: Arc<ServerSpec>,
    environment: Environment,
    endpoint: Option<Arc<Endpoint>>,
    eras: Mutex<Verdict>,
    /// Its processes.
    children: Arc<AtomicUsize>,
    gate: Arc<Gate>,
}

/// What is known about what a server speaks: a set of eras, because some speak both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Verdict {
    legacy: Option<bool>,
    modern: Option<bool>,
    /// Whether it took no POST and was reached over HTTP+SSE.
    by_stream: bool,
}

impl Verdict {
    fn of(self, era: Era) -> Option<bool> {
        match era {
            Era::Legacy => self.legacy,
            Era::Modern => self.modern,
        }
    }

    fn set(&mut self, era: Era, speaks: bool) {
        match era {
            Era::Legacy => self.legacy = Some(speaks),
            Era::Modern => self.modern = Some(speaks),
        }
    }
}

/// What a connection is wanted for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The client behind it.
    pub caller: Arc<Caller>,
    /// The params of the client's own `initialize`, with the revision that the front settled on; `None` for modern
    /// clients.
    pub hello: Option<Raw>,
    /// Where the connection puts what belongs to no request.
    pub feed: Feed,
    /// Owner of what must be done in the background.
    pub tasks: Tasks,
    /// Whether the client itself will say `notifications/initialized`.
    pub client_says_initialized: bool,
}

impl Server {
    /// A server that is not connected to yet.
    ///
    /// # Errors
    /// Its URL cannot be used.
    pub fn new(spec: Arc<ServerSpec>, environment: Environment) -> Result<Arc<Self>, ConnectError> {
        let endpoint = match &spec.target {
            Target::Http { url, headers } => {
                let endpoint = Endpoint::new(spec.name.as_str(), url, headers, environment.tasks.clone())?;
                let endpoint = endpoint.within(spec.bounds).named_by(environment.names.clone());
                Some(Arc::new(endpoint.answering_within(spec.init_timeout)))
            }
            Target::Child { .. } | Target::Embedded(_) => None,
        };
        let gate = match &endpoint {
            Some(endpoint) => endpoint.gate().clone(),
            None => Arc::new(Gate::new(format!("server {:?}", spec.name.as_str()))),
        };
        let (eras, children) = Default::default();
        Ok(Arc::new(Self { spec, environment, endpoint, eras, children, gate }))
    }

    /// Its definition.
    pub fn spec(&self) -> &Arc<ServerSpec> {
        &self.spec
    }

    /// How many of its processes run.
    pub fn children(&self) -> usize {
        self.children.load(Ordering::Relaxed)
    }

    async fn connect_in(&self, era: Era, wish: &Wish) -> Result<Arc<Connection>, EraError> {
        match (&self.endpoint, era) {
            (Some(endpoint), Era::Legacy) => {
                let (hello, access) = (handshake::hello(wish), self.access(endpoint, wish));
                let (connection, welcome) = HttpConnection::legacy(access, hello, wish.feed.clone()).await?;
                self.connection(Link::Http(connection), era, welcome, wish)
            }
            (Some(endpoint), Era::Modern) => {
                let (info, access) = (wish.caller.client_info.clone(), self.access(endpoint, wish));
                let (connection, welcome) = HttpConnection::modern(access, info, wish.feed.clone()).await?;
                self.connection(Link::Http(connection), era, welcome, wish)
            }
            (None, _) => {
                let room = self.room(&wish.caller.principal).await.map_err(EraError::Failed)?;
                let started = self.start(era, wish.feed.clone()).await.map_err(EraError::Failed)?;
                let (room, tasks) = (Mutex::new(room), self.environment.tasks.clone());
                let guard = Started { inner: started, room, tasks, over: None };
                let welcome = handshake::over_pipe(&guard, era, wish, self.spec.init_timeout).await?;
                self.connection(Link::Pipe(guard), era, welcome, wish)
            }
        }
    }

    /// The way to its endpoint for whoever is behind a connection.
    fn access(&self, endpoint: &Arc<Endpoint>, wish: &Wish) -> Access {
        Access::new(endpoint.clone(), self.login(&wish.caller.principal))
    }

    /// What this principal proves itself with there; `None` where nobody logs in.
    pub fn login(&self, who: &Principal) -> Option<Arc<dyn Login>> {
        if self.endpoint.is_none() || self.spec.auth == ServerAuth::None {
            return None;
        }
        self.environment.logins.as_ref()?.of(who, &self.spec)
    }

    /// Room for one more child; embedded servers need none.
    async fn room(&self, who: &Principal) -> Result<Option<Room>, ConnectError> {
        match self.spec.target {
            Target::Child { .. } => {
                let permit = self.environment.children.room(who, &self.environment.tasks).await?;
                self.children.fetch_add(1, Ordering::Relaxed);
                Ok(Some(Room { permit, children: self.children.clone() }))
            }
            Target::Http { .. } | Target::Embedded(_) => Ok(None),
        }
    }

    async fn start(&self, era: Era, feed: Feed) -> Result<child::Started, ConnectError> {
        let tasks = &self.environment.tasks;
        match &self.spec.target {
            Target::Embedded(name) => {
                let make = self.environment.embedded.get(name);
                let make = make.ok_or_else(|| ConnectError::Spawn(format!("no embedded server {name:?}")))?;
                let (input, output) = tokio::io::split(make());
                let server = self.spec.name.as_str();
                let error = crate::error::closed(&format!("server {server:?}"), None, None);
                let ends = Ends(Box::new(input), Box::new(output), Runs::Within);
                let pipe = Pipe::open(server, ends, era, feed, tasks, async move { error });
                Ok(child::Started { pipe, child: None })
            }
            target => {
                child::start(self.spec.name.as_str(), target, &self.environment.supervisor, era, feed, tasks).await
            }
        }
    }

    fn connection(&self, link: Link, era: Era, welcome: Raw, wish: &Wish) -> Result<Arc<Connection>, EraError> {
        let revision = handshake::revision(era, &welcome).map_err(EraError::WrongEra)?;
        let name = self.spec.name.clone();
        let welcome = welcome.detached();
        let makes_tasks = makes_tasks(era, &welcome);
        let (log_level, usage, lane) = (Mutex::new(None), Usage::new(), Lane::new());
        let connection = Connection { name, link, era, revision, welcome, log_level, makes_tasks, usage, lane };
        let mixed = wish.caller.era() != era;
        if era == Era::Legacy && (mixed || !wish.client_says_initialized) {
            connection.notify("notifications/initialized", None);
        }
        let connection = Arc::new(connection);
        // Others than the session that made it may rely on a shared one, as on one that speaks with modern clients in
        // their own era, and tasks go on without a request.
        let is_modern = era == Era::Modern && !mixed;
        let alone = self.spec.isolation == Isolation::Session && !is_modern;
        let has_tasks = connection.declares("tasks", None) || connection.declares("extensions", None);
        if connection.is_child() && alone && !has_tasks {
            self.environment.children.add(&wish.caller.principal, &connection);
        }
        Ok(connection)
    }
}

/// Whether a server that says this of itself may go on with what it was asked after it has answered.
fn makes_tasks(era: Era, welcome: &Raw) -> bool {
    let Some(capabilities) = welcome.member("capabilities") else { return false };
    match era {
        Era::Legacy => capabilities.member("tasks").is_some(),
        Era::Modern => capabilities
            .member("extensions")
            .is_some_and(|extensions| extensions.member("io.modelcontextprotocol/tasks").is_some()),
    }
}

/// A live connection to a server.
pub struct Connection {
    name: ServerName,
    link: Link,
    era: Era,
    revision: Revision,
    welcome: Raw,
    /// The level that a legacy client set on a modern server, which wants it with every request.
    log_level: Mutex<Option<Raw>>,
    /// Whether what it is asked may go on without a request.
    makes_tasks: bool,
    usage: Usage,
    lane: Lane,
}

/// What tells whether a connection can be done without.
struct Usage {
    since: Instant,
    /// When the last request was opened, in milliseconds from then on.
    last: AtomicU64,
    /// Whether the server was told to tell of changes.
    subscribed: AtomicBool,
    /// Whether it was given a task that goes on without a request.
    tasked: AtomicBool,
    /// Whether it was ended while it was idle.
    retired: AtomicBool,
}

impl Usage {
    fn new() -> Self {
        let (last, subscribed, tasked, retired) = Default::default();
        Self { since: Instant::now(), last, subscribed, tasked, retired }
    }
}

enum Link {
    Pipe(Started),
    Http(Arc<HttpConnection>),
}

impl Connection {
    /// Calls on it may become tasks; told once, by whoever made it.
    pub fn expect_tasks(&self) {
        self.lane.widen();
    }

    /// The wire contract of this connection.
    pub fn era(&self) -> Era {
        self.era
    }

    /// The revision that the server speaks here.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// What the server said of itself: the result of `initialize` or `server/discover`, as written.
    pub fn welcome(&self) -> &Raw {
        &self.welcome
    }

    /// Whether the server declared a capability, and within it a flag.
    pub fn declares(&self, capability: &str, flag: Option<&str>) -> bool {
        let Some(found) = self.welcome.member("capabilities").and_then(|all| all.member(capability)) else {
            return false;
        };
        flag.is_none_or(|flag| found.member(flag).is_some_and(|value| value.as_bytes() == b"true"))
    }

    /// What belongs to no request.
    pub fn feed(&self) -> &Feed {
        &self.intake().feed
    }

    /// Whether the server is gone: a new connection is needed.
    pub fn is_lost(&self) -> bool {
        match &self.link {
            Link::Pipe(started) => started.pipe().is_lost(),
            Link::Http(connection) => connection.is_lost(),
        }
    }

    /// The process behind it.
    pub fn pid(&self) -> Option<u32> {
        match &self.link {
            Link::Pipe(started) => started.child().map(|child| child.pid()),
            Link::Http(_) => None,
        }
    }

    /// How its process ended, if it has.
    pub fn exit(&self) -> Option<lb_process::Exit> {
        match &self.link {
            Link::Pipe(started) => started.child().and_then(|child| child.exit()),
            Link::Http(_) => None,
        }
    }

    /// Whether it was ended because it was idle and others needed the room.
    pub fn is_retired(&self) -> bool {
        self.usage.retired.load(Ordering::SeqCst)
    }

    /// Whether any request is open.
    pub fn is_busy(&self) -> bool {
        self.intake().calls.len() != 0
    }

    /// Whether a client's call is under way that comes to an end by itself.
    pub fn is_working(&self) -> bool {
        self.lane.is_taken()
    }

    /// For how long no client has used it: since its last request was opened, or ended.
    pub fn idle_for(&self) -> Duration {
        self.used_at().elapsed()
    }

    /// How often the server has said that the list behind this request changed; zero for what is no list.
    pub fn list_generation(&self, method: &str) -> u64 {
        self.intake().lists.generation(method).unwrap_or(0)
    }

    /// Makes sure that nothing is sent any more, if nothing is under way: no call, no question, no task. Whoever calls
    /// next finds the connection lost and makes another. It must still be closed.
    pub fn rest(&self) -> bool {
        if self.is_lost() || self.intake().has_open_asks() || self.usage.tasked.load(Ordering::Relaxed) {
            return false;
        }
        let rests = self.close_if_idle();
        if rests {
            tracing::info!(server = %self.name, "idle server connection is ended");
        }
        rests
    }

    /// Whether another connection is as good as this one: the server has no session with us, and nothing is under way that
    /// needs one. What a stream says that it has open is another matter: see [`Connection::may_hear`].
    pub fn is_expendable(&self) -> bool {
        let Link::Http(connection) = &self.link else { return false };
        let is_used = self.is_working() || self.usage.tasked.load(Ordering::Relaxed) || self.intake().has_open_asks();
        !is_used && !connection.has_session()
    }

    /// Whether the server can say something out of the blue: over HTTP that takes a stream that is open, or will be.
    pub fn may_hear(&self) -> bool {
        match &self.link {
            Link::Pipe(_) => true,
            Link::Http(connection) => connection.may_hear(),
        }
    }

    /// When the last request was opened, or ended.
    pub(crate) fn used_at(&self) -> Instant {
        let opened = self.usage.since + Duration::from_millis(self.usage.last.load(Ordering::Relaxed));
        self.intake().calls.ended().map_or(opened, |ended| opened.max(ended))
    }

    /// Makes sure that nothing is sent any more, if nothing is under way and nobody listens.
    pub(crate) fn retire(&self) -> bool {
        let intake = self.intake();
        let needed = self.is_lost() || self.usage.subscribed.load(Ordering::Relaxed) || !intake.feed.can_spare();
        let retired = !needed && self.close_if_idle();
        if retired {
            tracing::info!(server = %self.name, "idle server process is ended to make room for another");
        }
        retired
    }

    fn close_if_idle(&self) -> bool {
        let called = format!("server {:?}", self.name.as_str());
        // First: whoever finds the connection closed must not take it for a crash.
        self.usage.retired.store(true, Ordering::SeqCst);
        let closed = self.intake().calls.close_if_idle(&crate::error::closed(&called, None, None));
        if !closed {
            self.usage.retired.store(false, Ordering::SeqCst);
        }
        closed
    }

    fn is_child(&self) -> bool {
        matches!(&self.link, Link::Pipe(started) if started.child().is_some())
    }

    /// Sends a notification of the client.
    pub fn notify(&self, method: &str, params: Option<&Raw>) {
        match (&self.link, method) {
            (Link::Pipe(started), _) => started.pipe().notify(method, params),
            (Link::Http(connection), "notifications/initialized") => connection.initialized(params.cloned()),
            (Link::Http(connection), _) => connection.notify(method, params),
        }
    }

    /// Makes sure that what belongs to no request arrives: over HTTP that takes a stream of its own.
    pub fn watch(&self) {
        if let Link::Http(connection) = &self.link
            && self.era == Era::Legacy
        {
            connection.watch();
        }
    }

    /// Remembers the log level that a legacy client set on a modern server.
    pub fn set_log_level(&self, level: Raw) {
        *self.log_level.lock() = Some(level);
    }

    /// Makes a request of our own.
    ///
    /// Cancel safe: yes.
    pub async fn request(&self, method: &str, params: Option<&Raw>) -> Outcome {
        if method == "resources/subscribe" {
            self.usage.subscribed.store(true, Ordering::Relaxed);
        }
        match &self.link {
            Link::Pipe(started) => started.pipe().request(method, params).await,
            Link::Http(connection) => connection.request(method, params).await,
        }
    }

    /// Ends the connection and waits until its process is gone or its session is told.
    pub async fn close(&self) {
        match &self.link {
            Link::Pipe(started) => started.close().await,
            Link::Http(connection) => connection.close().await,
        }
    }

    /// The same, and what is still running is told this error.
    pub async fn cut_off(&self, error: &Raw) {
        match &self.link {
            Link::Pipe(started) => {
                started.pipe().intake().calls.close(error);
                started.close().await;
            }
            Link::Http(connection) => connection.cut_off(error).await,
        }
    }

    /// What a call is told that could not be sent because the server is gone.
    ///
    /// Cancel safe: yes.
    pub async fn closed(&self) -> ErrorBody {
        let (exit, stderr) = match &self.link {
            Link::Pipe(started) => started.last_words().await,
            Link::Http(_) => Default::default(),
        };
        ConnectError::Exited { exit, stderr, stdout: String::new() }.to_body(self.name.as_str())
    }

    fn intake(&self) -> &Intake {
        match &self.link {
            Link::Pipe(started) => started.pipe().intake(),
            Link::Http(connection) => connection.intake(),
        }
    }
}

/// A pipe and the process or the stream behind it, ended together: gently when closed, and gently in the background when dropped.
struct Started {
    inner: child::Started,
    /// Given back when the process is gone.
    room: Mutex<Option<Room>>,
    tasks: Tasks,
    /// Why it is over, for a server that is far away.
    over: Option<Over>,
}

/// Room for one process, which is counted among those of its server.
struct Room {
    #[expect(dead_code, reason = "held, not read")]
    permit: Taken,
    children: Arc<AtomicUsize>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.children.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Started {
    fn pipe(&self) -> &Arc<Pipe> {
        &self.inner.pipe
    }

    fn child(&self) -> Option<&Arc<Child>> {
        self.inner.child.as_ref()
    }

    /// How it ended, in words, and what it last wrote to stderr.
    ///
    /// Cancel safe: yes.
    async fn last_words(&self) -> (String, String) {
        let (exit, stderr) = match (self.child(), &self.over) {
            (Some(child), _) => child::last_words(child).await,
            (None, Some(over)) => (Some(over.words()), String::new()),
            (None, None) => Default::default(),
        };
        (exit.unwrap_or_else(|| "it closed its input or output".to_owned()), stderr)
    }

    /// Whether it is far away, and none of our processes.
    fn is_remote(&self) -> bool {
        self.over.is_some()
    }

    /// What it last wrote to stderr.
    fn stderr(&self) -> String {
        self.child().map(|child| child::stderr_shown(child)).unwrap_or_default()
    }

    async fn close(&self) {
        self.pipe().close();
        if let Some(child) = self.child() {
            child::stop(child.clone()).await;
            drop(self.room.lock().take());
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.pipe().close();
        if let Some(child) = self.inner.child.take() {
            let room = self.room.get_mut().take();
            self.tasks.spawn(async move {
                child::stop(child).await;
                drop(room);
            });
        }
    }
}

//! Reaching a server in the era of the front, and the connection that comes of it.

mod handshake;
mod open;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use lb_exchange::{Caller, ErrorBody, Feed, Outcome, ServerName, ServerSpec, Target, Tasks};
use lb_process::Child;
use lb_wire::Raw;
use lb_wire::revision::{Era, Revision};
use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::child;
use crate::error::{ConnectError, EraError};
use crate::http::{Endpoint, HttpConnection};
use crate::inbound::Intake;
use crate::pipe::{Ends, Pipe};
use crate::restart::Life;

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
    /// Room for children: a permit each.
    pub children: Arc<Semaphore>,
}

/// Children at one time, over all servers and sessions.
pub const CHILDREN_MAX: usize = 64;

/// One configured server, and what has been learned about it.
pub struct Server {
    spec: Arc<ServerSpec>,
    environment: Environment,
    endpoint: Option<Arc<Endpoint>>,
    eras: Mutex<Verdict>,
}

/// What is known about the eras of a server: a set, because some speak both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Verdict {
    legacy: Option<bool>,
    modern: Option<bool>,
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
                Some(Endpoint::new(spec.name.as_str(), url, headers, environment.tasks.clone())?)
            }
            Target::Child { .. } | Target::Embedded(_) => None,
        };
        Ok(Arc::new(Self { spec, environment, endpoint, eras: Mutex::default() }))
    }

    /// Its definition.
    pub fn spec(&self) -> &Arc<ServerSpec> {
        &self.spec
    }

    /// Connects in the era of the front if the server speaks it, else in the other.
    async fn connect(&self, wish: &Wish) -> Result<Arc<Connection>, ConnectError> {
        let own = wish.caller.era();
        let other = match own {
            Era::Legacy => Era::Modern,
            Era::Modern => Era::Legacy,
        };
        let mut first = None;
        if self.eras.lock().of(own) != Some(false) {
            match self.connect_in(own, wish).await {
                Ok(connection) => {
                    self.eras.lock().set(own, true);
                    return Ok(connection);
                }
                Err(EraError::Failed(error)) => return Err(error),
                Err(EraError::WrongEra(error)) => first = Some(error),
            }
        }
        match self.connect_in(other, wish).await {
            Ok(connection) => {
                let mut eras = self.eras.lock();
                eras.set(other, true);
                // Only now is it known that the first answer was about the era and not about something else.
                eras.set(own, false);
                Ok(connection)
            }
            Err(EraError::Failed(error) | EraError::WrongEra(error)) => Err(first.unwrap_or(error)),
        }
    }

    async fn connect_in(&self, era: Era, wish: &Wish) -> Result<Arc<Connection>, EraError> {
        match (&self.endpoint, era) {
            (Some(endpoint), Era::Legacy) => {
                let hello = handshake::hello(wish);
                let (connection, welcome) = HttpConnection::legacy(endpoint.clone(), hello, wish.feed.clone()).await?;
                self.connection(Link::Http(connection), era, welcome, wish)
            }
            (Some(endpoint), Era::Modern) => {
                let info = wish.caller.client_info.clone();
                let (connection, welcome) = HttpConnection::modern(endpoint.clone(), info, wish.feed.clone()).await?;
                self.connection(Link::Http(connection), era, welcome, wish)
            }
            (None, _) => {
                let room = self.room().map_err(EraError::Failed)?;
                let started = self.start(era, wish.feed.clone()).await.map_err(EraError::Failed)?;
                let guard = Started { inner: started, room, tasks: self.environment.tasks.clone() };
                let welcome = handshake::over_pipe(&guard, era, wish).await?;
                self.connection(Link::Pipe(guard), era, welcome, wish)
            }
        }
    }

    /// Room for one more child; embedded servers need none.
    fn room(&self) -> Result<Option<OwnedSemaphorePermit>, ConnectError> {
        let Target::Child { .. } = self.spec.target else { return Ok(None) };
        match self.environment.children.clone().try_acquire_owned() {
            Ok(permit) => Ok(Some(permit)),
            Err(_) => Err(ConnectError::TooManyChildren(CHILDREN_MAX)),
        }
    }

    async fn start(&self, era: Era, feed: Feed) -> Result<child::Started, ConnectError> {
        let tasks = &self.environment.tasks;
        match &self.spec.target {
            Target::Embedded(name) => {
                let make = self.environment.embedded.get(name);
                let make = make.ok_or_else(|| ConnectError::Spawn(format!("no embedded server {name:?}")))?;
                let (input, output) = tokio::io::split(make());
                let called = format!("server {:?}", self.spec.name.as_str());
                let error = crate::error::closed(&called, None, None);
                let pipe = Pipe::open(Ends(Box::new(input), Box::new(output)), era, feed, tasks, async move { error });
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
        let connection = Connection { name, link, era, revision, welcome, log_level: Mutex::new(None) };
        let mixed = wish.caller.era() != era;
        if era == Era::Legacy && (mixed || !wish.client_says_initialized) {
            connection.notify("notifications/initialized", None);
        }
        Ok(Arc::new(connection))
    }
}

/// Connects to one server again and again, and remembers its crashes.
pub struct Connector {
    server: Arc<Server>,
    life: Mutex<Life>,
    /// How it ended last, and its stderr.
    last_words: Mutex<(String, String)>,
}

impl Connector {
    /// For one session, or for all that share.
    pub fn new(server: Arc<Server>) -> Self {
        Self { server, life: Mutex::new(Life::Stopped), last_words: Mutex::default() }
    }

    /// The server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Connects, after the wait that earlier crashes call for.
    ///
    /// Cancel safe: yes, a child that was being started is ended.
    ///
    /// # Errors
    /// The server cannot be reached, or is given up.
    pub async fn connect(&self, wish: &Wish) -> Result<Arc<Connection>, ConnectError> {
        let life = *self.life.lock();
        match life {
            Life::GaveUp { crashes, until } if until.is_none_or(|until| Instant::now() < until) => {
                let (last, stderr) = self.last_words.lock().clone();
                let again = until.map(|until| until.saturating_duration_since(Instant::now()));
                return Err(ConnectError::GaveUp { crashes, again, last, stderr });
            }
            Life::Backoff { until, .. } => tokio::time::sleep_until(until.into()).await,
            Life::Stopped | Life::Running { .. } | Life::GaveUp { .. } => {}
        }
        if self.server.environment.tasks.is_stopping() {
            return Err(ConnectError::Stopping);
        }
        *self.life.lock() = life.started(Instant::now());
        let result = self.server.connect(wish).await;
        if let Err(error) = &result {
            self.failed(life, error);
        }
        result
    }

    /// An attempt to connect has failed.
    fn failed(&self, before: Life, error: &ConnectError) {
        let words = match (error, before) {
            (ConnectError::Exited { exit, stderr }, _) => (exit.clone(), stderr.clone()),
            (ConnectError::Spawn(why), _) => (why.clone(), String::new()),
            // No attempt at all.
            (ConnectError::TooManyChildren(_) | ConnectError::Stopping, _) => return *self.life.lock() = before,
            // The one attempt of a server that was given up.
            (error, Life::GaveUp { .. }) => (error.to_string(), String::new()),
            _ => return,
        };
        self.crashed(Instant::now(), words);
    }

    /// A connection that this made has died by itself.
    ///
    /// Cancel safe: yes, nothing is counted then.
    pub async fn lost(&self, connection: &Connection) {
        if let Link::Pipe(started) = &connection.link {
            let words = started.last_words().await;
            self.crashed(started.pipe().ended().unwrap_or_else(Instant::now), words);
        }
    }

    fn crashed(&self, at: Instant, words: (String, String)) {
        *self.last_words.lock() = words;
        let jitter = 0.9 + 0.2 * f64::from(rand_unit());
        let mut life = self.life.lock();
        *life = life.crashed(&self.server.spec.restart, at, jitter);
        tracing::warn!(server = %self.server.spec.name, life = ?*life, "server process ended unexpectedly");
    }
}

/// A number in 0..1; no secret hangs on it.
fn rand_unit() -> f32 {
    let nanos =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    (nanos % 1000) as f32 / 1000.0
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
}

enum Link {
    Pipe(Started),
    Http(Arc<HttpConnection>),
}

impl Connection {
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

    /// Whether any request is open.
    pub fn is_busy(&self) -> bool {
        self.intake().calls.len() != 0
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

    /// What a call is told that could not be sent because the server is gone.
    async fn closed(&self) -> ErrorBody {
        let (exit, stderr) = match &self.link {
            Link::Pipe(started) => started.last_words().await,
            Link::Http(_) => Default::default(),
        };
        ConnectError::Exited { exit, stderr }.to_body(self.name.as_str())
    }

    fn intake(&self) -> &Intake {
        match &self.link {
            Link::Pipe(started) => started.pipe().intake(),
            Link::Http(connection) => connection.intake(),
        }
    }
}

/// A pipe and the process behind it, ended together: gently when closed, and gently in the background when dropped.
struct Started {
    inner: child::Started,
    /// Given back when the process is gone.
    room: Option<OwnedSemaphorePermit>,
    tasks: Tasks,
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
        let (exit, stderr) = match self.child() {
            Some(child) => child::last_words(child).await,
            None => Default::default(),
        };
        (exit.unwrap_or_else(|| "it closed its input or output".to_owned()), stderr)
    }

    async fn close(&self) {
        self.pipe().close();
        if let Some(child) = self.child() {
            child::stop(child.clone()).await;
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.pipe().close();
        if let Some(child) = self.inner.child.take() {
            let room = self.room.take();
            self.tasks.spawn(async move {
                child::stop(child).await;
                drop(room);
            });
        }
    }
}

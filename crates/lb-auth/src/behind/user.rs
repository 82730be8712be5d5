//! The login of one principal at one server: in memory while somebody uses it, renewed before it ends.

mod renew;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lb_exchange::{BoxFuture, Login, LoginError, Proof, Refused, ServerAuth, ServerSpec};
use parking_lot::Mutex;

use self::renew::Renewal;
use super::Inner;
use super::begin::{Want, away};
use super::credential::{self, Credential, Mark, Whose};
use super::discover::Challenge;
use super::pending;
use super::resource_of;
use super::single::Single;

/// How long somebody with a token that is still good waits for a better one.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long nobody asks again after an authorization server was away.
const REST: Duration = Duration::from_secs(1);
/// For how long what is in memory counts without a look at the store: what was ended elsewhere ends here, too.
const COUNTS_FOR: Duration = Duration::from_secs(5);
/// How long such a look may take. A store that is away ends nothing.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// What all connections of a principal to a server share.
pub(super) struct UserEntry {
    pub whose: Whose,
    /// One login is begun at a time.
    pub opening: tokio::sync::Mutex<()>,
    memory: Mutex<Memory>,
    renewal: Single<Result<Credential, Why>>,
}

#[derive(Default)]
struct Memory {
    held: Option<Credential>,
    /// Whether something newer may lie in the store.
    is_stale: bool,
    /// When the store was last asked.
    looked: Option<SystemTime>,
    /// Whether there was a login, and it ended.
    is_over: bool,
    /// When, and why, nobody could be asked for the next one.
    failed: Option<(SystemTime, String)>,
}

impl Memory {
    fn take_up(&mut self, credential: Credential, now: SystemTime) {
        *self = Self { held: Some(credential), looked: Some(now), ..Self::default() };
    }
}

/// Why there is no next token.
#[derive(Clone, Debug)]
enum Why {
    /// It may work later.
    Away(String),
    /// Somebody must log in again.
    Over,
    /// The same, because others make the server's tokens by now.
    Moved,
}

impl UserEntry {
    pub fn new(whose: Whose) -> Self {
        Self { whose, opening: tokio::sync::Mutex::default(), memory: Mutex::default(), renewal: Single::default() }
    }

    /// Something newer may lie in the store.
    pub fn go_stale(&self) {
        self.memory.lock().is_stale = true;
    }

    /// Takes up what came of a login just now.
    pub fn hold(&self, credential: Credential, now: SystemTime) {
        self.memory.lock().take_up(credential, now);
    }

    /// Takes up what came of a renewal. Who has logged in anew meanwhile does not go on with what they had before: the
    /// store says which of both it is.
    fn renewed(&self, credential: Credential, now: SystemTime) {
        let mut memory = self.memory.lock();
        match memory.held.as_ref().map(Credential::mark) {
            Some(held) if !credential.is_of(&held) => memory.is_stale = true,
            Some(held) if credential.number < held.number => {}
            Some(_) | None => memory.take_up(credential, now),
        }
    }

    /// Forgets it: it has ended.
    pub fn end(&self) {
        *self.memory.lock() = Memory { is_over: true, ..Memory::default() };
    }

    /// Begins a look at the store; what is in memory.
    fn look(&self, now: SystemTime) -> Option<Mark> {
        let mut memory = self.memory.lock();
        memory.looked = Some(now);
        memory.held.as_ref().map(Credential::mark)
    }

    /// Takes up what lies in the store. What came into memory during the look is newer than that, and so is what could not
    /// be kept yet; another login is not, whatever its number.
    fn found(&self, before: Option<&Mark>, credential: Credential, now: SystemTime) {
        let mut memory = self.memory.lock();
        let held = memory.held.as_ref().map(Credential::mark);
        let counts = match &held {
            Some(held) if credential.is_of(held) => held.number <= credential.number,
            held => held.as_ref() == before,
        };
        if counts {
            memory.take_up(credential, now);
        }
    }

    /// There is nothing in the store. What came into memory during the look is newer than that.
    fn missing(&self, before: Option<&Mark>) {
        let mut memory = self.memory.lock();
        let held = memory.held.as_ref().map(Credential::mark);
        if held.is_some() && held.as_ref() == before {
            *memory = Memory { is_over: true, looked: memory.looked, ..Memory::default() };
        }
    }

    fn failed(&self, now: SystemTime) -> Option<String> {
        let memory = self.memory.lock();
        let (at, why) = memory.failed.as_ref()?;
        now.duration_since(*at).is_ok_and(|age| age < REST).then(|| why.clone())
    }
}

/// How one connection reaches it.
pub(super) struct UserLogin {
    pub behind: Arc<Inner>,
    pub entry: Arc<UserEntry>,
    pub spec: Arc<ServerSpec>,
}

impl Login for UserLogin {
    fn proof(&self) -> BoxFuture<'_, Result<Option<Proof>, LoginError>> {
        Box::pin(async move {
            let Some(held) = self.held().await? else { return Ok(None) };
            let now = self.behind.now().await;
            if !held.is_due(now) || (held.refresh.is_none() && held.is_alive(now)) {
                return Ok(Some(held.proof()));
            }
            self.due(held, now).await.map(|credential| Some(credential.proof()))
        })
    }

    fn refused(&self, refusal: Refused) -> BoxFuture<'_, Result<Proof, LoginError>> {
        Box::pin(async move { self.after(refusal).await.map(|credential| credential.proof()) })
    }

    fn is_over(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let held = self.held().await.ok().flatten();
            let now = self.behind.now().await;
            match held {
                Some(held) => held.refresh.is_none() && !held.is_alive(now),
                None => self.entry.memory.lock().is_over,
            }
        })
    }

    fn ended<'a>(&'a self, id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            // Whoever names another's login, or one that never was, waits for nothing.
            let open = pending::find(&*self.behind.store, id, self.behind.now().await).await;
            if open.is_ok_and(|open| open.is_none_or(|open| open.whose != self.entry.whose)) {
                return;
            }
            // How it ended is known by what goes with the next request.
            self.behind.ended_of(id).await;
        })
    }
}

impl UserLogin {
    /// What is in memory, or else in the store. Once in a while somebody looks whether it is still there, while the
    /// others go on.
    async fn held(&self) -> Result<Option<Credential>, LoginError> {
        let now = self.behind.now().await;
        let (held, counts) = {
            let memory = self.entry.memory.lock();
            let age = memory.looked.and_then(|looked| now.duration_since(looked).ok());
            (memory.held.clone().filter(|_| !memory.is_stale), age.is_some_and(|age| age < COUNTS_FOR))
        };
        match held {
            Some(held) if counts => Ok(Some(held)),
            Some(held) => match tokio::time::timeout(LOOK_MAX, self.load()).await {
                Ok(Ok(found)) => Ok(found),
                Ok(Err(_)) | Err(_) => Ok(Some(held)),
            },
            None => self.load().await,
        }
    }

    /// What is in the store, where it is newer than what is in memory. What is not there any more was ended.
    async fn load(&self) -> Result<Option<Credential>, LoginError> {
        let now = self.behind.now().await;
        let before = self.entry.look(now);
        match credential::load(&*self.behind.store, &self.entry.whose).await.map_err(away)? {
            Some(kept) => self.entry.found(before.as_ref(), kept.credential, now),
            None => self.entry.missing(before.as_ref()),
        }
        Ok(self.entry.memory.lock().held.clone())
    }

    /// The next token, because this one is about to end. It will do while it lives.
    async fn due(&self, held: Credential, now: SystemTime) -> Result<Credential, LoginError> {
        let is_alive = held.is_alive(now);
        match self.entry.failed(now) {
            Some(_) if is_alive => return Ok(held),
            Some(why) => return Err(self.away(&why)),
            None => {}
        }
        let renewed = self.renew(held.mark(), None);
        let renewed = match held.remaining(now).filter(|_| is_alive) {
            Some(remaining) => match tokio::time::timeout(PATIENCE.min(remaining / 2), renewed).await {
                Ok(renewed) => renewed,
                Err(_) => return Ok(held),
            },
            None => renewed.await,
        };
        match renewed {
            Ok(credential) => Ok(credential),
            Err(Why::Away(_)) if is_alive => Ok(held),
            Err(Why::Away(why)) => Err(self.away(&why)),
            Err(Why::Over) => self.needed(Want { scopes: held.scopes, ..Want::default() }).await,
            Err(Why::Moved) => self.needed(Want::default()).await,
        }
    }

    fn away(&self, why: &str) -> LoginError {
        let name = &self.spec.name;
        LoginError::Failed(format!("the login at {name} could not be renewed now: {why}; try again in a moment"))
    }

    /// What to do about a refusal.
    async fn after(&self, refusal: Refused) -> Result<Credential, LoginError> {
        let server = resource_of(&self.spec).ok_or_else(|| LoginError::Failed("the server has no address".into()))?;
        let challenge = Challenge::of(&refusal.challenges, &server);
        let sent = refusal.proof.as_ref().map_or(0, |proof| proof.number);
        let held = match self.held().await? {
            Some(held) if held.number <= sent => self.load().await?,
            held => held,
        };
        let Some(held) = held else { return self.needed(Want { challenge: Some(challenge), ..Want::default() }).await };
        if sent < held.number {
            return Ok(held);
        }
        if refusal.status == 403 || challenge.wants_more {
            return self.step_up(&held, challenge).await;
        }
        let now = self.behind.now().await;
        let again = Want { challenge: Some(challenge.clone()), scopes: held.scopes.clone(), ..Want::default() };
        // One that was made because of a refusal and is refused itself: the next one would be, too.
        if held.refresh.is_none() || held.is_no_use(now) {
            return self.needed(again).await;
        }
        match self.renew(held.mark(), Some(challenge)).await {
            Ok(credential) => Ok(credential),
            Err(Why::Away(why)) => Err(self.away(&why)),
            Err(Why::Over) => self.needed(again).await,
            // What was granted elsewhere means nothing there.
            Err(Why::Moved) => self.needed(Want { scopes: Vec::new(), ..again }).await,
        }
    }

    async fn needed(&self, want: Want) -> Result<Credential, LoginError> {
        Err(LoginError::Needed(self.begin(want).await?))
    }

    /// Asks for more, and loses nothing of what was granted.
    async fn step_up(&self, held: &Credential, challenge: Challenge) -> Result<Credential, LoginError> {
        let Some(steps) = held.steps.next(self.behind.now().await) else {
            let name = &self.spec.name;
            let why = format!("{name} wants more rights after each login; it was not asked again. Try in an hour");
            return Err(LoginError::Failed(why));
        };
        let mut scopes = held.scopes.clone();
        scopes.extend(challenge.scopes.iter().filter(|scope| !held.scopes.contains(scope)).cloned());
        self.needed(Want { challenge: Some(challenge), scopes, steps }).await
    }

    /// The next token after this one. Done once for everybody who wants it, and to its end.
    async fn renew(&self, mark: Mark, refusal: Option<Challenge>) -> Result<Credential, Why> {
        let (behind, entry, server) = (self.behind.clone(), self.entry.clone(), resource_of(&self.spec));
        let (secret, bounds) = (self.own_client(), self.spec.bounds);
        let renewal = Renewal { behind, entry, bounds, secret, server, mark, refusal };
        let renewed = self.entry.renewal.run(&self.behind.tasks, || renewal.run()).await;
        renewed.unwrap_or_else(|| Err(Why::Away("the renewal broke off".into())))
    }

    /// The client that the operator has set; its secret may be another one by now.
    fn own_client(&self) -> Option<(String, Option<String>)> {
        let (ServerAuth::User(client) | ServerAuth::Service(client)) = &self.spec.auth else { return None };
        let secret = client.client_secret.as_ref().map(|secret| secret.expose().to_owned());
        client.client_id.clone().map(|id| (id, secret))
    }
}

impl std::fmt::Debug for UserLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserLogin").field("server", &self.spec.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

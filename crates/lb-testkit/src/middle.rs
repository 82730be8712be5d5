//! A middle whose exchanges follow scripts.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use lb_exchange::{
    BoxFuture, Call, Caller, Cancel, Desk, End, Exchange, Hello, Middle, Mount, Outcome, Place, Refusal, Seat,
    SessionId, Step, Streams, Tasks, Unseated, Visitor, Welcome, Yield,
};
use lb_wire::Message;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use crate::words;

type Play = Arc<dyn Fn(Call) -> Exchange + Send + Sync>;
/// Lines that can be waited for.
type Log = Arc<watch::Sender<Vec<String>>>;
/// Where sessions are that are not seated here.
type Elsewhere = Arc<dyn Fn(&str) -> Place + Send + Sync>;
type MakeStreams = Box<dyn Fn() -> Arc<dyn Streams> + Send + Sync>;

/// Answers by scripts, and writes down what happened to them.
pub struct ScriptedMiddle {
    plays: Mutex<HashMap<String, Play>>,
    seats: Mutex<HashMap<String, Arc<ScriptedSeat>>>,
    make_streams: MakeStreams,
    refusal: Mutex<Option<Refusal>>,
    elsewhere: Mutex<Option<Elsewhere>>,
    log: Log,
    tasks: Tasks,
}

impl ScriptedMiddle {
    /// Without scripts: every call is answered with its method.
    pub fn new(make_streams: impl Fn() -> Arc<dyn Streams> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            plays: Mutex::default(),
            seats: Mutex::default(),
            make_streams: Box::new(make_streams),
            refusal: Mutex::default(),
            elsewhere: Mutex::default(),
            log: Arc::default(),
            tasks: Tasks::default(),
        })
    }

    /// The script for a tool or, failing that, a method.
    pub fn on<F>(&self, name: &str, script: impl Fn(Call, Yield) -> F + Send + Sync + 'static)
    where
        F: Future<Output = End> + Send + 'static,
    {
        let (log, title) = (self.log.clone(), name.to_owned());
        let play = move |call: Call| {
            let guard = Guard::new(log.clone(), &title);
            Exchange::routine(|out| {
                let body = script(call, out);
                async move {
                    let end = body.await;
                    guard.end();
                    end
                }
            })
        };
        self.plays.lock().insert(name.to_owned(), Arc::new(play));
    }

    /// Refuses the next client.
    pub fn refuse(&self, refusal: Refusal) {
        *self.refusal.lock() = Some(refusal);
    }

    /// Says where sessions are that are not seated here; each time that is asked, `locate` is written down.
    pub fn elsewhere(&self, place: impl Fn(&str) -> Place + Send + Sync + 'static) {
        *self.elsewhere.lock() = Some(Arc::new(place));
    }

    /// A seated client.
    pub fn seat_of(&self, session: &str) -> Option<Arc<ScriptedSeat>> {
        self.seats.lock().get(session).cloned()
    }

    /// The client that is seated, when it is the only one.
    pub fn only_seat(&self) -> Option<Arc<ScriptedSeat>> {
        let seats = self.seats.lock();
        if seats.len() == 1 { seats.values().next().cloned() } else { None }
    }

    /// How many clients are seated.
    pub fn seats(&self) -> usize {
        self.seats.lock().len()
    }

    /// What happened so far: `open x`, then `end x` or `drop x`; `note x`; `adopt`.
    pub fn log(&self) -> Vec<String> {
        self.log.borrow().clone()
    }

    /// Waits until something has happened.
    ///
    /// Cancel safe: yes.
    pub async fn happened(&self, what: &str) {
        self.happened_times(what, 1).await;
    }

    /// Waits until something has happened this often.
    ///
    /// Cancel safe: yes.
    pub async fn happened_times(&self, what: &str, times: usize) {
        let often = |log: &Vec<String>| times <= log.iter().filter(|line| *line == what).count();
        drop(self.log.subscribe().wait_for(often).await);
    }

    fn play(&self, call: Call) -> Exchange {
        let tool = call.message.member("name").and_then(|name| name.plain_str().map(str::to_owned));
        let play = {
            let plays = self.plays.lock();
            tool.and_then(|tool| plays.get(&tool).cloned()).or_else(|| plays.get(call.message.method()).cloned())
        };
        match play {
            Some(play) => play(call),
            None => Exchange::ready(words::result(&json!({ "method": call.message.method() }))),
        }
    }
}

impl Middle for ScriptedMiddle {
    fn open(&self, call: Call) -> Exchange {
        self.play(call)
    }

    fn begin(&self, hello: Hello) -> BoxFuture<'_, Result<Welcome, Refusal>> {
        Box::pin(async move {
            if let Some(refusal) = self.refusal.lock().take() {
                return Err(refusal);
            }
            let seat = Arc::new(ScriptedSeat {
                id: SessionId::random(),
                mount: hello.mount,
                desk: Desk::default(),
                streams: (self.make_streams)(),
                plays: self.plays.lock().clone(),
                listener: Mutex::default(),
                log: self.log.clone(),
                over: Mutex::new(false),
                caller: Arc::new(hello.caller),
            });
            let version = seat.caller.revision.as_str();
            let result = words::raw(&json!({ "protocolVersion": version, "capabilities": {} }));
            self.seats.lock().insert(seat.id.as_str().to_owned(), seat.clone());
            Ok(Welcome { seat, result })
        })
    }

    fn seat(&self, id: &str, mount: &Mount, who: &Visitor) -> Option<Arc<dyn Seat>> {
        let seat = self.seats.lock().get(id).cloned()?;
        let ours = seat.mount == *mount && seat.caller.is(who) && !*seat.over.lock();
        ours.then_some(seat as Arc<dyn Seat>)
    }

    fn adopt(&self, pump: BoxFuture<'static, ()>) {
        write(&self.log, "adopt");
        self.tasks.spawn(pump);
    }

    fn servers(&self, _: &Visitor) -> Vec<String> {
        vec!["one".into(), "two".into()]
    }

    fn has(&self, mount: &Mount) -> bool {
        match mount {
            Mount::Default | Mount::Tools => true,
            Mount::Server(name) => matches!(name.as_str(), "one" | "two"),
        }
    }

    fn is_here(&self, session: &str) -> bool {
        self.elsewhere.lock().is_none() || self.seats.lock().contains_key(session)
    }

    fn locate<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Place> {
        write(&self.log, "locate");
        let elsewhere = self.elsewhere.lock().clone();
        Box::pin(async move { elsewhere.map_or(Place::Here, |place| place(session)) })
    }

    /// Only tools whose name begins with `kept` need what one node has.
    fn is_unseated_here(&self, call: &Unseated<'_>) -> bool {
        self.elsewhere.lock().is_none() || !call.tool.starts_with("kept")
    }

    fn locate_unseated<'a>(&'a self, call: Unseated<'a>) -> BoxFuture<'a, Place> {
        write(&self.log, "locate");
        let (elsewhere, what) =
            (self.elsewhere.lock().clone(), format!("{} {}", call.who.principal.as_str(), call.tool));
        Box::pin(async move { elsewhere.map_or(Place::Here, |place| place(&what)) })
    }
}

/// A seat whose calls follow the scripts that its middle had when the client came.
pub struct ScriptedSeat {
    id: SessionId,
    mount: Mount,
    caller: Arc<Caller>,
    desk: Desk,
    streams: Arc<dyn Streams>,
    plays: HashMap<String, Play>,
    listener: Mutex<Option<mpsc::Sender<Step>>>,
    log: Log,
    over: Mutex<bool>,
}

impl ScriptedSeat {
    /// Says something that belongs to no request; false when nobody listens.
    pub fn say(&self, step: Step) -> bool {
        self.listener.lock().as_ref().is_some_and(|listener| listener.try_send(step).is_ok())
    }
}

impl Seat for ScriptedSeat {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    fn desk(&self) -> &Desk {
        &self.desk
    }

    fn streams(&self) -> &dyn Streams {
        &*self.streams
    }

    fn open(self: Arc<Self>, call: Call) -> Exchange {
        let tool = call.message.member("name").and_then(|name| name.plain_str().map(str::to_owned));
        let play = tool.and_then(|tool| self.plays.get(&tool)).or_else(|| self.plays.get(call.message.method()));
        match play {
            Some(play) => play(call),
            None => Exchange::ready(words::result(&json!({ "method": call.message.method() }))),
        }
    }

    fn notified(&self, message: Message) {
        write(&self.log, format!("note {}", message.method()));
    }

    fn listen(&self) -> Exchange {
        let (sender, mut steps) = mpsc::channel(64);
        *self.listener.lock() = Some(sender);
        Exchange::routine(|out| async move {
            while let Some(step) = steps.recv().await {
                out.step(step).await;
            }
            End::ours(Outcome::Cancelled)
        })
    }

    fn end(&self, why: Cancel) {
        *self.over.lock() = true;
        self.listener.lock().take();
        self.desk.clear(&why);
        write(&self.log, "session end");
    }
}

fn write(log: &Log, line: impl Into<String>) {
    log.send_modify(|lines| lines.push(line.into()));
}

/// Writes down what became of a script.
struct Guard {
    log: Log,
    title: String,
    ended: bool,
}

impl Guard {
    fn new(log: Log, title: &str) -> Self {
        write(&log, format!("open {title}"));
        Self { log, title: title.to_owned(), ended: false }
    }

    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let what = if self.ended { "end" } else { "drop" };
        write(&self.log, format!("{what} {}", self.title));
    }
}

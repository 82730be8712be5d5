//! `landbridge wrap`: one server on stdin and stdout, started when it is needed and ended when it is not.

mod args;
mod name;
pub mod trace;

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lb_exchange::{
    BoxFuture, Call, Driver, End, ErrorBody, Exchange, Hello, Middle, Mount, Outcome, Refusal, Seat, ServerName,
    ServerSpec, Step, Target, Tasks, Visitor, Welcome,
};
use lb_front::Front;
use lb_gateway::{Clients, Gateway, Setup};
use lb_wire::revision::method;
use tokio::signal::unix::{SignalKind, signal as unix_signal};
use tokio::sync::watch;

pub use self::args::Wrap;
use crate::assembly::{close, environment};
use crate::run::Failure;
use crate::shelf;
use crate::stop::{REST_MAX, Stop};

/// Serves until the client closes stdin, or it is told to stop.
pub async fn wrap(settings: &Wrap) -> Result<(), Failure> {
    let spec = spec(settings)?;
    let name = spec.name.clone();
    let tasks = Tasks::default();
    let shelf = match (settings.no_cache, settings.refresh) {
        (true, _) => None,
        (false, true) => shelf::blank_disk(),
        (false, false) => shelf::disk(),
    };
    let setup = Setup { clients: Clients::One, only_server: true, shelf, ..Setup::default() };
    let gateway = Gateway::start(vec![spec], environment(&tasks, None)?, setup).await;
    let gateway = gateway.map_err(|(name, error)| Failure::usage(format!("{name}: {error}")))?;
    refresh_on_hangup(&gateway, &tasks)?;
    let (failed, mut failure) = watch::channel(None);
    let settings = lb_front::Settings::default();
    let grace = settings.grace;
    let stop = Stop::listen(move || grace, REST_MAX);
    let watched = Watched { gateway: gateway.clone(), failed, tasks: tasks.clone() };
    let front = Front::new(Arc::new(watched), settings);
    let end = async {
        tokio::select! {
            // Nobody needs a server any more that has not said who it is.
            () = stop.asked() => tasks.stop(),
            _ = failure.wait_for(Option::is_some) => {}
        }
    };
    let ending = || {
        stop.begin();
        give_up_soon(&tasks, &gateway, &front);
    };
    let served = lb_stdio::serve(&front, Mount::Server(name), Visitor::local(), end, ending).await;
    close(&gateway, &tasks).await;
    served.map_err(|error| Failure::runtime(error.to_string()))?;
    let failure = failure.borrow_and_update().clone();
    failure.map_or(Ok(()), |why| Err(Failure::runtime(why)))
}

/// The server that the command line names.
fn spec(settings: &Wrap) -> Result<ServerSpec, Failure> {
    let Some((command, args)) = settings.command.split_first() else {
        return Err(Failure::usage("give the server's command: landbridge wrap [OPTIONS] COMMAND [ARGS]..."));
    };
    if !is_there(command) {
        return Err(Failure::runtime(format!("cannot find the program {command:?}; {}", way_to(command))));
    }
    let name = server_name(&name::name(settings));
    // In a client's config it stands in the place of the server, and so has what that would have: all of it.
    let target =
        Target::Child { command: command.clone(), args: args.to_vec(), env: Vec::new(), cwd: None, inherit_env: true };
    let plain = ServerSpec::new(name, target);
    Ok(ServerSpec {
        cached: true,
        idle_timeout: Some(settings.idle_timeout).filter(|idle| !idle.is_zero()),
        max_age: settings.max_age,
        init_timeout: settings.init_timeout,
        list_timeout: settings.list_timeout,
        ..plain
    })
}

/// What to give in place of what is no program.
fn way_to(command: &str) -> String {
    if command.starts_with("http://") || command.starts_with("https://") {
        return "wrap starts a program; a server with a URL stands in mcp.json, with \"cached\": true: landbridge stdio \
                --config mcp.json --server NAME"
            .to_owned();
    }
    match command.split_once(char::is_whitespace) {
        Some((program, _)) if is_there(program) => {
            format!("{program:?} is the program, and the rest are its arguments: give them as words of their own")
        }
        _ => "give its path, or see that PATH has its folder".to_owned(),
    }
}

/// Whether the system would find a program.
fn is_there(command: &str) -> bool {
    if command.contains('/') {
        return Path::new(command).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

/// The name under which errors speak of the server.
fn server_name(name: &str) -> ServerName {
    let short: String = name.trim_matches('_').replace("__", "_").chars().take(ServerName::BYTES_MAX).collect();
    let known = ServerName::map_from(&short).or_else(|_| ServerName::map_from("server"));
    known.unwrap_or_else(|_| unreachable!("a plain word is a name"))
}

/// A duration as people write it: in seconds, `30` or `0.5`, or with a unit as everywhere else, `500ms`, `5m`.
///
/// # Errors
/// With what is allowed.
pub fn seconds(text: &str) -> Result<Duration, &'static str> {
    let advice = "give seconds, as in 30 or 0.5, or a time such as 500ms, 5m or 24h";
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.strip_prefix(number).unwrap_or_default() {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(advice),
    };
    let seconds: f64 = number.parse().map_err(|_| advice)?;
    let seconds = seconds * unit;
    let most = 365.0 * 24.0 * 60.0 * 60.0;
    if !(0.0..=most).contains(&seconds) {
        return Err("give a time from 0 to a year");
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The same, where none at all makes no sense.
///
/// # Errors
/// With what is allowed.
pub fn some_seconds(text: &str) -> Result<Duration, &'static str> {
    match seconds(text)? {
        Duration::ZERO => Err("give more than 0 seconds"),
        some => Ok(some),
    }
}

/// How long a server may take to say who it is after the client has closed stdin: enough for a line that was piped in.
const HANDSHAKE_AFTER_END: Duration = Duration::from_secs(2);

/// No more comes from the client: a server that does not answer soon is not waited for, unless a client does that has
/// been welcomed and has called.
fn give_up_soon(tasks: &Tasks, gateway: &Gateway, front: &Front) {
    let (all, gateway, front) = (tasks.clone(), gateway.clone(), front.clone());
    tasks.spawn(async move {
        let over = async {
            tokio::time::sleep(HANDSHAKE_AFTER_END).await;
            while gateway.sessions() != 0 && front.running() != 0 {
                tokio::time::sleep(HANDSHAKE_AFTER_END / 20).await;
            }
        };
        tokio::select! {
            () = over => all.stop(),
            () = all.stopping() => {}
        }
    });
}

/// Lists are read anew at every SIGHUP.
fn refresh_on_hangup(gateway: &Gateway, tasks: &Tasks) -> Result<(), Failure> {
    let mut hangup = unix_signal(SignalKind::hangup())
        .map_err(|error| Failure::runtime(format!("cannot listen for signals: {error}")))?;
    let (gateway, owner) = (gateway.clone(), tasks.clone());
    tasks.spawn(async move {
        loop {
            tokio::select! {
                Some(()) = hangup.recv() => gateway.refresh_lists(),
                () = owner.stopping() => return,
            }
        }
    });
    Ok(())
}

/// The gateway, watched for a server that cannot even say who it is: then there is nothing to serve.
struct Watched {
    gateway: Gateway,
    failed: watch::Sender<Option<String>>,
    /// Told to stop when nobody needs to hear any more who the server is.
    tasks: Tasks,
}

impl Watched {
    fn failed(&self, error: &ErrorBody) {
        report(&self.failed, &self.tasks, error);
    }
}

/// Ends the program because of an error, unless it ends anyway.
fn report(failed: &watch::Sender<Option<String>>, tasks: &Tasks, error: &ErrorBody) {
    if tasks.is_stopping() {
        return;
    }
    let said = error.raw.member("message");
    let said = said.as_ref().and_then(|text| text.to_text()).unwrap_or_default().into_owned();
    failed.send_replace(Some(said));
}

/// The introduction of a server to a modern client.
struct Introduction {
    inner: Exchange,
    failed: watch::Sender<Option<String>>,
    tasks: Tasks,
}

impl Driver for Introduction {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let step = self.inner.poll_step(cx);
        if let Poll::Ready(Step::End(End { outcome: Outcome::Error(error), .. })) = &step {
            report(&self.failed, &self.tasks, error);
        }
        step
    }
}

impl Middle for Watched {
    fn open(&self, call: Call) -> Exchange {
        let introduces = call.message.method() == method::SERVER_DISCOVER;
        let inner = self.gateway.open(call);
        if !introduces {
            return inner;
        }
        let (remote, server) = (inner.remote().clone(), inner.server().cloned());
        let introduction = Introduction { inner, failed: self.failed.clone(), tasks: self.tasks.clone() };
        Exchange::new(introduction, remote).with_server(server)
    }

    fn begin(&self, hello: Hello) -> BoxFuture<'_, Result<Welcome, Refusal>> {
        Box::pin(async move {
            let begun = self.gateway.begin(hello).await;
            if let Err(refusal) = &begun {
                self.failed(&refusal.error);
            }
            begun
        })
    }

    fn seat(&self, id: &str, mount: &Mount, who: &Visitor) -> Option<Arc<dyn Seat>> {
        Middle::seat(&self.gateway, id, mount, who)
    }

    fn adopt(&self, pump: BoxFuture<'static, ()>) {
        self.gateway.adopt(pump);
    }

    fn servers(&self, who: &Visitor) -> Vec<String> {
        self.gateway.servers(who)
    }

    fn has(&self, mount: &Mount) -> bool {
        self.gateway.has(mount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_inferred_name_becomes_one_that_errors_can_use() {
        for (name, want) in [
            ("time", "time"),
            ("_modelcontextprotocol_server-everything", "modelcontextprotocol_server-ever"),
            ("a__b", "a_b"),
            ("landbridge", "server"),
            ("___", "server"),
            ("", "server"),
        ] {
            assert_eq!(server_name(name).as_str(), want, "input {name:?}");
        }
    }

    #[test]
    fn seconds_may_have_a_fraction_and_have_bounds() {
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        assert_eq!(some_seconds("0.25"), Ok(Duration::from_millis(250)));
        for (text, want) in [("1s", 1_000), ("500ms", 500), ("5m", 300_000), ("1.5h", 5_400_000), ("1d", 86_400_000)] {
            assert_eq!(seconds(text), Ok(Duration::from_millis(want)), "{text:?}");
        }
        for bad in ["", "-1", "x", "s", "1x", "NaN", "inf", "1e12", "400d"] {
            assert!(seconds(bad).is_err(), "{bad:?}");
        }
        assert!(some_seconds("0").is_err());
    }
}

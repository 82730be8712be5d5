//! The provider is away, says nothing, or has other keys: whoever is logged in does not notice, and whoever wants to log in
//! is told so soon and can do it as soon as the provider is well.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lb_peers::harness::Gateway;
use lb_peers::idp::{Browser, Decision, Idp, Options, Stopped};
use lb_peers::installed::node;
use serde_json::json;
use tokio::process::Command;
use url::Url;

use crate::clocks::faketime;
use crate::world::{
    ALLOW, Client, REDIRECT, Tokens, authorize, form_to, free_port, login, parameter, redeem, register, serve, tokens,
    with_provider,
};

/// Five seconds are promised; a machine that runs many tests at once gets twice as many. Those who wait one after the other
/// would take longer.
const TOLD_WITHIN: Duration = Duration::from_secs(10);
/// How long it may take until a provider that is back is found.
const FOUND_WITHIN: Duration = Duration::from_secs(40);
/// How many want to log in at once.
const AT_ONCE: usize = 4;

/// A gateway, and a provider that can be taken away.
struct Place {
    url: String,
    gateway: Gateway,
    options: Options,
    idp: Option<Idp>,
}

async fn run(options: &Options) -> Idp {
    let options = options.clone();
    tokio::task::spawn_blocking(move || Idp::start(&options)).await.expect("it starts")
}

impl Place {
    async fn start(options: Options, prepare: impl FnOnce(&mut Command)) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let url = format!("http://{address}");
        // Whoever comes back comes back to the same port.
        let options = Options { redirects: vec![format!("{url}/oauth/callback")], port: free_port(), ..options };
        let idp = run(&options).await;
        let (mut command, folder) = serve(ALLOW);
        with_provider(&mut command, &url, &idp);
        command.args(["--listen", &address]);
        prepare(&mut command);
        Self { gateway: Gateway::launch(command, folder).await, url, options, idp: Some(idp) }
    }

    fn at(&self) -> SocketAddr {
        self.gateway.address
    }

    async fn logs_in(&self, user: &str) -> Stopped {
        login(&self.url, &register(self.at()).await, "mcp:call", user, Decision::Approve).await
    }

    async fn signed_in(&self, user: &str) -> Signed {
        let client = register(self.at()).await;
        let stopped = login(&self.url, &client, "mcp:call", user, Decision::Approve).await;
        let code = parameter(&stopped.url, "code")
            .unwrap_or_else(|| panic!("{:?} {:?} {}", stopped.page, stopped.trace, self.gateway.said()));
        let tokens = redeem(self.at(), &client, &code).await;
        let session = Client::begin(self.at(), &tokens.access).await;
        Signed { tokens, session }
    }
}

/// Somebody who is logged in and has a session.
struct Signed {
    tokens: Tokens,
    session: Client,
}

impl Signed {
    /// Calls, refreshes, calls with what that gave, and begins another session.
    async fn goes_on(&mut self) {
        let (at, echo) = (self.session.at, json!({ "server": "it", "tool": "echo", "args": { "message": "heard" } }));
        let calls = async |session: &Client| {
            let answer = session.call("execute_tool", echo.clone()).await;
            assert!(answer.head.status() == 200 && answer.text().contains("heard"), "{}", answer.text());
        };
        calls(&self.session).await;
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", &self.tokens.client),
            ("refresh_token", &self.tokens.refresh),
        ];
        let (status, told) = form_to(at, "/token", &form).await;
        assert_eq!(status, 200, "{told}");
        self.tokens = tokens(&self.tokens.client, &told);
        self.session = self.session.as_sent(at, &self.tokens.access);
        calls(&self.session).await;
        calls(&Client::begin(at, &self.tokens.access).await).await;
    }
}

/// Somebody in front of the page where they are asked for consent.
struct Asked {
    browser: Browser,
    page: String,
}

impl Asked {
    async fn by(place: &Place, client: &str) -> Self {
        let mut browser = Browser::default();
        let start = Url::parse(&authorize(&place.url, client, "mcp:call")).expect("a URL");
        let answer = browser.open(&start, None).await.expect("an answer");
        let page = answer.head.header("location").expect("it leads to the page");
        Self { browser, page: start.join(page).expect("a URL").into() }
    }

    /// Agrees, and goes wherever that leads.
    async fn agrees(&mut self, user: &str) -> Stopped {
        let login = self.browser.login(&self.page, REDIRECT, user, Decision::Approve).await;
        login.expect("nobody is sent to where nobody answers")
    }
}

/// What befalls the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It is not there.
    Down,
    /// It is there and says nothing.
    Silent,
}

impl Fault {
    fn begins(self, place: &mut Place) {
        match self {
            Self::Down => drop(place.idp.take()),
            Self::Silent => place.idp.as_ref().expect("it runs").pause(),
        }
    }

    async fn ends(self, place: &mut Place) {
        match self {
            Self::Down => place.idp = Some(run(&place.options).await),
            Self::Silent => place.idp.as_ref().expect("it runs").resume(),
        }
    }
}

async fn nobody_but_who_logs_in_notices(fault: Fault) {
    let mut place = Place::start(Options::default(), |_| {}).await;
    let mut alice = place.signed_in("alice").await;
    let client = register(place.at()).await;
    let mut asked = join_all((0..AT_ONCE).map(|_| Asked::by(&place, &client))).await;
    // Somebody has logged in there a moment before and is on their way back.
    let mut returning = Browser::default();
    let callback = format!("{}/oauth/callback", place.url);
    let start = authorize(&place.url, &client, "mcp:call");
    let back = returning.login(&start, &callback, "bob", Decision::Approve).await.expect("it goes on").url;
    assert!(parameter(&back, "code").is_some(), "{back}");

    fault.begins(&mut place);
    alice.goes_on().await;
    let began = Instant::now();
    for stopped in join_all(asked.iter_mut().map(|one| one.agrees("carol"))).await {
        let (status, page) = stopped.page.expect("a page of ours");
        assert!(status == 503 && page.contains("The provider of the login cannot be reached"), "{status} {page}");
    }
    eprintln!("{fault:?}: {AT_ONCE} who wanted to log in were told after {:?}", began.elapsed());
    assert!(began.elapsed() < TOLD_WITHIN, "{:?}", began.elapsed());
    let began = Instant::now();
    let answer = returning.open(&back, None).await.expect("an answer");
    eprintln!("{fault:?}: who was on their way was told after {:?}", began.elapsed());
    assert!(began.elapsed() < TOLD_WITHIN, "{:?}", began.elapsed());
    let to = Url::parse(answer.head.header("location").expect("the client is told")).expect("a URL");
    assert_eq!(parameter(&to, "error").as_deref(), Some("temporarily_unavailable"), "{to}");
    assert_eq!(parameter(&to, "state").as_deref(), Some("the client's"), "{to}");
    alice.goes_on().await;

    fault.ends(&mut place).await;
    let began = Instant::now();
    // Nobody has to begin again: the page that they have open goes on.
    let code = loop {
        let stopped = asked[0].agrees("carol").await;
        if let Some(code) = parameter(&stopped.url, "code") {
            break code;
        }
        assert!(began.elapsed() < FOUND_WITHIN, "{:?} {:?}", stopped.page, stopped.trace);
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    eprintln!("{fault:?}: the provider was found again after {:?}", began.elapsed());
    let carol = redeem(place.at(), &client, &code).await;
    let session = Client::begin(place.at(), &carol.access).await;
    assert_eq!(session.call("list_servers", json!({})).await.head.status(), 200);
    alice.goes_on().await;
}

#[tokio::test]
async fn a_provider_that_is_down_is_noticed_only_by_who_logs_in_and_they_are_told() {
    nobody_but_who_logs_in_notices(Fault::Down).await;
}

#[tokio::test]
async fn a_provider_that_says_nothing_is_noticed_only_by_who_logs_in_and_they_are_told() {
    nobody_but_who_logs_in_notices(Fault::Silent).await;
}

/// Writes a new key of a provider to a file.
async fn new_keys(file: &Path) {
    let script = "const { privateKey } = require('node:crypto').generateKeyPairSync('rsa', { modulusLength: 2048 });\
                  console.log(JSON.stringify({ keys: [{ ...privateKey.export({ format: 'jwk' }), kid: 'new', use: 'sig' }] }))";
    let made = Command::new(node()).args(["-e", script]).output().await.expect("node runs");
    assert!(made.status.success());
    std::fs::write(file, made.stdout).expect("written");
}

/// With the clock of `libfaketime`: nobody waits for a minute.
mod peer_faketime {
    use super::*;

    #[tokio::test]
    async fn new_keys_of_a_provider_are_taken_up_and_nobody_who_is_logged_in_notices() {
        let folder = tempfile::tempdir().expect("a folder");
        let [clock, keys, visits] = ["clock", "keys.json", "visits"].map(|name| folder.path().join(name));
        std::fs::write(&clock, "+0\n").expect("written");
        new_keys(&keys).await;
        let options = Options { visits: Some(visits.clone()), ..Options::default() };
        let mut place = Place::start(options, |command| {
            command.env("LD_PRELOAD", faketime()).env("FAKETIME_TIMESTAMP_FILE", &clock).env("FAKETIME_NO_CACHE", "1");
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        })
        .await;
        let asked_for_keys = || {
            let visits = std::fs::read_to_string(&visits).expect("it is visited");
            visits.lines().filter(|path| *path == "/jwks").count()
        };
        let mut alice = place.signed_in("alice").await;
        assert_eq!(asked_for_keys(), 1);

        place.idp.take().expect("it runs").stop();
        place.options.keys = Some(keys);
        place.idp = Some(run(&place.options).await);
        alice.goes_on().await;
        // The keys were asked for less than a minute ago: whoever comes with an unknown one makes us ask for none.
        for user in ["bob", "carol"] {
            let stopped = place.logs_in(user).await;
            assert_eq!(parameter(&stopped.url, "error").as_deref(), Some("server_error"), "{}", stopped.url);
            let why = parameter(&stopped.url, "error_description").expect("it says why");
            assert!(why.contains("not confirmed by its provider"), "{why}");
        }
        assert_eq!(asked_for_keys(), 1);
        alice.goes_on().await;

        std::fs::write(&clock, "+61\n").expect("written");
        let mut bob = place.signed_in("bob").await;
        assert_eq!(asked_for_keys(), 2);
        let mut carol = place.signed_in("carol").await;
        assert_eq!(asked_for_keys(), 2, "they are known");
        for one in [&mut alice, &mut bob, &mut carol] {
            one.goes_on().await;
        }
    }
}

//! A provider that takes seconds for each answer: whoever is logged in does not notice, and whoever logs in gets on or is
//! told within five seconds. The secret that we show it is in a file here.

use std::io::Result;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::idp::{Browser, CLIENT_SECRET, Decision, Idp, Options};
use lb_peers::raw::http::Response;
use serde_json::json;
use url::Url;

use crate::world::{
    ALLOW, Client, REDIRECT, Tokens, authorize, form_to, free_port, login, parameter, redeem, register, serve, tokens,
};

/// What is promised to whoever logs in.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// What a machine that runs many tests at once may take on top of that.
const BUSY: Duration = Duration::from_secs(1);
/// How long it may take until a provider that is well again is found.
const FOUND_WITHIN: Duration = Duration::from_secs(20);
/// Less than the provider takes for one answer: whoever waited for it took longer.
const NOTICED: Duration = Duration::from_millis(1_900);

/// A gateway whose provider is as slow as a file says.
struct Place {
    url: String,
    gateway: Gateway,
    delay: PathBuf,
    _idp: Idp,
    _folder: tempfile::TempDir,
}

impl Place {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [delay, secret] = ["delay", "secret"].map(|name| folder.path().join(name));
        std::fs::write(&delay, "0").expect("written");
        // As editors leave it.
        std::fs::write(&secret, format!("{CLIENT_SECRET}\n")).expect("written");
        let address = format!("127.0.0.1:{}", free_port());
        let url = format!("http://{address}");
        let redirects = vec![format!("{url}/oauth/callback")];
        let options = Options { redirects, delay: Some(delay.clone()), ..Options::default() };
        let idp = tokio::task::spawn_blocking(move || Idp::start(&options)).await.expect("it starts");
        let (mut command, config) = serve(ALLOW);
        command.args(["--auth", "oidc", "--oidc-client-id", "gateway", "--public-url", &url]);
        command.args(["--oidc-issuer", &idp.issuer, "--listen", &address, "--oidc-client-secret-file"]).arg(&secret);
        command.env_remove("LANDBRIDGE_OIDC_CLIENT_SECRET");
        Self { gateway: Gateway::launch(command, config).await, url, delay, _idp: idp, _folder: folder }
    }

    fn is_slow(&self, milliseconds: u64) {
        write(&self.delay, milliseconds);
    }
}

/// All at once: the provider reads it whenever it is asked.
fn write(file: &Path, milliseconds: u64) {
    let next = file.with_extension("next");
    std::fs::write(&next, milliseconds.to_string()).expect("written");
    std::fs::rename(next, file).expect("moved");
}

/// Calls, refreshes, and calls with what that gave; how long it took.
async fn goes_on(session: &mut Client, got: &mut Tokens) -> Duration {
    let (at, began) = (session.at, Instant::now());
    let form = [("grant_type", "refresh_token"), ("client_id", &got.client), ("refresh_token", &got.refresh)];
    assert_eq!(session.call("list_servers", json!({})).await.head.status(), 200);
    let (status, told) = form_to(at, "/token", &form).await;
    assert_eq!(status, 200, "{told}");
    *got = tokens(&got.client, &told);
    *session = session.as_sent(at, &got.access);
    assert_eq!(session.call("list_servers", json!({})).await.head.status(), 200);
    began.elapsed()
}

#[tokio::test]
async fn a_provider_that_takes_seconds_is_waited_for_and_nobody_else_waits() {
    let place = Place::start().await;
    let at = place.gateway.address;
    let client = register(at).await;
    // The secret is the one of the file: somebody gets in with it.
    let stopped = login(&place.url, &client, "mcp:call", "alice", Decision::Approve).await;
    let code = parameter(&stopped.url, "code").unwrap_or_else(|| panic!("{stopped:?} {}", place.gateway.said()));
    let mut alice = redeem(at, &client, &code).await;
    let mut session = Client::begin(at, &alice.access).await;
    // One that is waited for, and one that takes longer than anybody waits.
    for (milliseconds, gets_on) in [(2_000, true), (4_800, false)] {
        let mut browser = Browser::default();
        let start: Url = authorize(&place.url, &client, "mcp:call").parse().expect("a URL");
        let asked = browser.open(&start, None).await.expect("an answer");
        let page: Url = asked.head.header("location").expect("to consent").parse().expect("a URL");
        let form = agreed(&mut browser, &page).await;
        // Somebody agrees, and is sent there as soon as it has said where that is.
        place.is_slow(milliseconds);
        let asked = browser.open(&page, Some(form.clone()));
        let mut sent = waited_for(asked, &mut session, &mut alice).await;
        place.is_slow(0);
        if !gets_on {
            let told = sent.text();
            assert!(
                sent.head.status() == 503 && told.contains("The provider of the login cannot be reached"),
                "{told}"
            );
            // The page that they have open goes on, as soon as the provider is asked again.
            let began = Instant::now();
            while sent.head.status() == 503 && began.elapsed() < FOUND_WITHIN {
                tokio::time::sleep(Duration::from_millis(100)).await;
                sent = browser.open(&page, Some(form.clone())).await.expect("an answer");
            }
        }
        assert_eq!(sent.head.status(), 303, "{} {}", sent.text(), place.gateway.said());
        let there = sent.head.header("location").expect("to the provider").to_owned();
        let callback = format!("{}/oauth/callback", place.url);
        let back = browser.login(&there, &callback, "bob", Decision::Approve).await.expect("it goes on");
        // They come back, and we ask who they are.
        place.is_slow(milliseconds);
        let came = waited_for(browser.open(&back.url, None), &mut session, &mut alice).await;
        place.is_slow(0);
        let came: Url = came.head.header("location").expect("to the client").parse().expect("a URL");
        assert!(came.as_str().starts_with(REDIRECT), "{came}");
        match (parameter(&came, "code"), gets_on) {
            (Some(code), true) => drop(redeem(at, &client, &code).await),
            _ => assert_eq!(parameter(&came, "error").as_deref(), Some("temporarily_unavailable"), "{came}"),
        }
    }
}

/// What somebody is told in time who logs in, while somebody else who is logged in does not wait.
async fn waited_for(asked: impl Future<Output = Result<Response>>, session: &mut Client, got: &mut Tokens) -> Response {
    let began = Instant::now();
    let asked = async { (asked.await, began.elapsed()) };
    let ((answer, waited), took) = tokio::join!(asked, goes_on(session, got));
    eprintln!("told after {waited:?}, while others took {took:?}");
    assert!(took < NOTICED && NOTICED < waited, "{took:?} and {waited:?}");
    assert!(waited < TOLD_WITHIN + BUSY, "{waited:?}");
    answer.expect("an answer")
}

/// What somebody sends who agrees.
async fn agreed(browser: &mut Browser, page: &Url) -> String {
    let text = browser.open(page, None).await.expect("a page").text();
    let mark = text.split_once("name=\"csrf\" value=\"").and_then(|(_, rest)| rest.split_once('"')).expect("a mark").0;
    let id = parameter(page, "id").expect("an id");
    let form = [("id", id.as_str()), ("csrf", mark), ("decision", "approve")];
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish()
}

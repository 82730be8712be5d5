//! Servers that want a login: what goes with each request, and what comes of a refusal.

use std::collections::VecDeque;

use lb_exchange::{BoxFuture, Login, LoginError, LoginNeeded, Proof, Refused, Secret, ServerName, ServerSpec};
use parking_lot::Mutex;
use serde_json::json;

use super::script::{Asked, Script};
use super::*;
use crate::error::{ConnectError, EraError};
use crate::http::Access;

/// A refusal as it was told: its status, its challenges, and which proof it was of.
type Told = (u16, Vec<String>, Option<u64>);

/// Says what the test says, and writes down what it was told.
#[derive(Debug, Default)]
struct Scripted {
    /// What goes with requests now.
    now: Mutex<Option<Proof>>,
    /// What comes of refusals, in order; after the last one it fails.
    next: Mutex<VecDeque<Result<Proof, LoginError>>>,
    /// What it says before anything is sent, if not what goes with requests.
    never: Mutex<Option<LoginError>>,
    refusals: Mutex<Vec<Told>>,
}

fn proof(number: u64) -> Proof {
    Proof { value: Secret::new(format!("Bearer t{number}")), number }
}

fn needed() -> LoginError {
    let server = ServerName::parse("it").unwrap();
    LoginError::Needed(LoginNeeded { server, id: "l1".to_owned(), url: "https://login.example/?a=1".to_owned() })
}

impl Login for Scripted {
    fn proof(&self) -> BoxFuture<'_, Result<Option<Proof>, LoginError>> {
        let never = self.never.lock().clone();
        Box::pin(std::future::ready(never.map_or_else(|| Ok(self.now.lock().clone()), Err)))
    }

    fn refused(&self, refusal: Refused) -> BoxFuture<'_, Result<Proof, LoginError>> {
        let number = refusal.proof.map(|proof| proof.number);
        self.refusals.lock().push((refusal.status, refusal.challenges, number));
        let next = self.next.lock().pop_front().unwrap_or_else(|| Err(LoginError::Failed("no more".to_owned())));
        if let Ok(proof) = &next {
            *self.now.lock() = Some(proof.clone());
        }
        Box::pin(std::future::ready(next))
    }
}

impl Scripted {
    /// Begins with this proof, and answers refusals with these.
    fn new(now: Option<u64>, next: Vec<Result<Proof, LoginError>>) -> Arc<Self> {
        let scripted = Self::default();
        *scripted.now.lock() = now.map(proof);
        *scripted.next.lock() = next.into();
        Arc::new(scripted)
    }

    fn access(self: &Arc<Self>, server: &Script) -> Access {
        Access::new(endpoint(server), Some(self.clone()))
    }
}

async fn refuse(asked: &Asked, status: &str, challenge: &str) {
    asked.respond(status, &[("www-authenticate", challenge)], "no").await;
}

async fn connected(server: &mut Script, login: &Arc<Scripted>, era: Revision) -> Arc<HttpConnection> {
    let access = login.access(server);
    let connect = async {
        match era == LEGACY {
            true => HttpConnection::legacy(access, hello(), Feed::default()).await,
            false => HttpConnection::modern(access, None, Feed::default()).await,
        }
    };
    let (connected, ()) = tokio::join!(connect, async {
        let asked = server.next().await;
        let result = json!({"protocolVersion": "2025-11-25", "supportedVersions": ["2026-07-28"], "capabilities": {}});
        asked.respond("200 OK", &[("mcp-session-id", "s-1")], &asked.result(&result)).await;
    });
    connected.unwrap().0
}

#[tokio::test]
async fn a_refused_handshake_is_made_once_more_with_what_the_server_wants() {
    for era in [LEGACY, MODERN] {
        let mut server = Script::start().await;
        let login = Scripted::new(None, vec![Ok(proof(1))]);
        let access = login.access(&server);
        let connect = async {
            match era == LEGACY {
                true => HttpConnection::legacy(access, hello(), Feed::default()).await,
                false => HttpConnection::modern(access, None, Feed::default()).await,
            }
        };
        let (connected, ()) = tokio::join!(connect, async {
            let first = server.next().await;
            assert_eq!(first.header("authorization"), None, "nothing is known of what it wants");
            refuse(&first, "401 Unauthorized", "Bearer resource_metadata=\"http://x\"").await;
            let second = server.next().await;
            assert_eq!(second.header("authorization"), Some("Bearer t1"));
            assert_eq!((&second.body, second.connection), (&first.body, first.connection));
            let result = json!({"protocolVersion": "2025-11-25", "supportedVersions": ["2026-07-28"]});
            second.json(&second.result(&result)).await;
        });
        assert!(connected.is_ok(), "{era}");
        let challenge = vec!["Bearer resource_metadata=\"http://x\"".to_owned()];
        assert_eq!(*login.refusals.lock(), [(401, challenge, None)]);
    }
}

#[tokio::test]
async fn every_request_of_a_session_carries_the_proof_of_now() {
    let mut server = Script::start().await;
    let login = Scripted::new(Some(1), Vec::new());
    let connection = connected(&mut server, &login, LEGACY).await;
    connection.initialized(None);
    let told = server.next().await;
    assert_eq!(
        (told.header("authorization"), told.body["method"].as_str()),
        (Some("Bearer t1"), Some("notifications/initialized"))
    );
    told.accept().await;
    *login.now.lock() = Some(proof(2));
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        assert_eq!(asked.header("authorization"), Some("Bearer t2"));
        asked.json(&asked.result(&json!({}))).await;
    });
    assert_eq!(got, "result {}");
    connection.watch();
    let stream = server.next().await;
    assert_eq!((stream.method.as_str(), stream.header("authorization")), ("GET", Some("Bearer t2")));
    stream.stream().await;
    let ((), ()) = tokio::join!(connection.close(), async {
        let goodbye = server.next().await;
        assert_eq!((goodbye.method.as_str(), goodbye.header("authorization")), ("DELETE", Some("Bearer t2")));
        goodbye.accept().await;
    });
}

#[tokio::test]
async fn a_call_is_sent_once_more_after_a_refusal_and_after_nothing_else() {
    let step_up = r#"Bearer error="insufficient_scope", scope="files:write""#;
    for (status, challenge, again) in [
        ("401 Unauthorized", "Bearer", true),
        ("401 Unauthorized", r#"Bearer error="invalid_token""#, true),
        ("403 Forbidden", step_up, true),
        ("403 Forbidden", "Bearer", false),
        ("400 Bad Request", step_up, false),
        ("500 Internal Server Error", step_up, false),
        ("503 Service Unavailable", "Bearer", false),
    ] {
        for era in [LEGACY, MODERN] {
            let mut server = Script::start().await;
            let login = Scripted::new(Some(1), vec![Ok(proof(2))]);
            let connection = connected(&mut server, &login, era).await;
            let (got, ()) = tokio::join!(end(tool(&connection)), async {
                let first = server.next().await;
                refuse(&first, status, challenge).await;
                if again {
                    let second = server.next().await;
                    assert_eq!(second.header("authorization"), Some("Bearer t2"), "{status} {challenge}");
                    assert_eq!(second.body, first.body);
                    second.json(&second.result(&json!({"done": true}))).await;
                }
            });
            assert_eq!(got == r#"result {"done":true}"#, again, "{era} {status} {challenge}: {got}");
            assert_eq!(login.refusals.lock().len(), usize::from(again), "{era} {status} {challenge}");
            assert_eq!(connection.intake().calls.len(), 0);
            // The next request that the server sees is the next call.
            let (_, ()) = tokio::join!(end(tool(&connection)), async {
                let asked = server.next().await;
                assert_eq!(asked.body["id"], 2, "{era} {status} {challenge}");
                asked.json(&asked.result(&json!({}))).await;
            });
        }
    }
}

#[tokio::test]
async fn a_new_login_may_be_good_for_too_little_once_and_then_it_is_an_error() {
    let step_up = r#"Bearer error="insufficient_scope""#;
    let (no, forbidden) = ("401 Unauthorized", "403 Forbidden");
    for (answers, want) in [
        (vec![no, no], r#"error -32603 "login_failed""#),
        (vec![forbidden, forbidden], r#"error -32603 "login_failed""#),
        (vec![no, forbidden, forbidden], r#"error -32603 "login_failed""#),
        (vec![forbidden, no], r#"error -32603 "login_failed""#),
        (vec![no, forbidden, "200 OK"], "result {}"),
    ] {
        let mut server = Script::start().await;
        let login = Scripted::new(Some(1), vec![Ok(proof(2)), Ok(proof(3)), Ok(proof(4))]);
        let connection = connected(&mut server, &login, LEGACY).await;
        let (got, ()) = tokio::join!(end(tool(&connection)), async {
            for status in &answers {
                let asked = server.next().await;
                match *status == "200 OK" {
                    true => asked.json(&asked.result(&json!({}))).await,
                    false => refuse(&asked, status, step_up).await,
                }
            }
        });
        assert!(got.starts_with(want), "{answers:?}: {got}");
    }
}

#[tokio::test]
async fn a_login_that_is_needed_is_told_with_its_link_and_counts_for_nothing() {
    let mut server = Script::start().await;
    let login = Scripted::new(Some(1), vec![Err(needed())]);
    let connection = connected(&mut server, &login, LEGACY).await;
    let mut exchange = tool(&connection);
    let (step, ()) = tokio::join!(exchange.step(), async {
        refuse(&server.next().await, "401 Unauthorized", "Bearer").await;
    });
    let Step::End(End { outcome: Outcome::Error(error), era: None, .. }) = step else { panic!("no error of ours") };
    let url = "https://login.example/?a=1";
    assert_eq!(error.login.as_deref().map(|needed| (needed.id.as_str(), needed.url.as_str())), Some(("l1", url)));
    let data = error.raw.member("data").unwrap();
    assert_eq!(value(&data), json!({"reason": "login_needed", "server": "it", "url": url}));
    // Known before anything is sent: the server hears nothing, and is not left alone however often that is so.
    *login.never.lock() = Some(needed());
    for _ in 0..20 {
        assert!(end(tool(&connection)).await.starts_with(r#"error -32603 "login_needed""#));
    }
    assert!(!connection.endpoint.gate().is_open());
    *login.never.lock() = None;
    let (got, ()) = tokio::join!(end(tool(&connection)), async {
        let asked = server.next().await;
        asked.json(&asked.result(&json!({}))).await;
    });
    assert_eq!(got, "result {}", "once somebody has logged in it goes on in the same session");
}

#[tokio::test]
async fn no_connection_without_a_login_says_why_and_proves_nothing_about_the_era() {
    let failed = LoginError::Failed("the token endpoint is away".to_owned());
    for (error, want) in [
        (needed(), "a login is needed: open https://login.example/?a=1"),
        (failed, "the login failed: the token endpoint is away"),
    ] {
        let server = Script::start().await;
        let login = Scripted::new(None, Vec::new());
        *login.never.lock() = Some(error);
        let got = HttpConnection::modern(login.access(&server), None, Feed::default()).await.err().unwrap();
        let EraError::Failed(error) = got else { panic!("an era was seen") };
        assert!(error.to_string().starts_with(want), "{error}");
    }
}

#[tokio::test]
async fn a_listen_carries_the_proof_and_is_made_once_more_after_a_refusal() {
    let mut server = Script::start().await;
    let login = Scripted::new(Some(1), vec![Ok(proof(2))]);
    let connection = connected(&mut server, &login, MODERN).await;
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut exchange = connection.call(call(MODERN, "subscriptions/listen", &params), None);
    let (got, ()) = tokio::join!(step(&mut exchange), async {
        refuse(&server.next().await, "401 Unauthorized", "Bearer").await;
        let asked = server.next().await;
        assert_eq!(asked.header("authorization"), Some("Bearer t2"));
        asked.stream().await;
        let method = "notifications/subscriptions/acknowledged";
        asked.event(None, &json!({"jsonrpc": "2.0", "method": method, "params": {}})).await;
    });
    assert!(got.starts_with("note notifications/subscriptions/acknowledged"), "{got}");
}

#[tokio::test]
async fn a_token_that_no_header_can_hold_is_not_sent() {
    let server = Script::start().await;
    let login = Scripted::new(None, Vec::new());
    *login.now.lock() = Some(Proof { value: Secret::new("Bearer a\r\nX: y"), number: 1 });
    let got = HttpConnection::legacy(login.access(&server), hello(), Feed::default()).await.err().unwrap();
    assert!(matches!(got, EraError::Failed(ConnectError::LoginFailed(_))), "{got:?}");
}

#[tokio::test]
async fn without_a_login_a_401_names_the_key_that_gives_one() {
    let mut server = Script::start().await;
    let (got, ()) = tokio::join!(HttpConnection::legacy(endpoint(&server), hello(), Feed::default()), async {
        refuse(&server.next().await, "401 Unauthorized", "Bearer").await;
    });
    let EraError::Failed(error) = got.err().unwrap() else { panic!("an era was seen") };
    assert!(matches!(error, ConnectError::Unauthorized { status: 401 }));
    let told = error.message("server \"it\"");
    assert!(told.contains(r#"or add "auth": "user" to log in there"#), "{told}");
}

#[tokio::test]
async fn the_stream_and_the_posts_of_the_old_transport_carry_the_proof_of_now() {
    let mut server = Script::start().await;
    let login = Scripted::new(None, vec![Ok(proof(1)), Ok(proof(2))]);
    let (opened, stream) =
        tokio::join!(crate::http::Stream::open(login.access(&server), ServerSpec::INIT_TIMEOUT), async {
            refuse(&server.next().await, "401 Unauthorized", "Bearer").await;
            let stream = server.next().await;
            assert_eq!((stream.method.as_str(), stream.header("authorization")), ("GET", Some("Bearer t1")));
            stream.stream().await;
            stream.piece("event: endpoint\ndata: /post\n\n").await;
            stream
        });
    let (pipe, _over) = opened.ok().unwrap().into_pipe("it", Feed::default(), &Tasks::default());
    let (pong, ()) = tokio::join!(pipe.request("ping", None), async {
        let asked = server.next().await;
        assert_eq!((asked.path.as_str(), asked.header("authorization")), ("/post", Some("Bearer t1")));
        refuse(&asked, "401 Unauthorized", "Bearer error=\"invalid_token\"").await;
        let asked = server.next().await;
        assert_eq!(asked.header("authorization"), Some("Bearer t2"));
        asked.accept().await;
        stream.event(None, &serde_json::from_str(&asked.result(&json!({}))).unwrap()).await;
    });
    assert!(matches!(pong, Outcome::Result(_)));
    // A login that is gone is asked for by the call that needs it.
    *login.never.lock() = Some(needed());
    let Outcome::Error(error) = pipe.request("ping", None).await else { panic!("nothing was sent") };
    assert!(error.login.is_some(), "{error:?}");
}

//! Logins at servers behind us, at a certified provider.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use http::HeaderMap;
use lb_auth::behind::{Ended, State};
use lb_exchange::{LoginError, OauthClient, Refused, Secret, ServerAuth};
use lb_peers::idp::{Decision, Idp, Options, SERVICE_SECRET};

use super::memory;
use crate::behind::server::{Server, send};
use crate::behind::{Linked, alice, call, come_back, log_in, login, native, needed, node, spec, token};

async fn provider(options: Options) -> Idp {
    tokio::task::spawn_blocking(move || Idp::start(&options)).await.unwrap()
}

fn service(secret: &str) -> ServerAuth {
    let (client_id, client_secret) = (Some("service".into()), Some(Secret::new(secret)));
    ServerAuth::Service(OauthClient { client_id, client_secret, ..OauthClient::default() })
}

#[tokio::test]
async fn a_person_logs_in_once_and_the_server_is_used_from_then_on() {
    let idp = provider(Options::default()).await;
    let (server, link) = (Server::start(&idp.issuer).await, Linked::default());
    let (behind, spec) = (node(memory().await, &link), spec(&server.url, ServerAuth::User(OauthClient::default())));
    let login = login(&behind, &alice(), &spec);
    assert_eq!(login.proof().await.unwrap(), None, "the server has not said what it wants");
    let first = needed(&*login, &server.url).await;
    assert_eq!(first.server.as_str(), "Files");
    assert_eq!(needed(&*login, &server.url).await, first, "one link for all who want it");
    assert_eq!(behind.status(&alice(), std::slice::from_ref(&spec)).await[0].state, State::LoggedOut);
    let waiting = behind.wait(&first.id);
    let (page, ended) = tokio::join!(log_in(&behind, &first, "alice"), waiting);
    assert_eq!((page.0, ended), (200, Ended::Done), "{}", page.1);
    assert!(page.1.contains("You are logged in at Files. You can close this window."), "{}", page.1);
    assert_eq!(call(&*login, &server.url).await, Ok(200));
    assert_eq!(link.0.registrations.load(Ordering::SeqCst), 1);
    let status = &behind.status(&alice(), std::slice::from_ref(&spec)).await[0];
    assert_eq!((status.state, status.issuer.as_deref()), (State::LoggedIn, Some(idp.issuer.as_str())));
    assert!(status.scopes.contains(&"mcp:read".to_owned()), "{status:?}");
    let text = serde_json::to_value(status).unwrap();
    assert_eq!((&text["type"], &text["state"]), (&"user".into(), &"logged_in".into()));
    assert!(text["expiresAt"].as_str().unwrap().ends_with('Z'), "{text}");
    // Both requests name the server, as the server itself does.
    let forms = link.0.forms.lock().clone();
    assert!(forms.iter().all(|form| form.contains(&("resource".into(), server.url.clone()))), "{}", forms.len());
    let resource = url::form_urlencoded::byte_serialize(server.url.as_bytes()).collect::<String>();
    assert!(first.url.contains(&format!("resource={resource}")) && first.url.contains("code_challenge_method=S256"));
    // Another principal has nothing of it.
    let bob = crate::behind::login(&behind, &lb_exchange::Principal::named("u_bob"), &spec);
    assert_eq!(bob.proof().await.unwrap(), None);
    // It is gone after a logout, at the provider, too.
    let held = login.proof().await.unwrap();
    assert_eq!(behind.logout(&alice(), &spec).await, Ok(true));
    assert_eq!(behind.logout(&alice(), &spec).await, Ok(false));
    assert_eq!(login.proof().await.unwrap(), None);
    assert_eq!(send(&server.url, held.as_ref()).await.0, 200, "a token that says itself what it is good for");
}

#[tokio::test]
async fn a_login_is_used_once_and_only_by_who_brings_the_right_answer() {
    let idp = provider(Options::default()).await;
    let (server, link) = (Server::start(&idp.issuer).await, Linked::default());
    let (behind, spec) = (node(memory().await, &link), spec(&server.url, native()));
    let login = login(&behind, &alice(), &spec);
    let now = SystemTime::now;
    let first = needed(&*login, &server.url).await;
    let query = come_back(&first, "alice", Decision::Approve).await;
    let status = |answer: http::Response<bytes::Bytes>| answer.status().as_u16();
    assert_eq!(status(behind.callback("", &HeaderMap::new(), now()).await), 400);
    assert_eq!(status(behind.callback("code=x&state=y", &HeaderMap::new(), now()).await), 400);
    let late = now() + Duration::from_secs(601);
    assert_eq!(status(behind.callback(&query, &HeaderMap::new(), late).await), 400, "ten minutes are over");
    assert_eq!(link.0.exchanges.load(Ordering::SeqCst), 0);
    let headers = HeaderMap::new();
    let at_once = join_all((0..20).map(|_| behind.callback(&query, &headers, now()))).await;
    let mut statuses: Vec<u16> = at_once.into_iter().map(status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [&[200][..], &[400; 19]].concat(), "twenty at once");
    assert_eq!(status(behind.callback(&query, &HeaderMap::new(), now()).await), 400, "and once more");
    assert_eq!(link.0.exchanges.load(Ordering::SeqCst), 1);
    // Somebody who says no is told so, and so is who waits.
    assert_eq!(behind.logout(&alice(), &spec).await, Ok(true));
    let second = needed(&*login, &server.url).await;
    assert_ne!(second.id, first.id);
    let denied = come_back(&second, "alice", Decision::Approve).await.replace("code=", "error=access_denied&nothing=");
    assert_eq!(status(behind.callback(&denied, &HeaderMap::new(), now()).await), 400);
    assert_eq!(behind.wait(&second.id).await, Ended::Failed("it was denied".into()));
    assert_eq!(behind.wait("nobody").await, Ended::Over);
    assert_ne!(needed(&*login, &server.url).await.id, second.id, "the next one is another one");
}

#[tokio::test]
async fn a_code_of_another_issuer_is_refused_before_any_token_is_asked_for() {
    let (honest, other) = tokio::join!(provider(Options::default()), provider(Options::default()));
    let (server, link) = (Server::start(&honest.issuer).await, Linked::default());
    let (behind, spec) = (node(memory().await, &link), spec(&server.url, native()));
    let login = login(&behind, &alice(), &spec);
    let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    for forged in [encoded(&other.issuer), encoded(&format!("{}/", honest.issuer)), String::new()] {
        let first = needed(&*login, &server.url).await;
        let query = come_back(&first, "alice", Decision::Approve).await;
        assert!(query.contains(&encoded(&honest.issuer)), "{query}");
        let swapped = query.replace(&encoded(&honest.issuer), &forged);
        let page = behind.callback(&swapped, &HeaderMap::new(), SystemTime::now()).await;
        assert_eq!(page.status(), 400, "iss={forged:?}");
        assert!(matches!(behind.wait(&first.id).await, Ended::Failed(_)));
    }
    assert_eq!(link.0.exchanges.load(Ordering::SeqCst), 0);
    // A server that changes to another issuer is logged in to anew: nothing of the first goes to the second.
    let first = needed(&*login, &server.url).await;
    assert_eq!(log_in(&behind, &first, "alice").await.0, 200);
    server.says.lock().issuer = Some(other.issuer.clone());
    server.says.lock().is_stubborn = true;
    let held = login.proof().await.unwrap();
    let (status, challenges) = send(&server.url, held.as_ref()).await;
    let refused = login.refused(Refused { status, challenges, proof: held }).await;
    let Err(LoginError::Needed(second)) = refused else { panic!("{refused:?}") };
    assert!(second.url.starts_with(&other.issuer), "{}", second.url);
    assert_eq!(link.0.refreshes.load(Ordering::SeqCst), 0);
    assert_eq!(log_in(&behind, &second, "alice").await.0, 200);
    let status = &behind.status(&alice(), &[spec]).await[0];
    assert_eq!(status.issuer.as_deref(), Some(other.issuer.as_str()));
}

#[tokio::test]
async fn fifty_who_want_the_next_token_at_once_get_one() {
    let idp = provider(Options { access_life: Some(Duration::from_secs(2)), ..Options::default() }).await;
    let (server, link) = (Server::start(&idp.issuer).await, Linked::default());
    let (behind, spec) = (node(memory().await, &link), spec(&server.url, native()));
    let login = login(&behind, &alice(), &spec);
    let first = needed(&*login, &server.url).await;
    assert_eq!(log_in(&behind, &first, "alice").await.0, 200);
    for round in 1..=2 {
        let old = token(&login.proof().await.unwrap().unwrap());
        tokio::time::sleep(Duration::from_millis(2_050)).await;
        let all = join_all((0..50).map(|_| login.proof())).await;
        let mut tokens: Vec<_> = all.into_iter().map(|proof| token(&proof.unwrap().unwrap())).collect();
        tokens.dedup();
        assert_eq!(tokens.len(), 1, "round {round}");
        assert!(tokens[0].0 != old.0 && old.1 < tokens[0].1);
        assert_eq!(link.0.refreshes.load(Ordering::SeqCst), round);
    }
    // A refusal of an old one is answered with the newest, and nobody is asked.
    let held = login.proof().await.unwrap().unwrap();
    let old = lb_exchange::Proof { number: held.number - 1, ..held.clone() };
    let newest = login.refused(Refused { status: 401, challenges: vec![], proof: Some(old) }).await.unwrap();
    assert_eq!((newest, link.0.refreshes.load(Ordering::SeqCst)), (held.clone(), 2));
    // Fifty refusals of the newest renew it once.
    let refused = || login.refused(Refused { status: 401, challenges: vec![], proof: Some(held.clone()) });
    let all = join_all((0..50).map(|_| refused())).await;
    assert!(all.iter().all(|proof| proof.as_ref().is_ok_and(|proof| held.number < proof.number)));
    assert_eq!(link.0.refreshes.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_provider_that_is_away_or_slow_is_no_reason_to_log_in_again_and_one_that_has_forgotten_is() {
    let folder = tempfile::tempdir().unwrap();
    let life = Some(Duration::from_secs(3));
    let mut options = Options { access_life: life, store: Some(folder.path().join("all")), ..Options::default() };
    let idp = provider(options.clone()).await;
    options.port = idp.port;
    let (server, link) = (Server::start(&idp.issuer).await, Linked::default());
    let (behind, spec) = (node(memory().await, &link), spec(&server.url, native()));
    let login = login(&behind, &alice(), &spec);
    let first = needed(&*login, &server.url).await;
    assert_eq!(log_in(&behind, &first, "alice").await.0, 200);
    let held = token(&login.proof().await.unwrap().unwrap());
    tokio::task::spawn_blocking(move || idp.stop()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2_750)).await;
    let still = token(&login.proof().await.unwrap().unwrap());
    assert_eq!(still, held, "it is used while it lives");
    tokio::time::sleep(Duration::from_millis(400)).await;
    let Err(LoginError::Failed(why)) = login.proof().await else { panic!("nobody can be asked") };
    assert!(why.starts_with("the login at Files could not be renewed now"), "{why}");
    // It is asked again, and still away.
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    let before = link.0.refreshes.load(Ordering::SeqCst);
    let Err(LoginError::Failed(why)) = call(&*login, &server.url).await else { panic!("nobody can be asked") };
    assert!(why.starts_with("the login at Files could not be renewed now"), "{why}");
    assert_eq!(link.0.refreshes.load(Ordering::SeqCst), before + 1);
    // It comes back with all that it knew.
    let idp = provider(options.clone()).await;
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(call(&*login, &server.url).await, Ok(200));
    // Slow, while the token lives: the old one is there at once.
    let held = token(&login.proof().await.unwrap().unwrap());
    link.0.slow.store(1_000, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(2_750)).await;
    let began = tokio::time::Instant::now();
    assert_eq!(token(&login.proof().await.unwrap().unwrap()), held);
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_ne!(token(&login.proof().await.unwrap().unwrap()), held, "what was begun goes on");
    link.0.slow.store(0, Ordering::SeqCst);
    // It forgets everything.
    tokio::task::spawn_blocking(move || idp.stop()).await.unwrap();
    let _idp = provider(Options { store: None, ..options }).await;
    tokio::time::sleep(Duration::from_millis(3_050)).await;
    let Err(LoginError::Needed(second)) = login.proof().await else { panic!("the refresh token is gone") };
    assert_eq!(log_in(&behind, &second, "alice").await.0, 200);
    assert_eq!(call(&*login, &server.url).await, Ok(200));
}

#[tokio::test]
async fn a_server_that_wants_more_gets_the_union_and_is_not_asked_forever() {
    let idp = provider(Options::default()).await;
    let (server, link) = (Server::start(&idp.issuer).await, Linked::default());
    let (behind, spec) = (node(memory().await, &link), spec(&server.url, native()));
    let login = login(&behind, &alice(), &spec);
    let first = needed(&*login, &server.url).await;
    assert_eq!(log_in(&behind, &first, "alice").await.0, 200);
    for wants in ["mcp:call mcp:admin", "mcp:everything"] {
        server.says.lock().scopes = wants.into();
        let more = needed(&*login, &server.url).await;
        assert!(more.url.contains("mcp%3Aread") && more.url.contains("mcp%3Acall"), "{wants}: {}", more.url);
        assert_eq!(log_in(&behind, &more, "alice").await.0, 200, "{wants}");
    }
    let Err(LoginError::Failed(why)) = call(&*login, &server.url).await else { panic!("it wants what nobody has") };
    assert!(why.contains("after each login"), "{why}");
    server.says.lock().scopes = "mcp:read mcp:call mcp:admin".into();
    assert_eq!(call(&*login, &server.url).await, Ok(200), "what was granted is not lost");
}

#[tokio::test]
async fn the_gateway_itself_logs_in_with_its_own_credentials_for_everybody() {
    let idp = provider(Options { access_life: Some(Duration::from_secs(2)), ..Options::default() }).await;
    let (server, link) = (Server::start(&idp.issuer).await, Linked::default());
    let (behind, right) = (node(memory().await, &link), spec(&server.url, service(SERVICE_SECRET)));
    let (alice, bob) =
        (login(&behind, &alice(), &right), login(&behind, &lb_exchange::Principal::named("u_bob"), &right));
    assert_eq!(call(&*alice, &server.url).await, Ok(200));
    assert_eq!(call(&*bob, &server.url).await, Ok(200));
    assert_eq!(link.0.exchanges.load(Ordering::SeqCst), 1);
    tokio::time::sleep(Duration::from_millis(2_050)).await;
    let all = join_all((0..50).map(|_| call(&*alice, &server.url))).await;
    assert!(all.iter().all(|status| *status == Ok(200)), "{all:?}");
    assert_eq!(link.0.exchanges.load(Ordering::SeqCst), 2);
    let status = &behind.status(&crate::behind::alice(), std::slice::from_ref(&right)).await[0];
    assert_eq!((status.kind, status.state), ("service", State::LoggedIn));
    // What the server does not take in spite of a new token is told, and not tried for ever.
    server.says.lock().is_stubborn = true;
    let before = link.0.exchanges.load(Ordering::SeqCst);
    assert_eq!(call(&*alice, &server.url).await, Ok(401));
    let Err(LoginError::Failed(why)) = call(&*alice, &server.url).await else { panic!("it takes nothing") };
    assert!(why.contains("does not take what its authorization server gives us"), "{why}");
    assert_eq!(link.0.exchanges.load(Ordering::SeqCst), before + 1);
    // A wrong secret is told.
    let (other, wrong) = (node(memory().await, &link), spec(&server.url, service("wrong")));
    let Err(LoginError::Failed(why)) = call(&*login(&other, &crate::behind::alice(), &wrong), &server.url).await else {
        panic!("a wrong secret");
    };
    assert!(why.contains("invalid_client") && !why.contains("wrong"), "{why}");
}

/// Everything that is logged, at every level.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<parking_lot::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn nothing_secret_is_written_down() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    let idp = provider(Options { access_life: Some(Duration::from_secs(1)), ..Options::default() }).await;
    let (server, link) = (Server::start(&idp.issuer).await, Linked::default());
    let (behind, user) = (node(memory().await, &link), spec(&server.url, ServerAuth::User(OauthClient::default())));
    let login = login(&behind, &alice(), &user);
    let first = needed(&*login, &server.url).await;
    let query = come_back(&first, "alice", Decision::Approve).await;
    assert_eq!(behind.callback(&query, &HeaderMap::new(), SystemTime::now()).await.status(), 200);
    let mut secrets = vec![token(&login.proof().await.unwrap().unwrap()).0.replace("Bearer ", "")];
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    secrets.push(token(&login.proof().await.unwrap().unwrap()).0.replace("Bearer ", ""));
    let program = crate::behind::login(&behind, &alice(), &spec(&server.url, service(SERVICE_SECRET)));
    assert_eq!(call(&*program, &server.url).await, Ok(200));
    assert_eq!(behind.logout(&alice(), &user).await, Ok(true));
    let pairs: Vec<(String, String)> = link.0.forms.lock().concat();
    let named = ["code", "code_verifier", "refresh_token", "client_secret"];
    secrets.extend(pairs.into_iter().filter(|(name, _)| named.contains(&name.as_str())).map(|(_, value)| value));
    secrets.push(SERVICE_SECRET.to_owned());
    tracing::info!("the last line");
    let text = format!("{}{behind:?}{login:?}{program:?}", String::from_utf8(log.0.lock().clone()).unwrap());
    assert!(text.contains("the last line") && 6 <= secrets.len(), "{text}");
    for secret in &secrets {
        assert!(8 < secret.len() && !text.contains(secret.as_str()), "{secret} is in the log: {text}");
    }
}

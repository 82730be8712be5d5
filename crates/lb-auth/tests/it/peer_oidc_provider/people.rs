//! Logins at servers behind a gateway that knows its people: a link is good for who began it, and for nobody else.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lb_auth::behind::{Behind, Ended, Landing, Ports, Settings, State};
use lb_exchange::{LoginError, OauthClient, Principal, ServerAuth};
use lb_peers::idp::{Browser, Decision, Options, Stopped};
use lb_store::Store;

use super::memory;
use crate::behind::server::Server;
use crate::behind::{Linked, call, login, needed, spec};
use crate::gateway::{World, parameter};

struct Gateway {
    world: World,
    behind: Behind,
    server: Server,
    link: Linked,
}

impl Gateway {
    async fn start() -> Self {
        let (store, link): (Arc<dyn Store>, _) = (memory().await, Linked::default());
        let mut made = None;
        let world = World::start_with(store.clone(), Options::default(), |url, auth| {
            let (link, people) = (link.clone(), Some(auth.clone()));
            let ports = Ports { store, reach: Arc::new(move |_| Arc::new(link.clone())), people };
            let landing = Landing::At(format!("{url}{}", Behind::CALLBACK));
            let settings = Settings { name: "landbridge".into(), public_url: Some(url.into()), landing };
            made = Some(Behind::new(settings, ports));
            made.clone()
        });
        let world = world.await;
        let server = Server::start(&world.idp.as_ref().unwrap().issuer).await;
        Self { world, behind: made.unwrap(), server, link }
    }

    /// The principal that somebody is here.
    async fn principal(&self, user: &str) -> Principal {
        let client = self.world.register().await;
        let mut browser = Browser::default();
        let stopped = self.world.login(&mut browser, &client, "mcp:call", user, Decision::Approve).await;
        let (_, tokens) = self.world.redeem(&client, &parameter(&stopped.url, "code").unwrap()).await;
        self.world.check(tokens["access_token"].as_str().unwrap()).await.unwrap().who.principal.clone()
    }
}

async fn open(browser: &mut Browser, link: &str, stop_at: &str, user: &str) -> Stopped {
    let login = browser.login(link, stop_at, user, Decision::Approve);
    tokio::time::timeout(Duration::from_secs(40), login).await.expect("a login ends").unwrap()
}

#[tokio::test]
async fn only_who_began_a_login_can_finish_it() {
    let gateway = Gateway::start().await;
    let spec = spec(&gateway.server.url, ServerAuth::User(OauthClient::default()));
    let alice = gateway.principal("alice").await;
    let login = login(&gateway.behind, &alice, &spec);
    let link = needed(&*login, &gateway.server.url).await;
    assert_eq!(link.url, format!("{}/oauth/backend/start?id={}", gateway.world.url, link.id));
    // Somebody whom the link was sent to: they log in here, and no further.
    let stopped = open(&mut Browser::default(), &link.url, "nowhere", "bob").await;
    let (status, text) = stopped.page.unwrap();
    assert_eq!(status, 403, "{text}");
    assert!(text.contains("This login is not yours"), "{text}");
    let authorized = stopped.trace.iter().filter(|(url, _)| url.as_str().contains("resource="));
    assert_eq!(authorized.count(), 0, "{:?}", stopped.trace);
    // What the right person brings back is worth nothing in another browser, or without its cookie.
    let callback = format!("{}{}", gateway.world.url, Behind::CALLBACK);
    let mut browser = Browser::default();
    let stopped = open(&mut browser, &link.url, &callback, "alice").await;
    assert!(stopped.page.is_none(), "{:?} {:?}", stopped.page, stopped.trace);
    let mut other = Browser::default();
    assert_eq!(other.open(&stopped.url, None).await.unwrap().head.status(), 403);
    assert_eq!(gateway.link.0.exchanges.load(Ordering::SeqCst), 0);
    let status = |status: &lb_auth::behind::Status| status.state;
    assert_eq!(status(&gateway.behind.status(&alice, std::slice::from_ref(&spec)).await[0]), State::LoggedOut);
    // And here it is.
    let page = browser.open(&stopped.url, None).await.unwrap();
    assert_eq!(page.head.status(), 200, "{}", page.text());
    assert!(page.text().contains("You are logged in at Files."), "{}", page.text());
    assert_eq!(gateway.behind.wait(&link.id).await, Ended::Done);
    assert_eq!(call(&*login, &gateway.server.url).await, Ok(200));
    assert_eq!(status(&gateway.behind.status(&alice, std::slice::from_ref(&spec)).await[0]), State::LoggedIn);
    assert_eq!(browser.open(&stopped.url, None).await.unwrap().head.status(), 400, "once");
    let start = url::Url::parse(&link.url).unwrap();
    assert_eq!(browser.open(&start, None).await.unwrap().head.status(), 400, "it is over");
}

/// Whoever opens the links to two servers at once comes to an end with both, in one browser.
#[tokio::test]
async fn two_links_in_one_browser_do_not_disturb_each_other() {
    let gateway = Gateway::start().await;
    let other = Server::start(&gateway.world.idp.as_ref().unwrap().issuer).await;
    let alice = gateway.principal("alice").await;
    let callback = format!("{}{}", gateway.world.url, Behind::CALLBACK);
    let (mut browser, mut begun) = (Browser::default(), Vec::new());
    for url in [&gateway.server.url, &other.url] {
        let spec = spec(url, ServerAuth::User(OauthClient::default()));
        let login = login(&gateway.behind, &alice, &spec);
        let link = needed(&*login, url).await;
        let stopped = open(&mut browser, &link.url, &callback, "alice").await;
        assert!(stopped.page.is_none(), "{:?} {:?}", stopped.page, stopped.trace);
        begun.push((url, login, stopped.url));
    }
    for (url, login, back) in begun {
        let page = browser.open(&back, None).await.unwrap();
        assert_eq!(page.head.status(), 200, "{}", page.text());
        assert_eq!(call(&*login, url).await, Ok(200));
    }
    let left = browser.cookies().filter(|(name, _)| name.starts_with("lb_person_") || name.starts_with("lb_tx_"));
    assert_eq!(left.count(), 0, "each cookie ends with its login");
}

#[tokio::test]
async fn a_program_with_a_key_is_told_that_a_person_is_wanted_and_authorization_servers_who_we_are() {
    let gateway = Gateway::start().await;
    let spec = spec(&gateway.server.url, ServerAuth::User(OauthClient::default()));
    let program = login(&gateway.behind, &Principal::named("key:ci"), &spec);
    let Err(LoginError::Failed(why)) = call(&*program, &gateway.server.url).await else { panic!("it is no person") };
    assert!(why.contains("wants a person") && why.contains("service"), "{why}");
    let url = url::Url::parse(&format!("{}{}", gateway.world.url, Behind::DOCUMENT)).unwrap();
    let answer = Browser::default().open(&url, None).await.unwrap();
    let document: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.head.status(), document["client_id"].as_str()), (200, Some(url.as_str())));
    assert_eq!(document["redirect_uris"], serde_json::json!([format!("{}{}", gateway.world.url, Behind::CALLBACK)]));
    assert_eq!(document["token_endpoint_auth_method"], "none");
}

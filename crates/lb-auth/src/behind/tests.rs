use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use lb_exchange::OauthClient;
use serde_json::json;

use super::discover::tests::{METADATA, RESOURCE, SERVER, metadata, resource, web};
use super::single::Single;
use super::*;
use crate::testing::{at, memory};
use crate::{Ask, FetchError};

struct Nobody;

impl Fetch for Nobody {
    fn fetch(&self, _: Ask) -> futures_util::future::BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        std::future::ready(Err(FetchError::Forbidden)).boxed()
    }
}

async fn behind(public_url: Option<&str>) -> Behind {
    let landing = Landing::At("http://127.0.0.1/cb".into());
    let settings = Settings { name: "landbridge".into(), public_url: public_url.map(str::to_owned), landing };
    Behind::new(settings, Ports { store: memory().await, reach: Arc::new(|_| Arc::new(Nobody)), people: None })
}

#[tokio::test]
async fn paths_are_answered_as_far_as_there_is_something_to_say() {
    let (nowhere, somewhere) = (behind(None).await, behind(Some("https://gw.test")).await);
    let get = |path: &str| Request::get(path).body(Bytes::new()).unwrap();
    for (path, without, with) in [
        ("/oauth/client.json", 404, 200),
        ("/oauth/style.css", 200, 200),
        ("/oauth/backend/start?id=x", 404, 404),
        ("/oauth/backend/callback", 400, 400),
        ("/oauth/backend/callback?state=a&state=b", 400, 400),
        ("/oauth/backend/callback?state=%ff", 400, 400),
        ("/elsewhere", 404, 404),
    ] {
        assert_eq!(nowhere.handle(&get(path), at(0)).await.status(), without, "{path}");
        assert_eq!(somewhere.handle(&get(path), at(0)).await.status(), with, "{path}");
    }
    let post = Request::post("/oauth/backend/callback").body(Bytes::new()).unwrap();
    assert_eq!(somewhere.handle(&post, at(0)).await.status(), 405);
    let document = somewhere.handle(&get("/oauth/client.json"), at(0)).await;
    let document: serde_json::Value = serde_json::from_slice(document.body()).unwrap();
    assert_eq!(document["client_id"], "https://gw.test/oauth/client.json");
    assert_eq!(document["application_type"], "web");
}

#[tokio::test]
async fn servers_without_a_login_have_none() {
    let behind = behind(None).await;
    let target = Target::http("https://files.test/mcp", Vec::new()).unwrap();
    let spec = ServerSpec::new(lb_exchange::ServerName::parse("files").unwrap(), target);
    let none = Arc::new(spec.clone());
    let alice = Principal::named("alice");
    assert!(behind.of(&alice, &none).is_none());
    assert!(matches!(behind.login(&alice, &none).await, Err(LoginError::Failed(_))));
    assert_eq!(behind.status(&alice, &[none]).await[0].state, State::None);
    let user = Arc::new(ServerSpec { auth: ServerAuth::User(lb_exchange::OauthClient::default()), ..spec });
    let login = behind.of(&alice, &user).unwrap();
    assert!(login.proof().await.unwrap().is_none());
    let Err(LoginError::Failed(why)) = behind.login(&alice, &user).await else { panic!("nobody can be asked") };
    assert!(why.contains("files.test: the address is not one that may be asked"), "{why}");
}

#[tokio::test]
async fn work_that_is_wanted_by_many_is_done_once_and_goes_on_when_nobody_waits() {
    let (single, tasks, count) = (Single::<usize>::default(), TaskTracker::new(), Arc::new(AtomicUsize::new(0)));
    let (open, opened) = tokio::sync::watch::channel(false);
    let work = || {
        let (count, mut opened) = (count.clone(), opened.clone());
        move || async move {
            let number = count.fetch_add(1, Ordering::SeqCst);
            opened.wait_for(|open| *open).await.unwrap();
            number
        }
    };
    let given_up = tokio::time::timeout(std::time::Duration::ZERO, single.run(&tasks, work())).await;
    assert!(given_up.is_err());
    let waiting = futures_util::future::join_all((0..50).map(|_| single.run(&tasks, work())));
    let (all, ()) = tokio::join!(waiting, async {
        open.send_replace(true);
    });
    assert!(all.iter().all(|number| *number == Some(0)), "{all:?}");
    assert_eq!(single.run(&tasks, work()).await, Some(1), "the next one begins anew");
    let broken = single.run(&tasks, || async { panic!("a test") }).await;
    assert_eq!((broken, single.run(&tasks, work()).await), (None, Some(2)));
}

#[tokio::test]
async fn we_are_who_the_operator_says_or_our_own_document_or_who_we_register_as() {
    let named = OauthClient { client_id: Some("named".into()), ..OauthClient::default() };
    let address = Some("https://docs.test/client.json".to_owned());
    let elsewhere = OauthClient { client_id_metadata_url: address, ..OauthClient::default() };
    let nobody = OauthClient::default();
    let registered = json!({"client_id": "registered", "redirect_uris": []});
    let https = Some("https://gw.test");
    for (client, takes_documents, public_url, want) in [
        (&named, true, https, "named"),
        (&elsewhere, true, https, "https://docs.test/client.json"),
        (&nobody, true, https, "https://gw.test/oauth/client.json"),
        (&nobody, false, https, "registered"),
        (&elsewhere, false, https, "registered"),
        // Nobody could read it.
        (&nobody, true, Some("http://127.0.0.1:1"), "registered"),
        // It does not say that people come back to where they do.
        (&nobody, true, None, "registered"),
    ] {
        let said = metadata(&json!({"client_id_metadata_document_supported": takes_documents}));
        let pages = web(&[
            (RESOURCE, 200, resource("https://as.test")),
            (METADATA, 200, said),
            ("https://as.test/register", 201, registered.clone()),
        ]);
        let (pages, bounds) = (Arc::new(pages), Arc::new(Mutex::new(Vec::new())));
        let landing = public_url.map_or("http://127.0.0.1/cb".into(), |url| format!("{url}{}", Behind::CALLBACK));
        let public_url = public_url.map(str::to_owned);
        let settings = Settings { name: "us".into(), public_url, landing: Landing::At(landing) };
        let asked = bounds.clone();
        let reach: Reach = Arc::new(move |bounds| {
            asked.lock().push(bounds);
            pages.clone()
        });
        let behind = Behind::new(settings, Ports { store: memory().await, reach, people: None });
        let auth = ServerAuth::User(client.clone());
        let name = lb_exchange::ServerName::parse("files").unwrap();
        let spec =
            ServerSpec { auth, bounds: Bounds::Public, ..ServerSpec::new(name, Target::http(SERVER, vec![]).unwrap()) };
        let link = behind.login(&Principal::named("alice"), &Arc::new(spec)).await.unwrap();
        let url = url::Url::parse(&link.url).unwrap();
        let of = |name: &str| url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
        assert_eq!(of("client_id").as_deref(), Some(want), "{client:?} {takes_documents}");
        assert_eq!(of("scope").as_deref(), Some("files offline_access"));
        assert_eq!((of("prompt").as_deref(), of("resource").as_deref()), (Some("consent"), Some(SERVER)));
        assert!(bounds.lock().iter().all(|asked| *asked == Bounds::Public), "nobody is asked who may not be");
    }
}

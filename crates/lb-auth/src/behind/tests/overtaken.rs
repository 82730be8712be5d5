//! Renewals during which something else happens.

use std::time::Duration;

use super::*;

/// Lets people log in at once, and renews once it is told to.
struct Busy {
    pages: discover::tests::Web,
    asked: tokio::sync::Notify,
    go_on: tokio::sync::Notify,
    renewed: AtomicUsize,
}

impl Busy {
    fn new() -> Arc<Self> {
        let pages = web(&[
            (RESOURCE, 200, resource("https://as.test")),
            (METADATA, 200, metadata(&json!({}))),
            ("https://as.test/register", 201, json!({"client_id": "us", "redirect_uris": []})),
        ]);
        Arc::new(Self { pages, asked: Default::default(), go_on: Default::default(), renewed: AtomicUsize::new(0) })
    }
}

impl Fetch for Busy {
    fn fetch(&self, ask: Ask) -> futures_util::future::BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        if ask.url.path() != "/token" {
            return self.pages.fetch(ask);
        }
        async move {
            let form = String::from_utf8_lossy(&ask.body).into_owned();
            let name = match form.contains("grant_type=refresh_token") {
                true => {
                    self.asked.notify_one();
                    self.go_on.notified().await;
                    format!("renewed{}", self.renewed.fetch_add(1, Ordering::SeqCst))
                }
                false => "anew".to_owned(),
            };
            let given = json!({"access_token": name, "refresh_token": form, "token_type": "Bearer", "expires_in": 60});
            Ok(Response::new(given.to_string().into()))
        }
        .boxed()
    }
}

/// A login of a while ago, which is to be renewed.
async fn ended(store: &Arc<dyn Store>, spec: &ServerSpec, number: u64) -> Credential {
    let whose = Whose::of(&Principal::named("alice"), spec).unwrap();
    let ended = SystemTime::now() - Duration::from_secs(120);
    let credential = Credential::new(terms(whose), given(60), number, ended);
    credential::keep(&**store, &credential).await.unwrap();
    credential
}

async fn kept(store: &Arc<dyn Store>, spec: &ServerSpec) -> Option<Credential> {
    let whose = Whose::of(&Principal::named("alice"), spec).unwrap();
    credential::load(&**store, &whose).await.unwrap().map(|kept| kept.credential)
}

async fn shown(login: &dyn Login) -> String {
    login.proof().await.unwrap().unwrap().value.expose().to_owned()
}

/// It ended after the login, so that its number was the larger one: the account of before was used for good.
#[tokio::test]
async fn who_logs_in_while_their_token_is_renewed_is_who_they_logged_in_as() {
    let (busy, store, spec) = (Busy::new(), memory().await, files(OauthClient::default()));
    let (alice, behind) = (Principal::named("alice"), node(&store, busy.clone(), SystemTime::now));
    ended(&store, &spec, 0).await;
    let login = behind.of(&alice, &spec).unwrap();
    let (renewed, ()) = tokio::join!(shown(&*login), async {
        busy.asked.notified().await;
        let link = behind.login(&alice, &spec).await.unwrap();
        let link = url::Url::parse(&link.url).unwrap();
        let state = link.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
        let came = format!("code=c&state={state}");
        let answer = behind.callback(&came, &http::HeaderMap::new(), SystemTime::now()).await;
        assert_eq!(answer.status(), 200, "{:?}", answer.body());
        busy.go_on.notify_one();
    });
    assert_eq!((renewed.as_str(), shown(&*login).await.as_str()), ("Bearer anew", "Bearer anew"));
    assert_eq!(kept(&store, &spec).await.unwrap().proof().value.expose(), "Bearer anew");
}

/// The same at another authorization server: the record of the one before is still there, and is not who they are.
#[tokio::test]
async fn who_logs_in_elsewhere_meanwhile_is_logged_in_there() {
    let (busy, store, spec) = (Busy::new(), memory().await, files(OauthClient::default()));
    let behind = node(&store, busy.clone(), SystemTime::now);
    ended(&store, &spec, 0).await;
    let login = behind.of(&Principal::named("alice"), &spec).unwrap();
    let (renewed, ()) = tokio::join!(shown(&*login), async {
        busy.asked.notified().await;
        let mut terms = terms(Whose::of(&Principal::named("alice"), &spec).unwrap());
        terms.issuer = "https://other.test".into();
        let other = Credential::new(terms, given(60), 0, SystemTime::now());
        credential::keep(&*store, &other).await.unwrap();
        busy.go_on.notify_one();
    });
    assert_eq!(renewed, "Bearer a1", "what the other one has given");
    assert_eq!(kept(&store, &spec).await.unwrap().issuer, "https://other.test");
}

/// A number is a time, and a clock may have been wrong.
#[tokio::test]
async fn another_login_counts_whatever_its_number() {
    static NOW: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1_000);
    fn clock() -> SystemTime {
        at(0) + Duration::from_secs(NOW.load(Ordering::SeqCst))
    }
    let (store, spec) = (memory().await, files(OauthClient::default()));
    let whose = Whose::of(&Principal::named("alice"), &spec).unwrap();
    let keep = async |access: &str, now: SystemTime| {
        let tokens = tokens::Tokens { access: access.into(), ..given(3_600) };
        credential::keep(&*store, &Credential::new(terms(whose.clone()), tokens, 0, now)).await.unwrap();
    };
    let behind = node(&store, Arc::new(web(&[])), clock);
    let login = behind.of(&Principal::named("alice"), &spec).unwrap();
    keep("first", clock() + Duration::from_secs(660)).await;
    assert_eq!(shown(&*login).await, "Bearer first");
    keep("second", clock()).await;
    NOW.fetch_add(5, Ordering::SeqCst);
    assert_eq!(shown(&*login).await, "Bearer second");
}

/// Another node has our turn, and nothing else is there: what was renewed is spent, and must not be lost.
#[tokio::test]
async fn what_is_renewed_after_the_turn_is_over_is_kept_all_the_same() {
    let (busy, store, spec) = (Busy::new(), memory().await, files(OauthClient::default()));
    let behind = node(&store, busy.clone(), SystemTime::now);
    ended(&store, &spec, 0).await;
    let login = behind.of(&Principal::named("alice"), &spec).unwrap();
    let (renewed, ()) = tokio::join!(shown(&*login), async {
        busy.asked.notified().await;
        let lock = Whose::of(&Principal::named("alice"), &spec).unwrap().key("lock").unwrap();
        store.delete(&lock).await.unwrap();
        store.claim(&lock, "another", Duration::from_secs(30)).await.unwrap();
        busy.go_on.notify_one();
    });
    behind.close().await;
    assert_eq!(renewed, "Bearer renewed0");
    assert_eq!(kept(&store, &spec).await.unwrap().proof().value.expose(), "Bearer renewed0");
}

/// A store with a clock of its own, which all nodes go by.
#[derive(Debug)]
struct Elsewhen(Arc<dyn Store>, Duration);

impl Store for Elsewhen {
    fn get<'a>(&'a self, key: &'a lb_store::Key) -> lb_store::Pending<'a, Option<Bytes>> {
        self.0.get(key)
    }

    fn apply(&self, batch: lb_store::Batch) -> lb_store::Pending<'_, lb_store::Applied> {
        self.0.apply(batch)
    }

    fn range<'a>(
        &'a self,
        key: &'a lb_store::Key,
        after: u64,
        limit: usize,
    ) -> lb_store::Pending<'a, Vec<(u64, Bytes)>> {
        self.0.range(key, after, limit)
    }

    fn scan(&self, prefix: &str) -> lb_store::Scan {
        self.0.scan(prefix)
    }

    fn publish<'a>(&'a self, channel: &'a lb_store::Key, message: Bytes) -> lb_store::Pending<'a, ()> {
        self.0.publish(channel, message)
    }

    fn subscribe<'a>(&'a self, channel: &'a lb_store::Key) -> lb_store::Pending<'a, lb_store::Subscription> {
        self.0.subscribe(channel)
    }

    fn ping(&self) -> lb_store::Pending<'_, ()> {
        self.0.ping()
    }

    fn time(&self) -> lb_store::Pending<'_, Option<SystemTime>> {
        std::future::ready(Ok(Some(SystemTime::now() - self.1))).boxed()
    }

    fn facts(&self) -> lb_store::Facts {
        self.0.facts()
    }
}

/// Its own clock is two hours fast: each login that is open looked as if it had ended long ago.
#[tokio::test]
async fn a_node_with_a_fast_clock_waits_for_a_person_and_judges_tokens_by_the_clock_of_all() {
    let store: Arc<dyn Store> = Arc::new(Elsewhen(memory().await, Duration::from_secs(7_200)));
    let idp = crate::testing::FakeIdp::new();
    let ports = crate::Ports { store: store.clone(), documents: Arc::new(Nobody), provider: idp };
    let people = crate::Auth::new(crate::testing::settings(), crate::testing::keys(), ports).unwrap();
    let landing = Landing::At(format!("https://gw.test{}", Behind::CALLBACK));
    let settings = Settings { name: "us".into(), public_url: Some("https://gw.test".into()), landing };
    let pages: Arc<dyn Fetch> = Busy::new();
    let reach: Reach = Arc::new(move |_| pages.clone());
    let behind = Behind::new(settings, Ports { store: store.clone(), reach, people: Some(Arc::new(people)) });
    let (ada, spec) = (Principal::named("u_ada"), files(OauthClient::default()));
    let open = behind.login(&ada, &spec).await.unwrap();
    let login = behind.of(&ada, &spec).unwrap();
    let waited = tokio::time::timeout(Duration::from_millis(100), login.ended(&open.id)).await;
    assert!(waited.is_err(), "a person has ten minutes");
    let now = SystemTime::now() - Duration::from_secs(7_200);
    let credential = Credential::new(terms(Whose::of(&ada, &spec).unwrap()), given(600), 0, now);
    credential::keep(&*store, &credential).await.unwrap();
    assert_eq!(shown(&*login).await, "Bearer a1", "it is good for ten minutes");
    // It is over once somebody says so, and not before.
    let pending = pending::find(&*store, &open.id, now).await.unwrap().unwrap();
    let (ended, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(10), login.ended(&open.id)), async {
        pending::end(&*store, &pending, None).await.unwrap();
    });
    ended.expect("it has ended");
}

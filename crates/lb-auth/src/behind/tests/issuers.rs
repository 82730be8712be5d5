//! To whom a secret of the operator goes.

use super::*;

const EVIL: &str = "https://evil.test/a/.well-known/b";

fn client(secret: &str) -> OauthClient {
    let (id, secret) = (Some("us".into()), Some(lb_exchange::Secret::new(secret)));
    OauthClient { client_id: id, client_secret: secret, ..OauthClient::default() }
}

/// The server as it was, and as it is once somebody has taken it over: it names a document that says of itself that it is
/// the issuer's of before.
fn honest() -> discover::tests::Web {
    let given = json!({"access_token": "a1", "token_type": "Bearer", "expires_in": 60});
    web(&[
        (RESOURCE, 200, resource("https://as.test")),
        (METADATA, 200, metadata(&json!({}))),
        ("https://as.test/token", 200, given),
    ])
}

fn taken_over() -> discover::tests::Web {
    let mut said = resource("https://as.test");
    said["authorization_servers"] = json!([EVIL, "https://as.test"]);
    let given = json!({"access_token": "evil", "token_type": "Bearer", "expires_in": 60});
    web(&[
        (RESOURCE, 200, said),
        // The page where people log in is the real one.
        (EVIL, 200, metadata(&json!({"token_endpoint": "https://evil.test/t"}))),
        (METADATA, 200, metadata(&json!({}))),
        ("https://evil.test/t", 200, given),
    ])
}

fn refused() -> lb_exchange::Refused {
    lb_exchange::Refused { status: 401, challenges: vec!["Bearer".into()], proof: None }
}

#[tokio::test]
async fn a_secret_does_not_go_where_a_document_of_a_stranger_says() {
    let (store, spec) = (memory().await, files(OauthClient::default()));
    let spec = Arc::new(ServerSpec { auth: ServerAuth::Service(client("s1")), ..(*spec).clone() });
    let ours = node(&store, Arc::new(honest()), SystemTime::now);
    let proof = ours.of(&Principal::named("alice"), &spec).unwrap().refused(refused()).await.unwrap();
    assert_eq!(proof.value.expose(), "Bearer a1");
    let evil = Arc::new(taken_over());
    let ours = node(&store, evil.clone(), SystemTime::now);
    let Err(LoginError::Failed(why)) = ours.of(&Principal::named("alice"), &spec).unwrap().refused(refused()).await
    else {
        panic!("it was shown")
    };
    assert!(why.contains("does not lie where that one would keep it"), "{why}");
    assert!(!evil.asked.lock().iter().any(|url| url == "https://evil.test/t"), "{:?}", evil.asked.lock());
}

/// The logins of people may be closed, in a session without a keyring. The gateway's own needs nobody's.
#[tokio::test]
async fn the_gateways_own_login_works_while_those_of_people_cannot_be_opened() {
    let closed = lb_store::Lazy::opened_by(|| {
        std::future::ready(Err(lb_store::Error::Refused("their key is in the keyring".into()))).boxed()
    });
    let spec = files(OauthClient::default());
    let spec = Arc::new(ServerSpec { auth: ServerAuth::Service(client("s1")), ..(*spec).clone() });
    let place = "https://evil.test/.well-known/oauth-authorization-server";
    let moved = metadata(&json!({"issuer": "https://evil.test", "token_endpoint": "https://evil.test/t"}));
    let evil = web(&[(RESOURCE, 200, resource("https://evil.test")), (place, 200, moved)]);
    let webs: [Arc<dyn Fetch>; 2] = [Arc::new(honest()), Arc::new(evil)];
    let (turn, at) = (Arc::new(AtomicUsize::new(0)), Landing::At("http://127.0.0.1/cb".into()));
    let asked = turn.clone();
    let reach: Reach = Arc::new(move |_| webs[asked.load(Ordering::SeqCst)].clone());
    let settings = Settings { name: "us".into(), public_url: None, landing: at };
    let behind = Behind::new(settings, Ports { store: closed, reach, people: None });
    let login = behind.of(&Principal::local(), &spec).unwrap();
    let proof = login.refused(refused()).await.unwrap();
    assert_eq!(proof.value.expose(), "Bearer a1");
    turn.store(1, Ordering::SeqCst);
    assert!(behind.logout(&Principal::local(), &spec).await.unwrap());
    let moved = login.refused(refused()).await;
    assert!(matches!(&moved, Err(LoginError::Failed(why)) if why.contains("first shown to")), "{moved:?}");
}

/// Their code would be good at the real server, for whoever has the verifier as well.
#[tokio::test]
async fn nobody_is_sent_to_a_login_whose_code_goes_to_a_stranger() {
    let behind = node(&memory().await, Arc::new(taken_over()), SystemTime::now);
    let begun = behind.login(&Principal::named("alice"), &files(OauthClient::default())).await;
    assert!(matches!(&begun, Err(LoginError::Failed(why)) if why.contains("does not lie where")), "{begun:?}");
}

#[tokio::test]
async fn a_secret_is_shown_where_tokens_were_made_when_it_was_first_shown() {
    let store = memory().await;
    let said = |address: &str| {
        let pages = [
            (RESOURCE, 200, resource("https://as.test")),
            (METADATA, 200, metadata(&json!({"token_endpoint": address}))),
        ];
        node(&store, Arc::new(web(&pages)), SystemTime::now)
    };
    let alice = Principal::named("alice");
    said("https://tokens.as.test/token").login(&alice, &files(client("s1"))).await.unwrap();
    said("https://tokens.as.test/v2/token").login(&Principal::named("bob"), &files(client("s1"))).await.unwrap();
    let begun = said("https://evil.test/t").login(&Principal::named("carol"), &files(client("s1"))).await;
    assert!(matches!(&begun, Err(LoginError::Failed(why)) if why.contains("first shown to")), "{begun:?}");
}

/// Gives tokens to whoever asks, and notes with which secret they did.
struct Rotated {
    pages: discover::tests::Web,
    shown: Mutex<Vec<(String, String)>>,
}

impl Fetch for Rotated {
    fn fetch(&self, ask: Ask) -> futures_util::future::BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        if ask.method == http::Method::POST {
            self.shown.lock().push((ask.url.to_string(), String::from_utf8_lossy(&ask.body).into_owned()));
        }
        self.pages.fetch(ask)
    }
}

/// What an operator sets because the one before was seen by somebody is not seen by them, too.
#[tokio::test]
async fn a_new_secret_is_not_shown_to_who_made_the_tokens_of_before() {
    let given = json!({"access_token": "a2", "token_type": "Bearer", "expires_in": 3_600});
    let pages = web(&[
        (RESOURCE, 200, resource("https://as.test")),
        (METADATA, 200, metadata(&json!({}))),
        ("https://as.test/token", 200, given.clone()),
        ("https://evil.test/token", 200, given),
    ]);
    let (store, rotated) = (memory().await, Arc::new(Rotated { pages, shown: Mutex::default() }));
    let behind = node(&store, rotated.clone(), SystemTime::now);
    let ended = SystemTime::now() - std::time::Duration::from_secs(120);
    let kept = async |who: &str, issuer: &str| {
        let (alice, spec) = (Principal::named(who), files(client("s2")));
        let mut terms = terms(Whose::of(&alice, &spec).unwrap());
        (terms.issuer, terms.token_endpoint) = (issuer.into(), format!("{issuer}/token"));
        terms.client.secret = Some("s1".into());
        credential::keep(&*store, &Credential::new(terms, given_tokens(), 0, ended)).await.unwrap();
        behind.of(&alice, &spec).unwrap().proof().await
    };
    // Where the secret is new, and so is not bound to anybody, and where it is.
    for who in ["alice", "bob"] {
        let asked = kept(who, "https://evil.test").await;
        assert!(matches!(asked, Err(LoginError::Needed(_))), "{who}: {asked:?}");
        // An honest one is asked with it, without anybody's doing.
        assert_eq!(kept(who, "https://as.test").await.unwrap().unwrap().value.expose(), "Bearer a2", "{who}");
    }
    let shown = rotated.shown.lock().clone();
    assert!(shown.iter().all(|(url, _)| url == "https://as.test/token"), "{shown:?}");
    assert!(shown.len() == 2 && shown.iter().all(|(_, form)| form.contains("client_secret=s2")), "{shown:?}");
    let spec = files(client("s2"));
    let alice =
        credential::load(&*store, &Whose::of(&Principal::named("alice"), &spec).unwrap()).await.unwrap().unwrap();
    assert_eq!(alice.credential.client.secret.as_deref(), Some("s2"), "a logout shows the one that is good");
}

fn given_tokens() -> tokens::Tokens {
    given(60)
}

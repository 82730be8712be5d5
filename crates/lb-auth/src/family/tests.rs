mod again;

use std::time::UNIX_EPOCH;

use futures_util::future::join_all;

use super::*;
use crate::token::verify;

const ISSUER: &str = "https://gw.test";
const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters";
const REDIRECT: &str = "http://127.0.0.1:1/cb";

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

fn keys() -> Arc<Keys> {
    Arc::new(Keys::new(b"0123456789abcdef-the-first-key-of-ours", None).unwrap())
}

async fn store() -> Arc<dyn Store> {
    lb_store::open(&lb_store::Settings::parse("memory").unwrap()).await.unwrap()
}

async fn families() -> Families {
    Families::new(store().await, keys(), ISSUER)
}

fn granted() -> Granted {
    Granted {
        login: Login { principal: "u_1".into(), subject: "alice".into(), domain: None, groups: vec![] },
        client: "mcp_1".into(),
        scopes: Scopes::usual(),
        resources: vec!["https://gw.test/mcp".into(), "https://gw.test/mcp/native".into()],
        refreshes: true,
        challenge: Hash::of(VERIFIER.as_bytes()).base64(),
        redirect_uri: REDIRECT.into(),
    }
}

const PROOF: Proof<'static> = Proof { verifier: Some(VERIFIER), redirect_uri: Some(REDIRECT) };
const ASKED: Asked<'static> = Asked { client: "mcp_1", resources: &[], scopes: None };

fn claims(issued: &Issued, now: SystemTime) -> Claims {
    verify(&keys(), ISSUER, &issued.access_token, now).unwrap()
}

async fn is_good(families: &Families, issued: &Issued, now: SystemTime) -> bool {
    families.check(&claims(issued, now), now).await.unwrap().is_some()
}

fn next(issued: &Issued) -> &str {
    issued.refresh_token.as_deref().unwrap()
}

async fn begun(families: &Families) -> Issued {
    let code = families.begin(granted(), at(0)).await.unwrap();
    families.redeem(code.expose(), PROOF, ASKED, at(1)).await.unwrap()
}

#[tokio::test]
async fn a_code_becomes_tokens_once_and_a_second_use_ends_them() {
    let families = families().await;
    let code = families.begin(granted(), at(0)).await.unwrap();
    let issued = families.redeem(code.expose(), PROOF, ASKED, at(59)).await.unwrap();
    assert!(is_good(&families, &issued, at(59)).await);
    assert_eq!(claims(&issued, at(59)).aud, "https://gw.test/mcp");
    assert_eq!(issued.expires, 1_000_000 + 59 + 900);
    let again = families.redeem(code.expose(), PROOF, ASKED, at(59)).await;
    assert!(matches!(again, Err(GrantError::Invalid)));
    assert!(!is_good(&families, &issued, at(59)).await);
    assert!(matches!(families.refresh(next(&issued), ASKED, at(60)).await, Err(GrantError::Invalid)));
}

#[tokio::test]
async fn a_code_is_used_up_by_every_attempt() {
    let verifier = "another-verifier-of-at-least-forty-three-chars";
    let wrong: &[(&str, Proof<'_>, Asked<'_>, u64)] = &[
        ("no verifier", Proof { verifier: None, ..PROOF }, ASKED, 1),
        ("an empty verifier", Proof { verifier: Some(""), ..PROOF }, ASKED, 1),
        ("another verifier", Proof { verifier: Some(verifier), ..PROOF }, ASKED, 1),
        ("another address", Proof { redirect_uri: Some("http://127.0.0.1:2/cb"), ..PROOF }, ASKED, 1),
        ("another client", PROOF, Asked { client: "mcp_2", ..ASKED }, 1),
        ("a foreign resource", PROOF, Asked { resources: &["https://evil.test/mcp"], ..ASKED }, 1),
        ("too late", PROOF, ASKED, 60),
    ];
    for (name, proof, asked, when) in wrong {
        let families = families().await;
        let code = families.begin(granted(), at(0)).await.unwrap();
        assert!(families.redeem(code.expose(), *proof, *asked, at(*when)).await.is_err(), "{name}");
        assert!(families.redeem(code.expose(), PROOF, ASKED, at(1)).await.is_err(), "{name}, then right");
    }
}

#[tokio::test]
async fn a_challenge_as_its_own_verifier_is_not_enough() {
    let families = families().await;
    let granted = Granted { challenge: VERIFIER.into(), ..granted() };
    let code = families.begin(granted, at(0)).await.unwrap();
    assert!(families.redeem(code.expose(), PROOF, ASKED, at(1)).await.is_err());
}

#[tokio::test]
async fn whoever_knows_the_name_of_a_family_cannot_end_it() {
    let families = families().await;
    let issued = begun(&families).await;
    let id = parts::family(&claims(&issued, at(1)).fam).unwrap();
    let made_up = parts::code(&id, &[7; 32]);
    assert!(families.redeem(made_up.expose(), PROOF, ASKED, at(1)).await.is_err());
    let other = Keys::new(b"fedcba9876543210-the-other-key-of-ours", None).unwrap();
    let made_up = parts::refresh(&other, &id, &[7; 32]);
    assert!(families.refresh(made_up.expose(), ASKED, at(1)).await.is_err());
    families.revoke_refresh(made_up.expose(), "mcp_1", at(1)).await.unwrap();
    assert!(is_good(&families, &issued, at(1)).await);
}

#[tokio::test]
async fn codes_access_tokens_and_refresh_tokens_are_not_taken_for_one_another() {
    let families = families().await;
    let code = families.begin(granted(), at(0)).await.unwrap();
    assert!(families.refresh(code.expose(), ASKED, at(1)).await.is_err());
    let issued = families.redeem(code.expose(), PROOF, ASKED, at(1)).await.unwrap();
    for token in [next(&issued), issued.access_token.as_str()] {
        assert!(families.redeem(token, PROOF, ASKED, at(1)).await.is_err());
    }
    for token in [code.expose(), issued.access_token.as_str(), "", "lbr_", "lbr_AAAA"] {
        assert!(families.refresh(token, ASKED, at(1)).await.is_err());
    }
    assert!(is_good(&families, &issued, at(1)).await);
}

#[tokio::test]
async fn refreshing_goes_on_after_the_access_token_is_over_and_turns_everything() {
    let families = families().await;
    let first = begun(&families).await;
    let second = families.refresh(next(&first), ASKED, at(5_000)).await.unwrap();
    assert_ne!(first.refresh_token, second.refresh_token);
    assert!(is_good(&families, &second, at(5_000)).await);
    let narrow = Scopes::parse("mcp:read").unwrap();
    let asked = Asked { scopes: Some(&narrow), resources: &["https://gw.test/mcp/native"], ..ASKED };
    let third = families.refresh(next(&second), asked, at(5_100)).await.unwrap();
    assert_eq!(
        (third.scope.to_string(), claims(&third, at(5_100)).aud),
        ("mcp:read".into(), "https://gw.test/mcp/native".into())
    );
    // The epoch before is good for a moment, for calls that are on their way.
    assert!(is_good(&families, &second, at(5_105)).await);
    assert!(!is_good(&families, &second, at(5_111)).await);
    let wide = Scopes::parse("mcp:admin").unwrap();
    let asked = Asked { scopes: Some(&wide), ..ASKED };
    assert!(matches!(families.refresh(next(&third), asked, at(5_200)).await, Err(GrantError::Scope)));
    let asked = Asked { resources: &["https://gw.test/mcp/server/x"], ..ASKED };
    assert!(matches!(families.refresh(next(&third), asked, at(5_200)).await, Err(GrantError::Resource)));
    let asked = Asked { client: "mcp_2", ..ASKED };
    assert!(matches!(families.refresh(next(&third), asked, at(5_200)).await, Err(GrantError::Invalid)));
    let fourth = families.refresh(next(&third), ASKED, at(5_200)).await.unwrap();
    assert_eq!(fourth.scope, Scopes::usual(), "a narrow token does not narrow the family");
}

#[tokio::test]
async fn a_family_ends_when_it_rests_and_when_it_is_old() {
    let families = families().await;
    let mut issued = begun(&families).await;
    let day = 86_400;
    for n in 1..=5 {
        issued = families
            .refresh(next(&issued), ASKED, at(n * 6 * day))
            .await
            .unwrap_or_else(|error| panic!("{n}: {error}"));
        if n == 4 {
            break;
        }
    }
    let last = families.refresh(next(&issued), ASKED, at(30 * day - 10)).await.unwrap();
    assert_eq!(last.expires, 1_000_000 + 30 * day, "no token outlives its family");
    assert!(families.refresh(next(&last), ASKED, at(30 * day)).await.is_err());
    let other = self::families().await;
    let rested = begun(&other).await;
    assert!(other.refresh(next(&rested), ASKED, at(7 * day + 1)).await.is_err());
}

#[tokio::test]
async fn tokens_are_good_for_as_long_as_the_operator_says() {
    let lives = Lives { access: Duration::from_secs(60), refresh: Duration::from_secs(300), ..Lives::default() };
    let families = families().await.with_lives(lives);
    let issued = begun(&families).await;
    assert_eq!(issued.expires, 1_000_000 + 1 + 60);
    let second = families.refresh(next(&issued), ASKED, at(300)).await.unwrap();
    assert!(families.refresh(next(&second), ASKED, at(601)).await.is_err(), "it rested too long");
    let alone = families.begin(Granted { refreshes: false, ..granted() }, at(0)).await.unwrap();
    let alone = families.redeem(alone.expose(), PROOF, ASKED, at(1)).await.unwrap();
    assert!(alone.refresh_token.is_none() && is_good(&families, &alone, at(60)).await);
}

#[tokio::test]
async fn an_answer_that_was_lost_is_given_again_until_it_has_arrived() {
    let families = families().await;
    let first = begun(&families).await;
    let second = families.refresh(next(&first), ASKED, at(100)).await.unwrap();
    assert_eq!(families.refresh(next(&first), ASKED, at(109)).await.unwrap(), second);
    assert!(is_good(&families, &second, at(109)).await);
    // It has arrived, so whoever sends the old one is somebody else.
    assert!(families.refresh(next(&first), ASKED, at(109)).await.is_err());
    assert!(!is_good(&families, &second, at(109)).await);
}

#[tokio::test]
async fn a_spent_refresh_token_ends_the_family() {
    let families = families().await;
    let first = begun(&families).await;
    let second = families.refresh(next(&first), ASKED, at(100)).await.unwrap();
    assert!(families.refresh(next(&first), ASKED, at(110)).await.is_err(), "the leeway is over");
    assert!(families.refresh(next(&second), ASKED, at(111)).await.is_err());
    assert!(!is_good(&families, &second, at(111)).await);
    // The same when the thief was first and the successor was used.
    let first = begun(&families).await;
    let second = families.refresh(next(&first), ASKED, at(100)).await.unwrap();
    let third = families.refresh(next(&second), ASKED, at(101)).await.unwrap();
    assert!(families.refresh(next(&first), ASKED, at(102)).await.is_err());
    assert!(!is_good(&families, &third, at(102)).await);
}

#[tokio::test]
async fn one_access_token_or_all_can_be_given_back() {
    let families = families().await;
    let first = begun(&families).await;
    let given = claims(&first, at(1));
    families.revoke_access(&given, "mcp_2", at(1)).await.unwrap();
    assert!(is_good(&families, &first, at(1)).await, "another client may not");
    families.revoke_access(&given, "mcp_1", at(1)).await.unwrap();
    assert!(!is_good(&families, &first, at(1)).await);
    let second = families.refresh(next(&first), ASKED, at(2)).await.unwrap();
    assert!(is_good(&families, &second, at(2)).await);
    families.revoke_refresh(next(&second), "mcp_2", at(2)).await.unwrap();
    assert!(is_good(&families, &second, at(2)).await);
    families.revoke_refresh(next(&second), "mcp_1", at(2)).await.unwrap();
    assert!(!is_good(&families, &second, at(2)).await);
    assert!(families.living(&given.fam, at(2)).await.unwrap().is_none());
}

#[tokio::test]
async fn another_node_hears_of_the_end_within_five_seconds_and_of_a_refresh_at_once() {
    let store = store().await;
    let (here, there) = (Families::new(store.clone(), keys(), ISSUER), Families::new(store, keys(), ISSUER));
    let first = begun(&here).await;
    assert!(is_good(&there, &first, at(10)).await);
    let second = here.refresh(next(&first), ASKED, at(11)).await.unwrap();
    assert!(is_good(&there, &second, at(12)).await);
    here.revoke_refresh(next(&second), "mcp_1", at(12)).await.unwrap();
    assert!(!is_good(&here, &second, at(12)).await);
    assert!(!is_good(&there, &second, at(17)).await);
    assert!(there.living(&claims(&second, at(12)).fam, at(17)).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_hundred_who_redeem_at_once_one_wins_and_its_tokens_die() {
    let store = store().await;
    let nodes = [Families::new(store.clone(), keys(), ISSUER), Families::new(store, keys(), ISSUER)].map(Arc::new);
    for _ in 0..20 {
        let code = nodes[0].begin(granted(), at(0)).await.unwrap();
        let tries = (0..100).map(|n| {
            let (node, code) = (nodes[n % 2].clone(), code.clone());
            tokio::task::spawn_blocking(move || {
                let redeem = node.redeem(code.expose(), PROOF, ASKED, at(1));
                tokio::runtime::Handle::current().block_on(redeem)
            })
        });
        let results: Vec<_> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
        let won: Vec<&Issued> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
        assert_eq!(won.len(), 1);
        assert!(results.iter().all(|result| matches!(result, Ok(_) | Err(GrantError::Invalid))));
        for node in &nodes {
            assert!(!is_good(node, won[0], at(7)).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_refreshes_at_once_leave_one_family() {
    let store = store().await;
    let nodes = [Families::new(store.clone(), keys(), ISSUER), Families::new(store, keys(), ISSUER)].map(Arc::new);
    let first = begun(&nodes[0]).await;
    let tries = (0..50).map(|n| {
        let (node, token) = (nodes[n % 2].clone(), next(&first).to_owned());
        tokio::task::spawn_blocking(move || {
            tokio::runtime::Handle::current().block_on(node.refresh(&token, ASKED, at(100)))
        })
    });
    let answers: Vec<Issued> = join_all(tries).await.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "all get the same answer");
    assert!(is_good(&nodes[0], &answers[0], at(101)).await);
    assert!(nodes[1].refresh(next(&answers[0]), ASKED, at(102)).await.is_ok());
}

#[tokio::test]
async fn nothing_that_could_be_used_is_kept() {
    let store = store().await;
    let families = Families::new(store.clone(), keys(), ISSUER);
    let code = families.begin(granted(), at(0)).await.unwrap();
    let first = families.redeem(code.expose(), PROOF, ASKED, at(1)).await.unwrap();
    let second = families.refresh(next(&first), ASKED, at(2)).await.unwrap();
    let key = Key::parse(&format!("fam:{{{}}}", claims(&second, at(2)).fam)).unwrap();
    let kept = String::from_utf8(store.get(&key).await.unwrap().unwrap().to_vec()).unwrap();
    for secret in [code.expose(), next(&first), next(&second), second.access_token.as_str()] {
        assert!(!kept.contains(secret.get(10..).unwrap()), "{kept}");
    }
}

/// Every kind of store in this process, sealed and not.
async fn stores(folder: &std::path::Path) -> Vec<Arc<dyn Store>> {
    let seal = lb_store::SealKeys::new(&[b"a-key-for-the-seals-of-this-one-test"]).ok();
    let mut stores = Vec::new();
    for (name, seal) in [("plain", None), ("sealed", seal)] {
        let disk = lb_store::Place::Disk(folder.join(name));
        for place in [lb_store::Place::Memory, disk] {
            let settings = lb_store::Settings { seal: seal.clone(), ..lb_store::Settings::new(place) };
            stores.push(lb_store::open(&settings).await.unwrap());
        }
    }
    stores
}

#[tokio::test]
async fn every_store_holds_a_family_together() {
    let folder = tempfile::tempdir().unwrap();
    for store in stores(folder.path()).await {
        let nodes = [Families::new(store.clone(), keys(), ISSUER), Families::new(store.clone(), keys(), ISSUER)];
        let code = nodes[0].begin(granted(), at(0)).await.unwrap();
        let tries = join_all((0..20).map(|n| nodes[n % 2].redeem(code.expose(), PROOF, ASKED, at(1)))).await;
        assert_eq!(tries.iter().filter(|result| result.is_ok()).count(), 1, "{:?}", store.facts().kind);
        let first = begun(&nodes[0]).await;
        let answers = join_all((0..20).map(|n| nodes[n % 2].refresh(next(&first), ASKED, at(2)))).await;
        let second = answers[0].as_ref().unwrap();
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer == second)));
        assert!(is_good(&nodes[1], second, at(3)).await);
        assert!(nodes[1].refresh(next(&first), ASKED, at(4)).await.is_err());
        assert!(!is_good(&nodes[0], second, at(9)).await);
    }
}

/// What a store that fails over has when it did not hear the last words.
async fn kept(store: &Arc<dyn Store>, issued: &Issued) -> (Key, Bytes) {
    let key = key(&parts::family(&claims(issued, at(1)).fam).unwrap()).unwrap();
    let bytes = store.get(&key).await.unwrap().unwrap();
    (key, bytes)
}

#[tokio::test]
async fn a_rotation_that_the_store_has_lost_brings_no_token_back() {
    let store = store().await;
    let families = || Families::new(store.clone(), keys(), ISSUER);
    let here = families();
    let first = begun(&here).await;
    let (key, before) = kept(&store, &first).await;
    let lost = here.refresh(next(&first), ASKED, at(100)).await.unwrap();
    store.set(&key, before.clone(), REFRESH_LIFE).await.unwrap();
    assert!(!is_good(&families(), &lost, at(101)).await, "the store does not know it");
    let second = families().refresh(next(&first), ASKED, at(100)).await.unwrap();
    assert_ne!(second.access_token, lost.access_token);
    assert!(is_good(&families(), &second, at(101)).await);
    assert!(!is_good(&families(), &lost, at(101)).await, "also with the same time it is not the token of the family");
    // Whoever has the lost one logs in again, and so does whoever went on without it.
    assert!(matches!(families().refresh(next(&lost), ASKED, at(120)).await, Err(GrantError::Invalid)));
    assert!(!is_good(&families(), &second, at(120)).await);
    assert!(families().refresh(next(&second), ASKED, at(120)).await.is_err());
}

#[tokio::test]
async fn a_node_that_knows_of_a_refresh_believes_no_store_that_does_not() {
    let store = store().await;
    let (here, there) = (Families::new(store.clone(), keys(), ISSUER), Families::new(store.clone(), keys(), ISSUER));
    let first = begun(&here).await;
    let (key, before) = kept(&store, &first).await;
    let lost = here.refresh(next(&first), ASKED, at(100)).await.unwrap();
    store.set(&key, before, REFRESH_LIFE).await.unwrap();
    // What was spent is not good again: it may have been stolen before.
    assert!(matches!(here.refresh(next(&first), ASKED, at(130)).await, Err(GrantError::Invalid)));
    for token in [&first, &lost] {
        assert!(!is_good(&here, token, at(130)).await && !is_good(&there, token, at(130)).await);
    }
    assert!(store.get(&key).await.unwrap().is_none(), "a person logs in again");
}

#[tokio::test]
async fn what_was_ended_here_stays_so_when_the_store_has_lost_it() {
    let store = store().await;
    let (here, there) = (Families::new(store.clone(), keys(), ISSUER), Families::new(store.clone(), keys(), ISSUER));
    let first = begun(&here).await;
    let (key, before) = kept(&store, &first).await;
    here.revoke_refresh(next(&first), "mcp_1", at(2)).await.unwrap();
    store.set(&key, before, REFRESH_LIFE).await.unwrap();
    assert!(!is_good(&here, &first, at(3)).await);
    assert!(here.refresh(next(&first), ASKED, at(3)).await.is_err());
    here.tend(at(3)).await.unwrap();
    assert!(store.get(&key).await.unwrap().is_some(), "while the store is what it was, nothing is done twice");
    here.tend_in(1, at(3)).await.unwrap();
    assert!(!is_good(&there, &first, at(4)).await, "it is ended once more for everybody");
    assert!(store.get(&key).await.unwrap().is_none());

    let code = here.begin(granted(), at(0)).await.unwrap();
    let first = here.redeem(code.expose(), PROOF, ASKED, at(1)).await.unwrap();
    let (key, before) = kept(&store, &first).await;
    here.revoke_access(&claims(&first, at(2)), "mcp_1", at(2)).await.unwrap();
    store.set(&key, before, REFRESH_LIFE).await.unwrap();
    here.cache.forget(&parts::family(&claims(&first, at(2)).fam).unwrap());
    assert!(!is_good(&here, &first, at(3)).await);
}

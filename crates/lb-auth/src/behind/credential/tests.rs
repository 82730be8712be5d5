use std::sync::Arc;

use super::super::tokens::Shows;
use super::*;
use crate::testing::{at, memory};

fn whose(principal: &str) -> Whose {
    Whose { principal: principal.into(), server: "files".into(), url: "https://files.test/mcp?key=hidden".into() }
}

fn tokens(life: Option<u64>) -> Tokens {
    let (access, refresh) = ("access-secret".to_owned(), Some("refresh-secret".to_owned()));
    Tokens { access, refresh, life: life.map(Duration::from_secs), scopes: None }
}

fn credential(principal: &str, life: Option<u64>) -> Credential {
    let secret = Some("client-secret".to_owned());
    let terms = Terms {
        whose: whose(principal),
        issuer: "https://as.test".into(),
        client: Client { id: "us".into(), secret, shows: Shows::Basic, registered: false },
        token_endpoint: "https://as.test/token".into(),
        revocation_endpoint: None,
        resource: "https://files.test/mcp".into(),
        scopes: vec!["files".into()],
        steps: Steps::default(),
    };
    Credential::new(terms, tokens(life), 0, at(0))
}

#[test]
fn a_token_is_renewed_before_it_ends_and_not_long_before() {
    for (life, due_after, ends_after) in [(2, 1_800, 2_000), (300, 270_000, 300_000), (86_400, 86_370_000, 86_400_000)]
    {
        let credential = credential("alice", Some(life));
        let after = |milliseconds: u64| at(0) + Duration::from_millis(milliseconds);
        assert!(!credential.is_due(after(due_after - 1)), "{life}");
        assert!(credential.is_due(after(due_after)) && credential.is_alive(after(due_after)), "{life}");
        assert!(credential.is_alive(after(ends_after - 1)) && !credential.is_alive(after(ends_after)), "{life}");
    }
    let endless = credential("alice", None);
    assert!(!endless.is_due(at(1_000_000)) && endless.is_alive(at(1_000_000)));
}

#[test]
fn the_next_token_keeps_what_it_does_not_replace_and_its_number_grows_whatever_the_clock_does() {
    let first = credential("alice", Some(2));
    let next = first.renewed(Tokens { refresh: None, ..tokens(Some(2)) }, true, at(0) - Duration::from_secs(60));
    assert_eq!((next.refresh.as_deref(), next.number), (Some("refresh-secret"), first.number + 1));
    assert_eq!((next.scopes.clone(), next.after_refusal), (vec!["files".to_owned()], true));
    let later = next.renewed(tokens(Some(2)), false, at(100));
    assert!(next.number + 1 < later.number, "a number of this time, so that it grows over a logout, too");
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!("{:?}", credential("alice", None));
    assert!(!shown.contains("secret") && !shown.contains("hidden"), "{shown}");
}

#[test]
fn a_server_may_want_more_twice_in_an_hour() {
    let mut steps = Steps::default();
    for _ in 0..2 {
        steps = steps.next(at(0)).unwrap();
    }
    assert_eq!(steps.next(at(3_600)), None);
    assert!(steps.next(at(3_601)).is_some());
}

#[test]
fn no_two_have_the_same_place() {
    let of = |principal: &str, server: &str, url: &str| {
        Whose { principal: principal.into(), server: server.into(), url: url.into() }.key("at").unwrap()
    };
    let all = [of("a", "bc", "d"), of("ab", "c", "d"), of("a", "b", "cd"), of("a", "bc", "e"), of("", "abc", "d")];
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
    let alice = whose("alice");
    assert_ne!(alice.record("https://a.test").unwrap(), alice.record("https://a.test/").unwrap());
}

#[tokio::test]
async fn a_record_in_a_place_that_is_not_its_own_is_nothing_also_where_nothing_is_sealed() {
    let store: Arc<dyn Store> = memory().await;
    let (hers, his) = (credential("alice", Some(60)), credential("bob", Some(60)));
    keep(&*store, &hers).await.unwrap();
    keep(&*store, &his).await.unwrap();
    assert_eq!(load(&*store, &his.whose).await.unwrap().unwrap().credential, his);
    let bytes = store.get(&hers.whose.record(&hers.issuer).unwrap()).await.unwrap().unwrap();
    store.set(&his.whose.record(&his.issuer).unwrap(), bytes.clone(), LIFE).await.unwrap();
    assert!(load(&*store, &his.whose).await.unwrap().is_none(), "hers in his place");
    store.set(&hers.whose.record("https://evil.test").unwrap(), bytes, LIFE).await.unwrap();
    store.set(&hers.whose.key("at").unwrap(), "https://evil.test", LIFE).await.unwrap();
    assert!(load(&*store, &hers.whose).await.unwrap().is_none(), "of another issuer");
}

#[tokio::test]
async fn only_who_holds_the_lock_and_knows_what_it_replaces_replaces() {
    let store: Arc<dyn Store> = memory().await;
    let first = credential("alice", Some(60));
    keep(&*store, &first).await.unwrap();
    let kept = load(&*store, &first.whose).await.unwrap().unwrap();
    let lock = first.whose.key("lock").unwrap();
    let ttl = Duration::from_secs(30);
    let lb_store::Claimed::Ours(stale) = store.claim(&lock, "one", ttl).await.unwrap() else { panic!("it is free") };
    store.release(&lock, &stale).await.unwrap();
    let lb_store::Claimed::Ours(claim) = store.claim(&lock, "other", ttl).await.unwrap() else { panic!("it is free") };
    let next = first.renewed(tokens(Some(60)), false, at(1));
    assert!(!replace(&*store, &kept, &next, &stale).await.unwrap(), "another one renews by now");
    assert!(replace(&*store, &kept, &next, &claim).await.unwrap());
    let again = first.renewed(tokens(Some(60)), false, at(2));
    assert!(!replace(&*store, &kept, &again, &claim).await.unwrap(), "it was replaced already");
    forget(&*store, &kept).await.unwrap();
    assert_eq!(load(&*store, &first.whose).await.unwrap().unwrap().credential, next, "what is newer is not forgotten");
}

/// A server that forgets what it took, or whose clock is ahead, gets the next one: only what was never any good is given up.
#[test]
fn a_token_that_was_good_for_a_while_is_renewed_after_a_refusal_whyever_it_was_made() {
    for (life, new_for) in [(Some(2), 1), (Some(300), 60), (Some(60), 30), (None, 60)] {
        let made = credential("alice", life);
        assert!(!made.is_no_use(at(0)), "nobody has refused anything");
        let next = made.renewed(tokens(life), true, at(0));
        let last = at(new_for) - Duration::from_millis(1);
        assert!(next.is_no_use(at(0)) && next.is_no_use(last) && !next.is_no_use(at(new_for)), "{life:?}");
        assert!(next.is_alive(at(new_for)));
    }
}

/// Where somebody has logged in since was forgotten with what they had at another issuer.
#[tokio::test]
async fn forgetting_what_one_issuer_gave_keeps_what_another_gave_since() {
    let store: Arc<dyn Store> = memory().await;
    let first = credential("alice", Some(60));
    keep(&*store, &first).await.unwrap();
    let kept = load(&*store, &first.whose).await.unwrap().unwrap();
    let second = Credential { issuer: "https://other.test".into(), ..credential("alice", Some(60)) };
    keep(&*store, &second).await.unwrap();
    forget(&*store, &kept).await.unwrap();
    assert_eq!(load(&*store, &first.whose).await.unwrap().unwrap().credential, second);
    assert_eq!(store.get(&first.whose.record(&first.issuer).unwrap()).await.unwrap(), None);
}

#[test]
fn a_record_of_before_logins_were_told_apart_is_read() {
    let now = credential("alice", Some(60));
    let mut written: serde_json::Value = serde_json::from_slice(&now.bytes().unwrap()).unwrap();
    written.as_object_mut().unwrap().remove("login").unwrap();
    let read = Credential::read(written.to_string().as_bytes(), &now.whose, &now.issuer).unwrap();
    assert!(now.replaces(&read.mark()) && read.replaces(&now.mark()) && !read.replaces(&read.mark()));
}

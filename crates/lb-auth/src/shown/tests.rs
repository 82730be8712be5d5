use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::People;
use crate::family::{Granted, Login, State};
use crate::token::mint;
use crate::token::tests::{ISSUER, claims, keys};

fn record(subject: &str) -> Arc<Record> {
    let login = Login { principal: "u_1".into(), subject: subject.into(), domain: None, groups: vec![] };
    let granted = Granted {
        login,
        client: "mcp_1".into(),
        scopes: Scopes::usual(),
        resources: vec![],
        refreshes: true,
        challenge: String::new(),
        redirect_uri: String::new(),
    };
    Arc::new(Record { granted, made: 1_000, state: State::Code { hash: Hash::of(b""), until: 1_060 } })
}

fn admins(subject: &str) -> Arc<Rules> {
    Arc::new(Rules { admins: People { subjects: vec![subject.into()], ..People::default() }, ..Rules::default() })
}

#[test]
fn a_token_that_was_read_before_is_held_to_its_time_all_the_same_and_others_are_not_taken_for_it() {
    let shown = Shown::default();
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let is_read = |token: &str| shown.read(&keys(), token, Hash::of(token.as_bytes())).is_ok();
    let is_found = |token: &str| shown.find(&Hash::of(token.as_bytes())).is_some();
    let token = mint(&keys(), &claims()).unwrap();
    assert!(!is_found(&token) && is_read(&token) && is_found(&token));
    let said = &shown.find(&Hash::of(token.as_bytes())).unwrap().claims;
    assert_eq!((said, said.hold(ISSUER, at(1_000))), (&claims(), Ok(())));
    assert_eq!(said.hold(ISSUER, at(1_930)), Err(TokenError::Expired));
    assert_eq!(said.hold("https://other.test", at(1_000)), Err(TokenError::Invalid));
    let other = format!("{token}x");
    assert!(!is_found(&other) && !is_read(&other) && !is_found(&other));
    for number in 0..=SHOWN_MAX {
        assert!(is_read(&mint(&keys(), &Claims { jti: number.to_string(), ..claims() }).unwrap()));
    }
    assert!(shown.0.read().len() <= SHOWN_MAX, "no more are remembered");
}

#[test]
fn what_a_token_grants_is_judged_again_when_the_rules_or_the_login_are_others() {
    let claims = Claims { scope: "mcp:read mcp:admin".into(), ..claims() };
    let token = Token { claims, judged: Mutex::default() };
    let (alice, rules) = (record("alice"), admins("alice"));
    let first = token.grant(&alice, &rules).unwrap();
    assert!(first.is_admin());
    assert!(Arc::ptr_eq(&first, &token.grant(&alice, &rules).unwrap()), "nothing has changed");
    assert!(!token.grant(&alice, &admins("bob")).unwrap().is_admin(), "other rules");
    assert!(token.grant(&alice, &rules).unwrap().is_admin());
    assert!(!token.grant(&record("bob"), &rules).unwrap().is_admin(), "another record");
    let nobody = Rules { allow: Some(People::default()), ..Rules::default() };
    assert!(token.grant(&alice, &Arc::new(nobody)).is_none());
    assert!(token.grant(&alice, &rules).unwrap().is_admin());
}

use super::super::credential::{Steps, Terms};
use super::super::tokens::{Client, Shows, Tokens};
use super::*;
use crate::testing::at;

fn whose() -> Whose {
    Whose { principal: "alice".into(), server: "files".into(), url: "https://files.test/mcp".into() }
}

fn login(access: &str, seconds: u64) -> Credential {
    let terms = Terms {
        whose: whose(),
        issuer: "https://as.test".into(),
        client: Client { id: "us".into(), secret: None, shows: Shows::Post, registered: false },
        token_endpoint: "https://as.test/token".into(),
        revocation_endpoint: None,
        resource: "https://files.test/mcp".into(),
        scopes: Vec::new(),
        steps: Steps::default(),
    };
    Credential::new(terms, tokens(access), 0, at(seconds))
}

fn tokens(access: &str) -> Tokens {
    Tokens { access: access.into(), refresh: None, life: None, scopes: None }
}

/// The store has both in the right order; what is told of them here may come in the other.
#[test]
fn what_comes_of_a_renewal_does_not_hide_a_login_that_is_newer() {
    let (entry, before) = (UserEntry::new(whose()), login("before", 0));
    entry.hold(before.clone(), at(0));
    let looked = entry.look(at(1));
    let anew = login("anew", 1);
    entry.hold(anew.clone(), at(1));
    entry.renewed(before.renewed(tokens("renewed"), false, at(9)), at(9));
    assert_eq!(entry.memory.lock().held, Some(anew.clone()));
    assert!(entry.memory.lock().is_stale, "the store is asked which of both it is");
    entry.found(looked.as_ref(), before, at(9));
    assert_eq!(entry.memory.lock().held, Some(anew.clone()), "a look that began before the login");
    entry.found(Some(&anew.mark()), anew.clone(), at(9));
    assert!(!entry.memory.lock().is_stale);
}

//! Tokens that were shown a moment ago: what they say, and what they grant.
//!
//! To read a token and to put together what it grants costs more than all else that is done about it, so that both are
//! remembered. Neither counts by itself: whether the token still holds and its family still lives is looked at each
//! time, and what it grants must have come of the very record and the very rules that count now.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::auth::Grant;
use crate::family::Record;
use crate::keys::Keys;
use crate::policy::Rules;
use crate::scope::Scopes;
use crate::secret::Hash;
use crate::token::{Claims, TokenError, read};

/// How many are remembered.
const SHOWN_MAX: usize = 4_096;

/// All of them, by their hashes.
#[derive(Default)]
pub(crate) struct Shown(RwLock<HashMap<Hash, Arc<Token>>>);

/// One that we signed.
pub(crate) struct Token {
    /// What it says.
    pub claims: Claims,
    judged: Mutex<Option<Judged>>,
}

/// What a token granted, and what that was judged by.
struct Judged {
    record: Arc<Record>,
    rules: Arc<Rules>,
    grant: Arc<Grant>,
}

impl Shown {
    /// One that was read before.
    pub fn find(&self, hash: &Hash) -> Option<Arc<Token>> {
        self.0.read().get(hash).cloned()
    }

    /// Reads one.
    pub fn read(&self, keys: &Keys, token: &str, hash: Hash) -> Result<Arc<Token>, TokenError> {
        let token = Arc::new(Token { claims: read(keys, token)?, judged: Mutex::default() });
        let mut shown = self.0.write();
        // Seldom, and they are read again.
        if SHOWN_MAX <= shown.len() {
            shown.clear();
        }
        shown.insert(hash, token.clone());
        Ok(token)
    }
}

impl Token {
    /// What it grants; `None` where its person is not let in.
    pub fn grant(&self, record: &Arc<Record>, rules: &Arc<Rules>) -> Option<Arc<Grant>> {
        let mut judged = self.judged.lock();
        if let Some(known) = &*judged
            && Arc::ptr_eq(&known.record, record)
            && Arc::ptr_eq(&known.rules, rules)
        {
            return Some(known.grant.clone());
        }
        let grant = Arc::new(judge(&self.claims, record, rules)?);
        *judged = Some(Judged { record: record.clone(), rules: rules.clone(), grant: grant.clone() });
        Some(grant)
    }
}

fn judge(claims: &Claims, record: &Record, rules: &Rules) -> Option<Grant> {
    let who = record.granted.login.who(&claims.client_id);
    // The rules may have changed since the login.
    if !rules.lets_in(&who) {
        return None;
    }
    let scopes = Scopes::parse(&claims.scope)?;
    let scopes = if rules.is_admin(&who) { scopes } else { scopes.without_admin() };
    Some(Grant { who, scopes, family: Some(claims.fam.as_str().into()), operator: false })
}

#[cfg(test)]
mod tests;

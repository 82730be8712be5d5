//! `GET /oauth/stats`: how much there is, for operators.

use std::time::SystemTime;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, StatusCode};
use serde_json::json;

use crate::answer::{self, Answer};
use crate::auth::Auth;

impl Auth {
    pub(super) async fn stats(&self, request: &Request<Bytes>, now: SystemTime) -> Answer {
        let path = request.uri().path();
        match self.check_page(request.headers(), request.uri(), now).await {
            Ok(grant) if grant.is_admin() => {}
            Ok(grant) => return self.refuse(&self.lacks_admin(&grant), path, None),
            Err(refusal) => return self.refuse(&refusal, path, None),
        }
        let mut counts = [0_usize; 4];
        let prefixes = ["client:", "authtxn:ask:", "authtxn:login:", "fam:"];
        for (count, prefix) in counts.iter_mut().zip(prefixes) {
            match self.count(prefix).await {
                Ok(found) => *count = found,
                Err(_) => return answer::away(),
            }
        }
        let [clients, asks, logins, tokens] = counts;
        let body = json!({"clients": clients, "authSessions": asks, "upstreamSessions": logins, "tokens": tokens});
        answer::json(StatusCode::OK, &body)
    }

    async fn count(&self, prefix: &str) -> Result<usize, lb_store::Error> {
        let mut keys = self.store.scan(prefix);
        // A key may come twice.
        let mut found = std::collections::HashSet::new();
        while let Some(key) = keys.next().await {
            found.insert(key?);
        }
        Ok(found.len())
    }
}

//! How logins stand, and ending them.

use std::sync::Arc;

use lb_exchange::{Bounds, LoginError, Principal, ServerAuth, ServerSpec};
use serde::Serialize;

use super::begin::away;
use super::credential::{self, Credential, Whose};
use super::tokens;
use super::{Behind, Inner};
use crate::pages::date;

/// How a login stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The server.
    pub server: String,
    /// Who logs in there: `none`, `user` or `service`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Who gave the tokens.
    pub issuer: Option<String>,
    /// What they are good for.
    pub scopes: Vec<String>,
    /// When the present one ends, as in `2026-07-28T12:00:00Z`. It is renewed before, where it can be.
    pub expires_at: Option<String>,
    /// How it stands.
    pub state: State,
}

/// How a login stands, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody logs in there.
    None,
    /// There is a token, or one can be had without a person.
    LoggedIn,
    /// There is none.
    LoggedOut,
    /// There is one that has ended and cannot be renewed.
    Expired,
    /// The store does not say.
    Unknown,
}

impl Behind {
    /// How the logins of a principal stand. Asks no server. Cancel safe: yes.
    pub async fn status(&self, principal: &Principal, servers: &[Arc<ServerSpec>]) -> Vec<Status> {
        let mut all = Vec::with_capacity(servers.len());
        for server in servers {
            all.push(self.one(principal, server).await);
        }
        all
    }

    async fn one(&self, principal: &Principal, server: &Arc<ServerSpec>) -> Status {
        let (kind, found) = match &server.auth {
            ServerAuth::None => ("none", Err(State::None)),
            ServerAuth::Service(_) => {
                let held = Whose::ours(server).and_then(|whose| self.0.service(&whose).held());
                ("service", held.ok_or(State::LoggedOut))
            }
            ServerAuth::User(_) => ("user", self.kept(principal, server).await),
        };
        let mut status = Status {
            server: server.name.to_string(),
            kind,
            issuer: None,
            scopes: Vec::new(),
            expires_at: None,
            state: State::LoggedOut,
        };
        match found {
            Err(state) => status.state = state,
            Ok(credential) => {
                let can_go_on = kind == "service" || credential.refresh.is_some();
                let is_good = can_go_on || credential.is_alive(self.0.now().await);
                status.state = if is_good { State::LoggedIn } else { State::Expired };
                status.expires_at = credential.ends().map(time);
                status.issuer = Some(credential.issuer);
                status.scopes = credential.scopes;
            }
        }
        status
    }

    async fn kept(&self, principal: &Principal, server: &ServerSpec) -> Result<Credential, State> {
        let whose = Whose::of(principal, server).ok_or(State::LoggedOut)?;
        match credential::load(&*self.0.store, &whose).await {
            Ok(kept) => kept.map(|kept| kept.credential).ok_or(State::LoggedOut),
            Err(_) => Err(State::Unknown),
        }
    }

    /// Ends a login: tells the authorization server if it wants to be told, and forgets; whether there was one. Cancel
    /// safe: it may then be kept still.
    ///
    /// # Errors
    /// When the store cannot be reached: it may then be kept still.
    pub async fn logout(&self, principal: &Principal, server: &Arc<ServerSpec>) -> Result<bool, LoginError> {
        match &server.auth {
            ServerAuth::None => Ok(false),
            ServerAuth::Service(_) => {
                let held = Whose::ours(server).and_then(|whose| self.0.service(&whose).forget());
                if let Some(held) = &held {
                    self.0.revoke(server.bounds, held).await;
                }
                Ok(held.is_some())
            }
            ServerAuth::User(_) => self.end_user(principal, server).await,
        }
    }

    async fn end_user(&self, principal: &Principal, server: &ServerSpec) -> Result<bool, LoginError> {
        let Some(whose) = Whose::of(principal, server) else { return Ok(false) };
        let store = &*self.0.store;
        store.delete(&whose.key("open").map_err(away)?).await.map_err(away)?;
        let mut found = false;
        // What is renewed meanwhile is another record.
        while let Some(kept) = credential::load(store, &whose).await.map_err(away)? {
            self.0.revoke(server.bounds, &kept.credential).await;
            credential::forget(store, &kept).await.map_err(away)?;
            found = true;
        }
        if let Some(entry) = self.0.known_user(&whose) {
            entry.end();
        }
        Ok(found)
    }
}

impl Inner {
    /// Tells the authorization server that a login ended. What it is not told ends by itself.
    pub(super) async fn revoke(&self, bounds: Bounds, credential: &Credential) {
        let Some(address) = &credential.revocation_endpoint else { return };
        let (token, kind) = credential.revocable();
        let port = self.fetch(bounds);
        if let Err(error) = tokens::revoke(&*port, address, &credential.client, token, kind).await {
            let server = &credential.whose.server;
            tracing::warn!(%server, %error, "the authorization server was not told that a login ended");
        }
    }
}

/// As in `2026-07-28T12:00:00Z`.
fn time(seconds: u64) -> String {
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", date(seconds))
}

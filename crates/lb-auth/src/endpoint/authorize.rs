//! `GET /authorize`: a client asks for a person's consent.

use std::net::IpAddr;
use std::time::SystemTime;

use http::StatusCode;

use super::transaction::{Back, Pending, Step, keep};
use super::{failed, failed_for_now, full, room};
use crate::answer::{self, Answer};
use crate::auth::Auth;
use crate::client::{Client, ClientError};
use crate::form::Form;
use crate::rate::{AUTHORIZE, counted};
use crate::scope::Scopes;
use crate::secret::Secret;
use crate::token::seconds;

const STATE_BYTES_MAX: usize = 1_024;
const RESOURCES_MAX: usize = 8;

impl Auth {
    pub(super) async fn authorize(&self, query: &str, from: IpAddr, now: SystemTime) -> Answer {
        match AUTHORIZE.take(&*self.store, &counted(from), now).await {
            Ok(None) => {}
            Ok(Some(wait)) => {
                let page = failed(StatusCode::TOO_MANY_REQUESTS, "Too many logins", "Wait a minute and try again.");
                return answer::later(page, wait);
            }
            Err(_) => return store_is_away(),
        }
        let Some(form) = Form::parse(query.as_bytes()) else { return bad("The request is not UTF-8.") };
        let (client, redirect_uri) = match self.client_of(&form, from, now).await {
            Ok(known) => known,
            Err(answer) => return answer,
        };
        // From here on the client can be told.
        let state = form.get("state").filter(|state| state.len() <= STATE_BYTES_MAX);
        let back = Back { redirect_uri: &redirect_uri, state, issuer: &self.settings.public_url };
        match self.asked(&form, &client, &redirect_uri, now) {
            Err((code, why)) => back.error(code, why),
            Ok(pending) => match self.kept(&pending, now).await {
                Ok(Some(id)) => answer::redirect(&format!("{}/consent?id={}", self.settings.public_url, id.expose())),
                Ok(None) => full(),
                Err(_) => back.error("temporarily_unavailable", "the gateway cannot reach its store: try again"),
            },
        }
    }

    /// Keeps what was asked for under a secret, if there is room for it.
    async fn kept(&self, pending: &Pending, now: SystemTime) -> Result<Option<Secret>, lb_store::Error> {
        if !room::is_left(&*self.store, now).await? {
            return Ok(None);
        }
        let id = Secret::random();
        keep(&*self.store, Step::Ask, id.expose(), pending).await?;
        Ok(Some(id))
    }

    /// The client and the address that it names. While either is not known, nobody is sent anywhere.
    async fn client_of(&self, form: &Form, from: IpAddr, now: SystemTime) -> Result<(Client, String), Answer> {
        let one = |name: &str| match form.all(name).as_slice() {
            [value] => Some(*value),
            _ => None,
        };
        let Some(id) = one("client_id") else {
            return Err(bad("The application did not say which one it is (client_id)."));
        };
        let client = self.clients.find(id, from, now).await.map_err(|error| match error {
            ClientError::Unknown => bad("The application is not known here (invalid_client). It must register first; starting it anew may help."),
            ClientError::Document(why) => bad(&format!("The application cannot be recognised (invalid_client): {why}.")),
            ClientError::TooMany(wait) => answer::later(failed(StatusCode::TOO_MANY_REQUESTS, "Too many logins", "Wait a while and try again."), wait),
            ClientError::Store(_) => store_is_away(),
        })?;
        let Some(uri) = one("redirect_uri") else {
            return Err(bad("The application did not say where to go back to (redirect_uri)."));
        };
        if !client.may_redirect(uri, self.clients.schemes()) {
            return Err(bad(
                "The application wants to send you to an address that it has not registered (redirect_uri).",
            ));
        }
        Ok((client, uri.to_owned()))
    }

    /// What the client asks for, if it asks as it should.
    fn asked(
        &self,
        form: &Form,
        client: &Client,
        redirect_uri: &str,
        now: SystemTime,
    ) -> Result<Pending, (&'static str, &'static str)> {
        if form.repeats() {
            return Err(("invalid_request", "a parameter stands there twice"));
        }
        match form.get("response_type") {
            Some("code") => {}
            Some(_) => return Err(("unsupported_response_type", "response_type is code")),
            None => return Err(("invalid_request", "response_type is missing: it is code")),
        }
        if form.get("response_mode").is_some_and(|mode| mode != "query") {
            return Err(("invalid_request", "response_mode is query"));
        }
        let challenge = form.get("code_challenge").filter(|text| is_challenge(text));
        let challenge =
            challenge.ok_or(("invalid_request", "PKCE is required: code_challenge has 43 characters of base64url"))?;
        if form.get("code_challenge_method") != Some("S256") {
            return Err(("invalid_request", "code_challenge_method is S256"));
        }
        if form.get("state").is_some_and(|state| STATE_BYTES_MAX < state.len()) {
            return Err(("invalid_request", "state has more than 1024 bytes"));
        }
        let scopes = form.get("scope").map_or(Some(Scopes::default()), Scopes::parse);
        let scopes = scopes.ok_or(("invalid_scope", "scopes are mcp:read, mcp:call, mcp:admin and server:NAME"))?;
        let scopes = if scopes.is_empty() { Scopes::usual() } else { scopes };
        Ok(Pending {
            client_id: client.id.clone(),
            client_name: client.name.clone(),
            origin: client.origin.clone(),
            local_only: client.is_local_only(),
            refreshes: client.refreshes,
            redirect_uri: redirect_uri.to_owned(),
            state: form.get("state").map(str::to_owned),
            scopes,
            resources: self.resources_of(&form.all("resource"))?,
            challenge: challenge.to_owned(),
            until: seconds(now) + self.settings.lives.login.as_secs(),
        })
    }

    fn resources_of(&self, asked: &[&str]) -> Result<Vec<String>, (&'static str, &'static str)> {
        if asked.is_empty() {
            return Ok(vec![self.resources.root()]);
        }
        let ours: Option<Vec<String>> = asked.iter().map(|resource| self.resources.ours(resource)).collect();
        let ours = ours.filter(|ours| ours.len() <= RESOURCES_MAX);
        ours.ok_or(("invalid_target", "resource is the address of the MCP endpoint here"))
    }
}

/// The SHA-256 of something, as base64url.
fn is_challenge(text: &str) -> bool {
    text.len() == 43 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn bad(what: &str) -> Answer {
    failed(StatusCode::BAD_REQUEST, "This login cannot go on", what)
}

fn store_is_away() -> Answer {
    failed_for_now("The gateway cannot reach its store.")
}

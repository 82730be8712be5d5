//! `POST /token`, `/revoke` and `/register`: what clients ask for themselves.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, Request, StatusCode};
use serde_json::json;

use super::{is_form, is_json};
use crate::answer::{self, Answer};
use crate::audit;
use crate::auth::Auth;
use crate::client::{Client, ClientError, RegisterError, Shown};
use crate::family::{Asked, GrantError, Granted, Issued, Proof};
use crate::form::Form;
use crate::rate::{TOKEN, counted};
use crate::scope::Scopes;
use crate::secret::Secret;
use crate::token::{seconds, verify};

const BAD: StatusCode = StatusCode::BAD_REQUEST;

/// Who a client says it is, and what it shows for it.
struct Claimed {
    id: String,
    shown: Shown,
}

impl Auth {
    pub(super) async fn token(&self, request: &Request<Bytes>, from: IpAddr, now: SystemTime) -> Answer {
        let (form, client) = match self.asked_by(request, from, now).await {
            Ok(asked) => asked,
            Err(answer) => return answer,
        };
        let resources: Vec<String> = form
            .all("resource")
            .into_iter()
            .map(|resource| self.resources.ours(resource).unwrap_or_else(|| resource.to_owned()))
            .collect();
        let resources: Vec<&str> = resources.iter().map(String::as_str).collect();
        let asked = Asked { client: &client.id, resources: &resources, scopes: None };
        let issued = match form.get("grant_type") {
            Some("authorization_code") => self.redeemed(&form, asked, now).await,
            Some("refresh_token") if !client.refreshes => {
                return answer::error(BAD, "unauthorized_client", "the client did not register for refresh tokens");
            }
            Some("refresh_token") => self.refreshed(&form, asked, now).await,
            Some(_) => {
                let why = "grant_type is authorization_code or refresh_token";
                return answer::error(BAD, "unsupported_grant_type", why);
            }
            None => return answer::error(BAD, "invalid_request", "grant_type is missing"),
        };
        match issued {
            Ok(issued) => {
                self.clients.used(&client).await;
                tokens(&issued, now)
            }
            Err(answer) => answer,
        }
    }

    /// What a request asks for, and the client that has shown who it is.
    async fn asked_by(
        &self,
        request: &Request<Bytes>,
        from: IpAddr,
        now: SystemTime,
    ) -> Result<(Form, Client), Answer> {
        let form = form(request).map_err(|answer| *answer)?;
        let shown = self.client_shown(request.headers(), &form, from, now).await;
        if let (Err(answer), Some(code)) = (&shown, form.get("code"))
            && answer.status() == StatusCode::UNAUTHORIZED
            && self.families.spoil(code, now).await.is_err()
        {
            return Err(answer::away());
        }
        Ok((form, shown?))
    }

    async fn redeemed(&self, form: &Form, asked: Asked<'_>, now: SystemTime) -> Result<Issued, Answer> {
        let code = form.get("code").ok_or_else(|| answer::error(BAD, "invalid_request", "code is missing"))?;
        if self.is_out(code, now).await? {
            // Every attempt uses a code up, so that it is not good again when the rules are what they were.
            self.families.spoil(code, now).await.map_err(refused)?;
            return Err(refused(GrantError::Invalid));
        }
        let proof = Proof { verifier: form.get("code_verifier"), redirect_uri: form.get("redirect_uri") };
        self.families.redeem(code, proof, asked, now).await.map_err(refused)
    }

    async fn refreshed(&self, form: &Form, asked: Asked<'_>, now: SystemTime) -> Result<Issued, Answer> {
        let token = form.get("refresh_token");
        let token = token.ok_or_else(|| answer::error(BAD, "invalid_request", "refresh_token is missing"))?;
        if self.is_out(token, now).await? {
            return Err(refused(GrantError::Invalid));
        }
        let scopes = match form.get("scope") {
            None => None,
            Some(text) => Some(Scopes::parse(text).ok_or_else(|| refused(GrantError::Scope))?),
        };
        let scopes = scopes.filter(|scopes| !scopes.is_empty());
        self.families.refresh(token, Asked { scopes: scopes.as_ref(), ..asked }, now).await.map_err(refused)
    }

    /// Whether the person of a code or refresh token is let in no more by the rules of today. A client that is told so
    /// lets them log in anew; with tokens that no request is let in with it would refresh for ever.
    async fn is_out(&self, token: &str, now: SystemTime) -> Result<bool, Answer> {
        let granted = self.families.granted(token, now).await.map_err(refused)?;
        let is_out = |granted: &Granted| !self.rules().lets_in(&granted.login.who(&granted.client));
        Ok(granted.as_ref().is_some_and(is_out))
    }

    pub(super) async fn revoke(&self, request: &Request<Bytes>, from: IpAddr, now: SystemTime) -> Answer {
        let (form, client) = match self.asked_by(request, from, now).await {
            Ok(asked) => asked,
            Err(answer) => return answer,
        };
        let Some(token) = form.get("token") else { return answer::error(BAD, "invalid_request", "token is missing") };
        let revoked = match self.families.revoke_refresh(token, &client.id, now).await {
            Ok(true) => Ok(()),
            Ok(false) => match verify(&self.keys, &self.settings.public_url, token, now) {
                Ok(claims) => self.families.revoke_access(&claims, &client.id, now).await,
                // It is over, or was never ours: there is nothing to do.
                Err(_) => Ok(()),
            },
            Err(error) => Err(GrantError::Store(error)),
        };
        match revoked {
            Ok(()) => answer::empty(StatusCode::OK),
            // The client must know that it did not happen.
            Err(_) => answer::away(),
        }
    }

    pub(super) async fn register(&self, request: &Request<Bytes>, from: IpAddr, now: SystemTime) -> Answer {
        if !is_json(request.headers()) {
            return answer::error(BAD, "invalid_client_metadata", "send JSON: Content-Type is application/json");
        }
        let registered = self.clients.register(request.body(), from, now).await;
        match &registered {
            Ok(told) => audit::registration(told["client_id"].as_str(), from, "ok"),
            Err(RegisterError::RedirectUri(_) | RegisterError::Metadata(_)) => {
                audit::registration(None, from, "refused");
            }
            Err(RegisterError::TooMany(_)) => audit::registration(None, from, "too_many"),
            Err(RegisterError::Store(_)) => audit::registration(None, from, "store_away"),
        }
        match registered {
            Ok(told) => answer::json(StatusCode::CREATED, &told),
            Err(RegisterError::RedirectUri(why)) => answer::error(BAD, "invalid_redirect_uri", why),
            Err(RegisterError::Metadata(why)) => answer::error(BAD, "invalid_client_metadata", why),
            Err(RegisterError::TooMany(wait)) => too_many(wait),
            Err(RegisterError::Store(_)) => answer::away(),
        }
    }

    /// The client that sent a form, if it has shown that it is itself.
    async fn client_shown(
        &self,
        headers: &HeaderMap,
        form: &Form,
        from: IpAddr,
        now: SystemTime,
    ) -> Result<Client, Answer> {
        let basic = headers.contains_key(AUTHORIZATION);
        let claimed = claimed(headers, form).ok_or_else(|| unknown(basic))?;
        match TOKEN.take(&*self.store, &format!("{} {}", claimed.id, counted(from)), now).await {
            Ok(None) => {}
            Ok(Some(wait)) => return Err(too_many(wait)),
            Err(_) => return Err(answer::away()),
        }
        match self.clients.find_for_tokens(&claimed.id, from, now).await {
            Ok(client) if client.is_shown(&claimed.shown) => Ok(client),
            Ok(_) | Err(ClientError::Unknown | ClientError::Document(_)) => Err(unknown(basic)),
            Err(ClientError::TooMany(wait)) => Err(too_many(wait)),
            Err(ClientError::Store(_)) => Err(answer::away()),
        }
    }
}

fn form(request: &Request<Bytes>) -> Result<Form, Box<Answer>> {
    if !is_form(request.headers()) {
        let why = "send a form: Content-Type is application/x-www-form-urlencoded";
        return Err(Box::new(answer::error(BAD, "invalid_request", why)));
    }
    let form = Form::parse(request.body()).filter(|form| !form.repeats());
    form.ok_or_else(|| {
        Box::new(answer::error(BAD, "invalid_request", "a parameter cannot be read or stands there twice"))
    })
}

/// Who a client says it is: in the header, or in the form.
fn claimed(headers: &HeaderMap, form: &Form) -> Option<Claimed> {
    // Nobody registers with keys here: whoever shows that it has some is not the client that it says it is.
    if form.get("client_assertion").or(form.get("client_assertion_type")).is_some() {
        return None;
    }
    let post = form.get("client_secret").map(Secret::new);
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    let Some(header) = sent.next() else {
        return Some(Claimed { id: form.get("client_id")?.to_owned(), shown: Shown { basic: None, post } });
    };
    let (scheme, text) = header.to_str().ok()?.split_once(' ')?;
    if sent.next().is_some() || !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(text.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    let (id, secret) = (decoded(id)?, decoded(secret)?);
    let same = form.get("client_id").is_none_or(|other| other == id);
    same.then(|| Claimed { id, shown: Shown { basic: Some(Secret::new(secret)), post } })
}

/// A part of the header, which is encoded as in a form.
fn decoded(text: &str) -> Option<String> {
    let form = Form::parse(format!("x={text}").as_bytes())?;
    form.get("x").map(str::to_owned)
}

fn tokens(issued: &Issued, now: SystemTime) -> Answer {
    let mut body = json!({
        "access_token": issued.access_token,
        "token_type": "Bearer",
        "expires_in": issued.expires.saturating_sub(seconds(now)),
        "scope": issued.scope,
    });
    if let (Some(body), Some(token)) = (body.as_object_mut(), &issued.refresh_token) {
        body.insert("refresh_token".into(), json!(token));
    }
    answer::json(StatusCode::OK, &body)
}

fn refused(error: GrantError) -> Answer {
    let code = match &error {
        GrantError::Invalid => "invalid_grant",
        GrantError::Scope => "invalid_scope",
        GrantError::Resource => "invalid_target",
        GrantError::Store(_) => return answer::away(),
    };
    answer::error(BAD, code, &error.to_string())
}

fn unknown(basic: bool) -> Answer {
    let why = "the client is not known, or did not show that it is itself in the way that it registered";
    let mut answer = answer::error(StatusCode::UNAUTHORIZED, "invalid_client", why);
    if basic {
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"landbridge\""));
    }
    answer
}

fn too_many(wait: Duration) -> Answer {
    let why = "too many requests: try again later";
    answer::later(answer::error(StatusCode::TOO_MANY_REQUESTS, "temporarily_unavailable", why), wait)
}

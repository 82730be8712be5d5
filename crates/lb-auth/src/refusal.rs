//! What a client is told that may not do what it asks for.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::answer;
use crate::scope::Scopes;

/// Why a request does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It says not who sent it.
    NoCredentials,
    /// Its token is over.
    Expired,
    /// Its token is not good; why is not told.
    Invalid,
    /// It says who sent it in two ways, in the address, or not readably.
    Malformed,
    /// Its token may not do that; with these scopes it could.
    Scope {
        /// All that it needs.
        scopes: Scopes,
    },
    /// Nobody gives it a token that may.
    Denied,
    /// It came too often.
    TooMany {
        /// When to come back.
        wait: Duration,
    },
    /// Whether its token is good cannot be known now.
    StoreAway,
}

/// Where the challenge points to.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The address of the document about the resource; `None` without OAuth.
    pub metadata: Option<String>,
}

impl Refusal {
    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoCredentials | Self::Expired | Self::Invalid => StatusCode::UNAUTHORIZED,
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Scope { .. } | Self::Denied => StatusCode::FORBIDDEN,
            Self::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::StoreAway => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The whole answer. `id` is the JSON of the request's id, where one was read.
    pub(crate) fn answer(&self, place: &Place, id: Option<&Value>) -> Response<Bytes> {
        let mut answer = answer::json(self.status(), &self.body(id));
        let challenge = self.challenge(place).and_then(|text| HeaderValue::from_str(&text).ok());
        if let Some(challenge) = challenge {
            answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        match self {
            Self::TooMany { wait } => answer::later(answer, *wait),
            Self::StoreAway => answer::later(answer, Duration::from_secs(1)),
            _ => answer,
        }
    }

    fn body(&self, id: Option<&Value>) -> Value {
        let why = self.why();
        match self {
            Self::NoCredentials => json!({"error": "unauthorized"}),
            Self::Expired | Self::Invalid => json!({"error": "invalid_token", "error_description": why}),
            Self::Malformed => json!({"error": "invalid_request", "error_description": why}),
            Self::Scope { scopes } => rpc(id, why, &json!({"reason": "insufficient_scope", "scope": scopes})),
            Self::Denied => rpc(id, why, &json!({"reason": "access_denied"})),
            Self::TooMany { .. } => json!({"error": "too_many_requests", "error_description": why}),
            Self::StoreAway => json!({"error": "temporarily_unavailable", "error_description": why}),
        }
    }

    fn why(&self) -> &'static str {
        match self {
            Self::NoCredentials => "send a bearer token",
            Self::Expired => "The access token expired",
            Self::Invalid => "The access token is invalid",
            Self::Malformed => "send one bearer token, in the Authorization header",
            Self::Scope { .. } => "the token may not do that: ask for the scopes named here",
            Self::Denied => "you may not do that: ask the operator of the gateway",
            Self::TooMany { .. } => "too many requests: try again later",
            Self::StoreAway => "the gateway cannot check tokens now: try again",
        }
    }

    fn challenge(&self, place: &Place) -> Option<String> {
        let Some(metadata) = &place.metadata else {
            return (self.status() == StatusCode::UNAUTHORIZED).then(|| "Bearer realm=\"landbridge\"".to_owned());
        };
        let usual = Scopes::usual().to_string();
        match self {
            Self::NoCredentials => Some(bearer(&[("resource_metadata", metadata), ("scope", &usual)])),
            Self::Expired | Self::Invalid => Some(bearer(&[
                ("resource_metadata", metadata),
                ("scope", &usual),
                ("error", "invalid_token"),
                ("error_description", self.why()),
            ])),
            Self::Malformed => Some(bearer(&[("error", "invalid_request")])),
            Self::Scope { scopes } => Some(bearer(&[
                ("error", "insufficient_scope"),
                ("scope", &scopes.to_string()),
                ("resource_metadata", metadata),
                ("error_description", self.why()),
            ])),
            Self::Denied | Self::TooMany { .. } | Self::StoreAway => None,
        }
    }
}

/// One challenge with its parameters as quoted texts.
fn bearer(parameters: &[(&str, &str)]) -> String {
    let mut text = String::from("Bearer");
    for (place, (name, value)) in parameters.iter().enumerate() {
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
        let comma = if place == 0 { "" } else { "," };
        // Writing to a text does not fail.
        if write!(text, "{comma} {name}=\"{escaped}\"").is_err() {
            break;
        }
    }
    text
}

fn rpc(id: Option<&Value>, message: &str, data: &Value) -> Value {
    let mut error = json!({"jsonrpc": "2.0", "error": {"code": -32600, "message": message, "data": data}});
    if let (Some(error), Some(id)) = (error.as_object_mut(), id) {
        error.insert("id".into(), id.clone());
    }
    error
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(refusal: &Refusal, status: u16, challenge: Option<&str>, body: &str) {
        let place = Place { metadata: Some("https://gw.test/.well-known/oauth-protected-resource/mcp".into()) };
        let answer = refusal.answer(&place, Some(&json!(7)));
        assert_eq!(answer.status(), status);
        let got = answer.headers().get(WWW_AUTHENTICATE).map(|value| value.to_str().unwrap());
        assert_eq!(got, challenge, "{refusal:?}");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        assert_eq!(std::str::from_utf8(answer.body()).unwrap(), body, "{refusal:?}");
    }

    #[test]
    fn each_refusal_has_its_status_challenge_and_body() {
        let at = "resource_metadata=\"https://gw.test/.well-known/oauth-protected-resource/mcp\"";
        let usual = format!("Bearer {at}, scope=\"mcp:read mcp:call\"");
        check(&Refusal::NoCredentials, 401, Some(&usual), r#"{"error":"unauthorized"}"#);
        let expired = format!("{usual}, error=\"invalid_token\", error_description=\"The access token expired\"");
        let body = r#"{"error":"invalid_token","error_description":"The access token expired"}"#;
        check(&Refusal::Expired, 401, Some(&expired), body);
        let invalid = format!("{usual}, error=\"invalid_token\", error_description=\"The access token is invalid\"");
        let body = r#"{"error":"invalid_token","error_description":"The access token is invalid"}"#;
        check(&Refusal::Invalid, 401, Some(&invalid), body);
        let body =
            r#"{"error":"invalid_request","error_description":"send one bearer token, in the Authorization header"}"#;
        check(&Refusal::Malformed, 400, Some("Bearer error=\"invalid_request\""), body);
        let scopes = Scopes::parse("mcp:call server:github").unwrap();
        let step = format!(
            "Bearer error=\"insufficient_scope\", scope=\"mcp:call server:github\", {at}, error_description=\"the token may not do that: ask for the scopes named here\""
        );
        let body = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"the token may not do that: ask for the scopes named here","data":{"reason":"insufficient_scope","scope":"mcp:call server:github"}},"id":7}"#;
        check(&Refusal::Scope { scopes }, 403, Some(&step), body);
        let away = Refusal::StoreAway.answer(&Place { metadata: None }, None);
        assert_eq!((away.status().as_u16(), &away.headers()["retry-after"]), (503, &HeaderValue::from_static("1")));
        let often = Refusal::TooMany { wait: Duration::from_secs(9) }.answer(&Place { metadata: None }, None);
        assert_eq!((often.status().as_u16(), &often.headers()["retry-after"]), (429, &HeaderValue::from_static("9")));
        let keys_only = Refusal::NoCredentials.answer(&Place { metadata: None }, None);
        assert_eq!(keys_only.headers()[WWW_AUTHENTICATE], "Bearer realm=\"landbridge\"");
    }

    proptest! {
        #[test]
        fn nothing_in_a_challenge_ends_its_line_or_its_quotes(text in "\\PC{0,40}", odd in "[\"\\\\\r\n,a]{0,10}") {
            let value = format!("{text}{odd}");
            let challenge = bearer(&[("scope", &value)]);
            if let Ok(header) = HeaderValue::from_str(&challenge) {
                let bytes = header.as_bytes();
                prop_assert!(!bytes.contains(&b'\n') && !bytes.contains(&b'\r'));
                let inside = challenge.strip_prefix("Bearer scope=\"").and_then(|rest| rest.strip_suffix('"')).unwrap();
                let mut escaped = false;
                for c in inside.chars() {
                    prop_assert!(c != '"' || escaped, "{challenge}");
                    escaped = c == '\\' && !escaped;
                }
                prop_assert!(!escaped);
            }
        }
    }
}

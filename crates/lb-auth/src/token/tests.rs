use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::*;

pub(crate) const ISSUER: &str = "https://gw.example.com";
const KEY: &[u8] = b"0123456789abcdef-the-first-key-of-ours";
const OTHER: &[u8] = b"fedcba9876543210-the-other-key-of-ours";

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

pub(crate) fn claims() -> Claims {
    Claims {
        iss: ISSUER.into(),
        sub: "u_1".into(),
        aud: format!("{ISSUER}/mcp"),
        client_id: "mcp_1".into(),
        scope: "mcp:read".into(),
        iat: 1_000,
        exp: 1_900,
        jti: "j".into(),
        fam: "f".into(),
        epo: 1,
    }
}

pub(crate) fn keys() -> Keys {
    Keys::new(KEY, None).unwrap()
}

#[test]
fn a_token_says_what_was_put_into_it_until_it_is_over() {
    let token = mint(&keys(), &claims()).unwrap();
    for now in [971, 1_000, 1_899, 1_929] {
        assert_eq!(verify(&keys(), ISSUER, &token, at(now)), Ok(claims()), "at {now}");
    }
    assert_eq!(verify(&keys(), ISSUER, &token, at(1_930)), Err(TokenError::Expired));
    assert_eq!(verify(&keys(), ISSUER, &token, at(969)), Err(TokenError::Invalid), "made in the future");
}

#[test]
fn two_keys_live_at_once_and_the_newer_one_signs() {
    let old = mint(&keys(), &claims()).unwrap();
    let both = Keys::new(OTHER, Some(KEY)).unwrap();
    let new = mint(&both, &claims()).unwrap();
    assert!(verify(&both, ISSUER, &old, at(1_000)).is_ok() && verify(&both, ISSUER, &new, at(1_000)).is_ok());
    assert!(verify(&keys(), ISSUER, &new, at(1_000)).is_err());
    assert!(verify(&Keys::new(OTHER, None).unwrap(), ISSUER, &old, at(1_000)).is_err());
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// Everything that was ever tried on a verifier of tokens.
fn forgeries() -> Vec<(String, String)> {
    let good = mint(&keys(), &claims()).unwrap();
    let [head, body, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let id = keys().current().id.clone();
    let header = |change: Value| {
        let mut header = json!({"alg": "HS256", "typ": "at+jwt", "kid": id});
        header.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        part(&header)
    };
    let mut all = Vec::new();
    let mut add = |name: &str, token: String| all.push((name.to_owned(), token));
    for alg in ["none", "None", "NONE", "nOnE", "HS384", "HS512", "RS256", "ES256", "EdDSA", "PS256", ""] {
        add(alg, format!("{}.{body}.{signature}", header(json!({"alg": alg}))));
        add("and no signature", format!("{}.{body}.", header(json!({"alg": alg}))));
    }
    for kid in ["", "../../dev/null", "/etc/passwd", "' OR 1=1 --", "0", "key\0"] {
        add(kid, format!("{}.{body}.{signature}", header(json!({"kid": kid}))));
    }
    add("jku", format!("{}.{body}.{signature}", header(json!({"jku": "https://evil.test/jwks"}))));
    add("jwk", format!("{}.{body}.{signature}", header(json!({"jwk": {"kty": "oct", "k": "AAAA"}}))));
    add("x5u", format!("{}.{body}.{signature}", header(json!({"x5u": "https://evil.test/x"}))));
    add("typ JWT", format!("{}.{body}.{signature}", header(json!({"typ": "JWT"}))));
    add("other body", format!("{head}.{}.{signature}", part(&json!({"sub": "root"}))));
    add("cut signature", format!("{head}.{body}.{}", signature.get(1..).unwrap()));
    add("no signature", format!("{head}.{body}."));
    add("two parts", format!("{head}.{body}"));
    add("four parts", format!("{good}.x"));
    add("padding", format!("{good}="));
    add("empty", String::new());
    add("dots", "..".into());
    add("huge", "a".repeat(100_000));
    let other = Keys::new(OTHER, None).unwrap();
    add("another key", mint(&other, &claims()).unwrap());
    add("another issuer", mint(&keys(), &Claims { iss: "https://evil.test".into(), ..claims() }).unwrap());
    add("issuer with a slash", mint(&keys(), &Claims { iss: format!("{ISSUER}/"), ..claims() }).unwrap());
    let stolen = Header { typ: Some("at+jwt".into()), kid: Some(id.clone()), ..Header::new(Algorithm::HS256) };
    let known = jsonwebtoken::EncodingKey::from_secret(id.as_bytes());
    add("signed with the id", encode(&stolen, &claims(), &known).unwrap());
    let wrong_type = Header { typ: Some("JWT".into()), ..stolen };
    add("an id token of ours", encode(&wrong_type, &claims(), &keys().current().encode).unwrap());
    all
}

#[test]
fn forged_tokens_are_refused_without_saying_why() {
    let forged = forgeries();
    assert!(30 <= forged.len(), "{}", forged.len());
    for (name, token) in forged {
        assert_eq!(verify(&keys(), ISSUER, &token, at(1_000)), Err(TokenError::Invalid), "{name}: {token}");
    }
}

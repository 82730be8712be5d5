use std::sync::atomic::Ordering;

use serde_json::json;

use crate::testing::{World, at};

/// What a login comes to when the provider signs these claims.
async fn login(world: &World, client: &str) -> Option<String> {
    let state = world.agreed(client, &[]).await;
    let seen = world.came_back(&state).await;
    assert!(seen.parameter("code").is_some() != seen.parameter("error").is_some());
    seen.parameter("error")
}

#[tokio::test]
async fn a_statement_that_is_not_for_us_now_is_not_believed() {
    let world = World::new().await;
    let client = world.client().await;
    let now = crate::token::seconds(at(0));
    for wrong in [
        json!({"iss": "https://idp.test"}),
        json!({"iss": "https://evil.test/"}),
        json!({"iss": null}),
        json!({"aud": "other"}),
        json!({"aud": ["gateway", "other"]}),
        json!({"aud": []}),
        json!({"aud": null}),
        json!({"azp": "other"}),
        json!({"nonce": "other"}),
        json!({"nonce": null}),
        json!({"exp": now - 60}),
        json!({"exp": null}),
        json!({"exp": "soon"}),
        json!({"iat": now + 61}),
        json!({"iat": null}),
        json!({"nbf": now + 61}),
        json!({"sub": ""}),
        json!({"sub": null}),
        json!({"sub": 7}),
        json!({"sub": "x".repeat(256)}),
    ] {
        *world.idp.claims.lock() = wrong.clone();
        assert_eq!(login(&world, &client).await.as_deref(), Some("server_error"), "{wrong}");
    }
}

#[tokio::test]
async fn a_statement_at_the_edge_of_the_clocks_is_believed() {
    let world = World::new().await;
    let client = world.client().await;
    let now = crate::token::seconds(at(0));
    for good in [
        json!({"exp": now - 59}),
        json!({"iat": now + 60}),
        json!({"aud": ["gateway", "other"], "azp": "gateway"}),
        json!({"aud": ["gateway"]}),
    ] {
        *world.idp.claims.lock() = good.clone();
        assert_eq!(login(&world, &client).await, None, "{good}");
    }
}

#[tokio::test]
async fn other_ways_to_sign_are_not_believed() {
    let world = World::new().await;
    let client = world.client().await;
    for alg in ["none", "HS256", "HS512", "RS384", "ES384", "RS256", "ES256"] {
        *world.idp.alg.lock() = Some(alg.into());
        assert_eq!(login(&world, &client).await.as_deref(), Some("server_error"), "{alg}");
    }
}

#[tokio::test]
async fn new_keys_are_asked_for_once_in_a_minute() {
    let world = World::new().await;
    let client = world.client().await;
    assert_eq!(login(&world, &client).await, None);
    assert_eq!(world.idp.key_fetches.load(Ordering::SeqCst), 1);
    world.later(60);
    world.idp.rotate("k2");
    assert_eq!(login(&world, &client).await, None, "a key that is not known is asked for");
    assert_eq!(world.idp.key_fetches.load(Ordering::SeqCst), 2);
    world.idp.rotate("k3");
    world.later(10);
    assert_eq!(login(&world, &client).await.as_deref(), Some("server_error"), "but not at once again");
    assert_eq!(world.idp.key_fetches.load(Ordering::SeqCst), 2);
    // The same name for another key is not believed either.
    world.later(60);
    assert_eq!(login(&world, &client).await, None);
    world.idp.rotate("k3");
    assert_eq!(login(&world, &client).await.as_deref(), Some("server_error"));
}

#[tokio::test]
async fn a_person_is_the_provider_and_its_name_for_them() {
    assert_ne!(super::principal("https://a", "b"), super::principal("https://a/", "b"));
    assert_ne!(super::principal("a", "bc"), super::principal("ab", "c"));
    assert_eq!(super::principal("a", "b").len(), 34);
}

#[test]
fn a_shared_secret_that_a_provider_publishes_signs_nothing() {
    use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
    let secret = b"everybody can read this secret of it";
    let keys = json!({"keys": [{"kty": "oct", "kid": "k1", "k": crate::secret::encode(secret)}]});
    let keys: jsonwebtoken::jwk::JwkSet = serde_json::from_value(keys).unwrap();
    let now = crate::token::seconds(at(0));
    let claims = json!({"iss": "i", "sub": "root", "aud": "gateway", "nonce": "n", "iat": now, "exp": now + 300});
    let expected = super::Expected { issuer: "i", client_id: "gateway", nonce: "n", now: at(0) };
    for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
        let header = Header { kid: Some("k1".into()), ..Header::new(algorithm) };
        let token = encode(&header, &claims, &EncodingKey::from_secret(secret)).unwrap();
        let verified = super::idtoken::verify(&token, &keys, &expected);
        assert!(matches!(verified, Err(super::IdError::Wrong(_))), "{algorithm:?}");
    }
}

/// What everybody knows of a key must not do as a secret, and no signature at all must not do as one.
#[test]
fn nothing_is_believed_that_is_signed_with_a_public_key_or_not_at_all() {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
    use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&aws_lc_rs::rand::SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
    let public = crate::secret::encode(pair.public_key().as_ref());
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": public});
    let keys: jsonwebtoken::jwk::JwkSet = serde_json::from_value(json!({ "keys": [jwk] })).unwrap();
    let now = crate::token::seconds(at(0));
    let claims = json!({"iss": "i", "sub": "root", "aud": "gateway", "nonce": "n", "iat": now, "exp": now + 300});
    let expected = super::Expected { issuer: "i", client_id: "gateway", nonce: "n", now: at(0) };
    let header = |algorithm| Header { kid: Some("k1".into()), ..Header::new(algorithm) };
    let right = encode(&header(Algorithm::EdDSA), &claims, &EncodingKey::from_ed_der(pkcs8.as_ref())).unwrap();
    assert!(super::idtoken::verify(&right, &keys, &expected).is_ok(), "the same claims, signed as they should be");
    let mut forged = Vec::new();
    for known in [pair.public_key().as_ref(), public.as_bytes(), jwk.to_string().as_bytes(), b""] {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            forged.push(encode(&header(algorithm), &claims, &EncodingKey::from_secret(known)).unwrap());
        }
    }
    let part = |value: &serde_json::Value| crate::secret::encode(value.to_string().as_bytes());
    for alg in ["none", "None", "NONE", "nOnE"] {
        for header in [json!({ "alg": alg, "kid": "k1" }), json!({ "alg": alg })] {
            forged.push(format!("{}.{}.", part(&header), part(&claims)));
            forged.push(format!("{}.{}", part(&header), part(&claims)));
        }
    }
    let (signed, _) = right.rsplit_once('.').unwrap();
    forged.push(format!("{signed}."));
    for token in forged {
        assert!(super::idtoken::verify(&token, &keys, &expected).is_err(), "{token}");
    }
}

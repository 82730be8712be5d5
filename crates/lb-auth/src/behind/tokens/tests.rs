use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::FetchError;

/// Answers everything alike, and keeps what it was asked.
struct Says(Result<(u16, String), FetchError>, Mutex<Option<Ask>>);

impl Fetch for Says {
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        *self.1.lock() = Some(ask);
        let answer = self.0.clone();
        let built = answer.map(|(status, body)| Response::builder().status(status).body(body.into()).unwrap());
        std::future::ready(built).boxed()
    }
}

fn client(secret: Option<&str>, shows: Shows) -> Client {
    Client { id: "us".into(), secret: secret.map(str::to_owned), shows, registered: false }
}

async fn asked(answer: Result<(u16, String), FetchError>) -> Result<Tokens, TokenError> {
    let says = Says(answer, Mutex::default());
    ask(&says, "https://as.test/token", &client(None, Shows::Basic), &[("grant_type", "refresh_token")]).await
}

#[tokio::test]
async fn it_is_told_apart_who_must_log_in_again_and_who_must_only_wait() {
    let away = |why: &str| TokenError::Away(why.into());
    let refused = |why: &str| TokenError::Refused(why.into());
    for (status, body, want) in [
        (400, r#"{"error":"invalid_grant","error_description":"s3cret"}"#, TokenError::Spent),
        (401, r#"{"error":"invalid_client"}"#, TokenError::Unknown),
        (400, r#"{"error":"invalid_scope"}"#, refused("it says invalid_scope")),
        (400, r#"{"error":"<script>"}"#, refused("it answered 400")),
        (400, "no JSON", refused("it answered 400")),
        (302, "", refused("it answered 302")),
        (400, r#"{"error":"temporarily_unavailable"}"#, away("it says temporarily_unavailable")),
        (429, "", away("it answered 429")),
        (503, r#"{"error":"invalid_grant"}"#, away("it answered 503")),
        (200, "no JSON", refused("its answer is not good: it cannot be read")),
        (
            200,
            r#"{"access_token":"a\nb","token_type":"Bearer"}"#,
            refused("its answer is not good: the token cannot be sent"),
        ),
        (
            200,
            r#"{"access_token":"a","token_type":"DPoP"}"#,
            refused("its answer is not good: the token is not one that can simply be sent"),
        ),
    ] {
        let error = asked(Ok((status, body.into()))).await.err();
        assert_eq!(error, Some(want), "{status} {body}");
    }
    assert_eq!(asked(Err(FetchError::Timeout)).await.err(), Some(away("it did not answer in time")));
}

#[tokio::test]
async fn tokens_are_read_as_servers_write_them() {
    for (life, want) in [(json!(300), Some(300)), (json!("300"), Some(300)), (json!(-1), None), (json!(null), None)] {
        let body = json!({"access_token": "a", "token_type": "bearer", "expires_in": life, "scope": "x  y"});
        let tokens = asked(Ok((200, body.to_string()))).await.unwrap();
        assert_eq!(tokens.life.map(|life| life.as_secs()), want, "{life}");
        assert_eq!(tokens.scopes.unwrap(), ["x", "y"]);
        assert_eq!(tokens.refresh, None);
    }
}

#[tokio::test]
async fn we_show_who_we_are_in_the_way_that_the_server_takes() {
    let methods = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (names, want) in [
        (&[][..], Shows::Basic),
        (&["client_secret_post"], Shows::Post),
        (&["client_secret_post", "client_secret_basic"], Shows::Basic),
        (&["private_key_jwt"], Shows::Basic),
        (&["none"], Shows::Never),
    ] {
        assert_eq!(Shows::of(&methods(names)), want, "{names:?}");
    }
    for (client, header, body) in [
        (client(Some("p:w"), Shows::Basic), Some("Basic dXM6cCUzQXc="), "a=b"),
        (client(Some("p w"), Shows::Post), None, "a=b&client_id=us&client_secret=p+w"),
        (client(None, Shows::Basic), None, "a=b&client_id=us"),
        (client(Some("pw"), Shows::Never), None, "a=b&client_id=us"),
    ] {
        let says = Says(Ok((200, "{}".into())), Mutex::default());
        ask(&says, "https://as.test/token", &client, &[("a", "b")]).await.err().unwrap();
        let sent = says.1.lock().take().unwrap();
        assert_eq!(sent.headers.get("authorization").map(|value| value.to_str().unwrap()), header);
        assert_eq!(sent.body, body);
        assert!(!format!("{client:?}{sent:?}").contains("dXM6"), "it is not written down");
    }
    let says = Says(Ok((200, "{}".into())), Mutex::default());
    let sent = ask(&says, "http://as.test/token", &client(None, Shows::Basic), &[]).await;
    assert!(sent.is_err() && says.1.lock().is_none(), "nothing is sent where others can listen");
}

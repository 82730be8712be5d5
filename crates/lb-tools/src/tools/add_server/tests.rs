use lb_wire::Raw;

use super::*;

fn read(text: &'static str) -> Result<ServerSpec, String> {
    spec(&Args::new(Some(Raw::from_static(text))).unwrap()).map_err(|failure| failure.message)
}

#[test]
fn exactly_one_of_url_and_command_makes_a_server() {
    let both = read(r#"{"name":"a","url":"http://x/","command":"c"}"#).unwrap_err();
    assert!(both.starts_with("Provide either 'url'") && both.ends_with("not both"), "{both}");
    let none = read(r#"{"name":"a"}"#).unwrap_err();
    assert!(none.contains("'url'") && none.contains("'command'"), "{none}");
    let http = read(r#"{"name":"a","url":"http://127.0.0.1:9/mcp","headers":{"Authorization":"Bearer x"}}"#).unwrap();
    let Target::Http { url, headers } = &http.target else { panic!("{http:?}") };
    assert_eq!(
        (url.as_str(), headers[0].0.as_str(), headers[0].1.expose()),
        ("http://127.0.0.1:9/mcp", "Authorization", "Bearer x")
    );
    let child = read(r#"{"name":"a","command":"npx","args":["-y","s"],"env":{"K":"v"},"cwd":"/tmp"}"#).unwrap();
    assert_eq!(shown(&child.target), "stdio://npx -y s");
    assert_eq!(child.restart, Restart::default());
}

#[test]
fn what_is_no_good_is_named() {
    for (text, want) in [
        ("{}", "argument 'name' is required"),
        (r#"{"name":"a b","url":"http://x/"}"#, "argument 'name' is no good: a server name has no ' '"),
        (r#"{"name":"a__b","url":"http://x/"}"#, "argument 'name' is no good: a server name has no \"__\""),
        (r#"{"name":"Landbridge","url":"http://x/"}"#, "argument 'name' is no good: \"landbridge\" is the gateway's"),
        (r#"{"name":"a","url":"ftp://x/"}"#, "argument 'url' is no good: a server url starts with http"),
        (r#"{"name":"a","url":"http://x/","headers":{"A":1}}"#, "argument 'headers' must be an object whose values"),
        (r#"{"name":"a","command":"c","auth":"user"}"#, "argument 'auth' 'user' is for servers with 'url'"),
        (r#"{"name":"a","url":"http://x/","auth":"service"}"#, "argument 'auth' must be 'none' or 'user'"),
        (r#"{"name":"a","url":"http://x/","auth":{"type":"user"}}"#, "argument 'auth' must be a string"),
        (
            r#"{"name":"a","url":"http://x/","auth":"user","headers":{"authorization":"x"}}"#,
            "argument 'auth' 'user' does not go with an Authorization header",
        ),
        (r#"{"name":"a","command":"c","args":"x"}"#, "argument 'args' must be an array of strings, not \"x\""),
        (
            r#"{"name":"a","command":"c","restartConfig":{"maxAttempts":-1}}"#,
            "argument 'maxAttempts' must be an integer from 0 to 1000, not -1",
        ),
        (
            r#"{"name":"a","command":"c","restartConfig":{"backoffMultiplier":0.5}}"#,
            "argument 'backoffMultiplier' must be a number from 1 to 100, not 0.5",
        ),
    ] {
        let message = read(text).unwrap_err();
        assert!(message.starts_with(want), "{text}: {message}");
    }
}

#[test]
fn restarts_have_defaults_one_by_one() {
    let spec = read(r#"{"name":"a","command":"c","restartConfig":{"maxAttempts":2,"baseDelayMs":50}}"#).unwrap();
    let want = Restart { attempts_max: 2, delay_first: Duration::from_millis(50), ..Restart::default() };
    assert_eq!(spec.restart, want);
}

#[test]
fn a_client_may_have_somebody_log_in_and_give_no_credentials_of_ours() {
    let url = r#"{"name":"a","url":"https://x/mcp"}"#;
    let user = r#"{"name":"a","url":"https://x/mcp","auth":"user"}"#;
    let none = r#"{"name":"a","command":"c","auth":"none"}"#;
    for (text, want) in
        [(url, ServerAuth::None), (user, ServerAuth::User(OauthClient::default())), (none, ServerAuth::None)]
    {
        assert_eq!(read(text).map(|spec| spec.auth), Ok(want), "{text}");
    }
}

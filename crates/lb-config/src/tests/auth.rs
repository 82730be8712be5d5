//! `auth`: who logs in at a server.

use insta::assert_snapshot;
use lb_exchange::{OauthClient, Secret, ServerAuth, Target};

use super::{only, pair, read, shown};

fn entry(auth: &str) -> String {
    format!(r#"{{"mcpServers": {{"a": {{"url": "https://a/mcp", "auth": {auth}}}}}}}"#)
}

#[test]
fn every_login_is_read() {
    let client = OauthClient::default;
    let named = || OauthClient { client_id: Some("gw".to_owned()), ..client() };
    let with_secret = || OauthClient { client_secret: Some(Secret::new("hunter2")), ..named() };
    let scopes = vec!["files:read".to_owned(), "x".to_owned()];
    let document = "https://${NONE:-us}/client.json";
    for (auth, want) in [
        (r#""none""#.to_owned(), ServerAuth::None),
        (r#"{"type": "none"}"#.to_owned(), ServerAuth::None),
        (r#""user""#.to_owned(), ServerAuth::User(client())),
        (r#"{"type": "user"}"#.to_owned(), ServerAuth::User(client())),
        (r#"{"type": "user", "client_id": "gw"}"#.to_owned(), ServerAuth::User(named())),
        (
            r#"{"type": "user", "client_id": "gw", "client_secret": "${TOKEN}", "scopes": ["files:read", "x"]}"#
                .to_owned(),
            ServerAuth::User(OauthClient { scopes: scopes.clone(), ..with_secret() }),
        ),
        (
            format!(r#"{{"type": "user", "client_id_metadata_url": "{document}"}}"#),
            ServerAuth::User(OauthClient {
                client_id_metadata_url: Some("https://us/client.json".to_owned()),
                ..client()
            }),
        ),
        (
            r#"{"type": "service", "client_id": "gw", "client_secret": "${TOKEN}", "scopes": []}"#.to_owned(),
            ServerAuth::Service(with_secret()),
        ),
    ] {
        let spec = only(&entry(&auth));
        assert_eq!(spec.auth, want, "input {auth}");
        assert_eq!(spec.target, Target::Http { url: "https://a/mcp".into(), headers: vec![] }, "input {auth}");
        assert!(!format!("{spec:?}").contains("hunter2"), "input {auth}");
    }
    assert_eq!(only(r#"{"mcpServers": {"a": {"command": "a", "auth": "none"}}}"#).auth, ServerAuth::None);
}

#[test]
fn a_secret_that_never_changes_is_a_header() {
    for (auth, want) in [
        (r#"{"type": "static", "value": "Bearer ${TOKEN}"}"#, pair("Authorization", "Bearer hunter2")),
        (r#"{"type": "static", "header": "X-Api-Key", "value": "${TOKEN}"}"#, pair("X-Api-Key", "hunter2")),
    ] {
        let spec = only(&entry(auth));
        assert_eq!(spec.auth, ServerAuth::None, "input {auth}");
        assert_eq!(spec.target, Target::Http { url: "https://a/mcp".into(), headers: vec![want] }, "input {auth}");
    }
}

#[test]
fn what_cannot_be_a_login_is_told_and_never_repeated() {
    let text = r#"{"mcpServers": {
  "a": {"command": "a", "auth": "user"},
  "b": {"url": "https://b", "auth": "usr"},
  "c": {"url": "https://c", "auth": "ghp_hunter2"},
  "d": {"url": "https://d", "auth": "service"},
  "e": {"url": "https://e", "auth": "static"},
  "f": {"url": "https://f", "auth": {"client_id": "x"}},
  "g": {"url": "https://g", "auth": {"type": "sevice", "client_id": "x"}},
  "h": {"url": "https://h", "auth": {"type": "service", "client_id": "x"}},
  "i": {"url": "https://i", "auth": {"type": "user", "client_secret": "${TOKEN}"}},
  "j": {"url": "https://j", "auth": {"type": "user", "scopes": ["a b", "", 7], "client_id": ""}},
  "k": {"url": "https://k", "auth": {"type": "user", "client_id_metadata_url": "http://k/c.json"}},
  "l": {"url": "https://l", "auth": {"type": "user", "client_id": "x", "client_id_metadata_url": "https://k/c.json"}},
  "m": {"url": "https://m", "auth": {"type": "static", "header": "Accept", "value": "${TOKEN}"}},
  "n": {"url": "https://n", "auth": {"type": "static", "header": "X Y", "value": "${BREAK}"}},
  "o": {"url": "https://o", "auth": "user", "headers": {"authorization": "Bearer ${TOKEN}"}},
  "p": {"url": "https://p", "auth": true},
  "q": {"command": "q", "auth": {"type": "static", "value": "${TOKEN}"}},
  "r": {"url": "https://r", "auth": {"type": "static", "value": "${MISSING}"}}
}, "servers": [
  {"name": "s", "url": "https://s", "auth": {"type": "user", "clientId": "x"}}
]}"#;
    let told = shown(&read(text).expect_err(text));
    assert!(!told.contains("hunter2"), "{told}");
    assert_snapshot!(told, @r#"
error: conf/mcp.json:2:25: mcpServers.a.auth: is for servers with "url"
  hint: a program gets its secrets by "env"
error: conf/mcp.json:3:37: mcpServers.b.auth: unknown type
  hint: did you mean "user"?
error: conf/mcp.json:4:37: mcpServers.c.auth: unknown type
  hint: one of none, static, user, service; a secret is written as {"type": "static", "value": "Bearer ${TOKEN}"}
error: conf/mcp.json:5:37: mcpServers.d.auth: "service" needs "client_id" and "client_secret"
  hint: {"type": "service", "client_id": "…", "client_secret": "${SECRET}"}
error: conf/mcp.json:6:37: mcpServers.e.auth: "static" needs "value"
  hint: write {"type": "static", "value": "Bearer ${TOKEN}"}
error: conf/mcp.json:7:37: mcpServers.f.auth: has no "type"
  hint: one of none, static, user, service
error: conf/mcp.json:8:46: mcpServers.g.auth.type: unknown type
  hint: did you mean "service"?
error: conf/mcp.json:9:37: mcpServers.h.auth: "service" needs "client_id" and "client_secret"
  hint: {"type": "service", "client_id": "…", "client_secret": "${SECRET}"}
error: conf/mcp.json:10:37: mcpServers.i.auth: "client_secret" needs "client_id"
  hint: give both, or neither: then we register
error: conf/mcp.json:11:65: mcpServers.j.auth.scopes[0]: is no scope
  hint: one scope for each element, without spaces
error: conf/mcp.json:11:72: mcpServers.j.auth.scopes[1]: is no scope
  hint: one scope for each element, without spaces
error: conf/mcp.json:11:76: mcpServers.j.auth.scopes[2]: must be a string, not a number
  hint: put it in double quotes
error: conf/mcp.json:11:93: mcpServers.j.auth.client_id: must not be empty
error: conf/mcp.json:12:80: mcpServers.k.auth.client_id_metadata_url: must be an https url with a path
error: conf/mcp.json:13:37: mcpServers.l.auth: has either "client_id" or "client_id_metadata_url", not both
  hint: the url of the document is the client id
error: conf/mcp.json:14:66: mcpServers.m.auth.header: is set by landbridge itself
  hint: leave it out for Authorization
error: conf/mcp.json:15:66: mcpServers.n.auth.header: is no name of a header
error: conf/mcp.json:15:82: mcpServers.n.auth.value: holds a control character, which a header cannot
error: conf/mcp.json:16:29: mcpServers.o.auth: sets a header that "headers" sets too
  hint: leave one of them out
error: conf/mcp.json:17:37: mcpServers.p.auth: must be a string or an object, not a boolean
  hint: such as "user", or {"type": "static", "value": "Bearer ${TOKEN}"}
error: conf/mcp.json:18:25: mcpServers.q.auth: is for servers with "url"
  hint: a program gets its secrets by "env"
error: conf/mcp.json:19:65: mcpServers.r.auth.value: the variable MISSING is not set
  hint: set it, or write ${MISSING:-default}
error: conf/mcp.json:21:62: servers[0].auth.clientId: unknown key
  hint: did you mean "client_id"?
"#);
}

#[test]
fn what_has_no_effect_is_said() {
    let text = r#"{"mcpServers": {
  "a": {"url": "https://a", "auth": {"type": "user", "value": "x", "client_Id": "x"}},
  "b": {"url": "https://b", "auth": {"type": "none", "scopes": ["x"]}},
  "c": {"url": "https://c", "auth": {"type": "service", "client_id": "x", "client_secret": "${TOKEN}", "header": "X"}}
}}"#;
    let loaded = read(text).unwrap_or_else(|problems| panic!("{}", shown(&problems)));
    assert_snapshot!(shown(&loaded.warnings), @r#"
warning: conf/mcp.json:2:54: mcpServers.a.auth.value: has no effect beside "type": "user"
warning: conf/mcp.json:2:68: mcpServers.a.auth.client_Id: unknown key
  hint: did you mean "client_id"?
warning: conf/mcp.json:3:54: mcpServers.b.auth.scopes: has no effect beside "type": "none"
warning: conf/mcp.json:4:104: mcpServers.c.auth.header: has no effect beside "type": "service"
"#);
}

//! Who gets in.

use super::{settle, told};
use crate::settings::{People, Rule};

const OIDC: [(&str, &str); 3] = [("auth", "oidc"), ("oidc_issuer", "https://idp.example/"), ("oidc_client_id", "gw")];

#[test]
fn a_login_is_put_together_from_every_place() {
    let toml = "public_url = \"https://gw.example\"\nlisten = \"0.0.0.0:1\"\n[auth]\nby = [\"oidc\", \"keys k.txt\"]\n\
                redirect_schemes = [\"cursor\"]\nregistration = false\nallow = { domains = [\"a.example\"] }\n\
                admins = { groups = [\"ops\"] }\n[[auth.rules]]\nwho = { subjects = [\"x\"] }\nservers = [\"a*\"]\n\
                [[auth.clients]]\nid = \"c\"\nredirect_uris = [\"http://127.0.0.1/cb\"]\n";
    let variables = [
        ("MCP_CONFIG_SERVER_AUTH_AUTH0_DOMAIN", "tenant.auth0.com"),
        ("MCP_CONFIG_SERVER_AUTH_AUTH0_CLIENT_ID", "id"),
        ("MCP_CONFIG_SERVER_AUTH_AUTH0_CLIENT_SECRET", "hush-hush"),
        ("MCP_CONFIG_SERVER_AUTH_AUTH0_SCOPE", "openid profile"),
    ];
    let (settings, gathered) = settle(&[], &variables, toml);
    assert_eq!(told(&gathered), [""; 0]);
    let login = settings.login.expect("a login");
    let oidc = login.oidc.expect("a provider");
    assert_eq!((oidc.issuer.as_str(), oidc.client_id.as_str()), ("https://tenant.auth0.com/", "id"));
    assert_eq!(oidc.scopes, ["profile"]);
    assert_eq!(oidc.client_secret.map(|secret| secret.expose().to_owned()).as_deref(), Some("hush-hush"));
    assert!(login.keys[0].is_absolute() && login.keys[0].ends_with("k.txt"), "{:?}", login.keys);
    let access = login.access;
    assert_eq!(access.allow, Some(People { domains: vec!["a.example".into()], ..People::default() }));
    let who = Some(People { subjects: vec!["x".into()], ..People::default() });
    assert_eq!(access.rules, [Rule { who, servers: vec!["a*".into()], tools: vec!["*".into()] }]);
    assert_eq!((access.clients[0].name.as_str(), access.no_registration), ("c", true));
    let shown = crate::settings::shown(&gathered);
    assert!(shown.contains("domains a.example") && shown.contains("auth.rules") && !shown.contains("hush"), "{shown}");
}

#[test]
fn a_login_can_be_set_up_by_the_variables_of_old_alone() {
    let variables = [
        ("MCP_CONFIG_SERVER_AUTH_ENABLED", "true"),
        ("MCP_CONFIG_SERVER_AUTH_PROVIDER", "oidc"),
        ("MCP_CONFIG_SERVER_AUTH_BASE_URL", "https://gw.example"),
        ("MCP_CONFIG_SERVER_AUTH_JWT_SECRET", "0123456789abcdef0123456789abcdef-of-ours"),
        ("MCP_CONFIG_SERVER_AUTH_OIDC_ISSUER", "https://idp.example"),
        ("MCP_CONFIG_SERVER_AUTH_OIDC_CLIENT_ID", "id"),
        ("MCP_CONFIG_SERVER_AUTH_OIDC_CLIENT_SECRET", "hush-hush"),
        ("MCP_CONFIG_SERVER_AUTH_OIDC_AUDIENCE", "everybody"),
        ("MCP_CONFIG_SERVER_AUTH_OIDC_SCOPE", "openid email"),
        ("MCP_CONFIG_SERVER_AUTH_SESSION_TTL", "120"),
        ("MCP_CONFIG_SERVER_AUTH_TOKEN_TTL", "3600"),
        ("MCP_CONFIG_SERVER_AUTH_REFRESH_TOKEN_TTL", "604800"),
        ("LANDBRIDGE_ALLOW_ANY_USER", "true"),
    ];
    let (settings, gathered) = settle(&[], &variables, "");
    assert_eq!(told(&gathered), [""; 0]);
    assert_eq!(settings.public_url.as_deref(), Some("https://gw.example"));
    let login = settings.login.expect("a login");
    let lives = [login.login_ttl, login.token_ttl, login.refresh_token_ttl].map(|life| life.as_secs());
    assert_eq!(lives, [120, 3_600, 604_800]);
    let oidc = login.oidc.expect("a provider");
    assert_eq!((oidc.issuer.as_str(), oidc.client_id.as_str()), ("https://idp.example", "id"));
    assert_eq!((oidc.audience.as_deref(), oidc.scopes), (Some("everybody"), vec!["email".to_owned()]));
    assert!(oidc.client_secret.is_some_and(|secret| secret.expose() == "hush-hush"));
    let (off, _) = settle(&[], &[("MCP_CONFIG_SERVER_AUTH_ENABLED", "false")], "");
    assert!(off.login.is_none());
}

#[test]
fn what_is_missing_or_unsafe_is_told() {
    let said = |flags: &[(&'static str, &str)], toml: &str| {
        let (_, gathered) = settle(flags, &[], toml);
        told(&gathered).join("\n")
    };
    let with = |more: &[(&'static str, &'static str)]| [&OIDC[..], &[("allow_any_user", "")], more].concat();
    assert_eq!(said(&with(&[]), ""), "");
    for (flags, toml, part) in [
        (OIDC.to_vec(), "", "--allow-any-user"),
        (OIDC.to_vec(), "[auth.allow]\n", "--allow-any-user"),
        (vec![("auth", "oidc"), ("allow_any_user", "")], "", "--oidc-client-id"),
        (with(&[("listen", "0.0.0.0:1")]), "", "--public-url"),
        (with(&[("public_url", "http://gw.example")]), "", "without TLS"),
        (with(&[("mcp_path", "/other")]), "", "for /mcp"),
        (with(&[("insecure_no_auth", "")]), "", "opposite"),
        (with(&[("token_ttl", "2d")]), "", "give 1 day at most"),
        (with(&[("refresh_token_ttl", "31d")]), "", "give 30 days at most"),
        (with(&[("login_ttl", "5s")]), "", "login"),
        (with(&[("login_ttl", "11m")]), "", "give 10 minutes at most"),
        (with(&[]), "[auth]\nallow = 7\n", "landbridge.toml:2:1: auth.allow: give a section"),
        (with(&[]), "[auth]\nalow = {}\n", "did you mean allow?"),
        (with(&[]), "[[auth.rules]]\nserver = \"x\"\n", "did you mean servers?"),
        (with(&[]), "[[auth.clients]]\nid = \"x\"\n", "redirect_uris"),
        (with(&[]), "[auth]\nallow = { groups = [1] }\n", "auth.allow.groups: give an array of texts"),
        // Anybody can use any client: it makes nobody a guest or an administrator.
        (with(&[]), "[auth]\nallow = { clients = [\"c\"] }\n", "auth.allow: clients stand in auth.rules only"),
        (with(&[]), "[auth]\nadmins = { clients = [\"c\"] }\n", "auth.admins: clients stand in auth.rules only"),
    ] {
        let said = said(&flags, toml);
        assert!(said.contains(part), "{flags:?} {toml}: {said}");
    }
}

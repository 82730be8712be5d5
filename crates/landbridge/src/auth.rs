//! Who gets in: what the settings say, put together for whoever checks requests.

pub mod behind;
pub mod command;
pub mod fetch;
mod landing;
pub mod login;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lb_auth::{ApiKeys, Auth, DocumentHosts, Hash, Keys, KnownClient, People, Ports, Provider, Rule, Rules, Secret};
use lb_backend::{Anchors, Trust};
use lb_config::settings::{self, Access, Login, Oidc, Settings};
use lb_http::Network;
use lb_store::Store;

use self::fetch::Outbound;
use crate::logs;
use crate::run::Failure;

/// What people are sent to and programs are checked by.
///
/// # Errors
/// What must be changed first.
pub fn build(
    login: &Login,
    settings: &Settings,
    public_url: &str,
    keys: &[lb_exchange::Secret],
    store: Arc<dyn Store>,
) -> Result<Arc<Auth>, Failure> {
    let trust = login.outbound_ca.clone().map_or(Trust::Usual, Trust::Also);
    let anchors = Anchors::read(&trust).map_err(|error| Failure::usage(format!("--outbound-ca: {error}")))?;
    let network = |(address, length): &(std::net::IpAddr, u8)| Network::around(*address, *length);
    let ports = Ports {
        store,
        documents: Arc::new(Outbound::public(anchors.clone(), login.cimd_allow.iter().map(network).collect())),
        provider: Arc::new(Outbound::anywhere(anchors)),
    };
    let access = &login.access;
    let secret = login.oidc.as_ref().and_then(|oidc| oidc.client_secret.as_ref());
    let known = [secret, settings.operator_token.as_ref()].into_iter().flatten();
    logs::hide_texts(known.map(|secret| secret.expose().to_owned()).collect());
    let provider = login.oidc.as_ref().map(provider).transpose().map_err(Failure::usage)?;
    let wanted = lb_auth::Settings {
        name: settings.name.clone().unwrap_or_else(|| "landbridge".to_owned()),
        provider,
        rules: rules(access),
        allow_any_user: login.allow_any_user,
        api_keys: api_keys(&login.keys).map_err(Failure::usage)?,
        operator_token: settings.operator_token.as_ref().map(|token| Secret::new(token.expose())),
        clients: access.clients.iter().map(client).collect(),
        redirect_schemes: access.redirect_schemes.clone(),
        registration: !access.no_registration,
        documents: match &access.document_hosts {
            None => DocumentHosts::Any,
            Some(hosts) if hosts.is_empty() => DocumentHosts::None,
            Some(hosts) => DocumentHosts::Only(hosts.clone()),
        },
        origins: settings.allow_origin.clone(),
        lives: lb_auth::Lives { access: login.token_ttl, refresh: login.refresh_token_ttl, login: login.login_ttl },
        ..lb_auth::Settings::new(public_url)
    };
    let wrong = |error: lb_auth::KeyError| Failure::usage(format!("LANDBRIDGE_KEY or --key-file: {error}"));
    let keys = match keys {
        // Tokens end with the process, as everything else does.
        [] => Keys::new(Secret::random().expose().as_bytes(), None),
        [key, before @ ..] => {
            Keys::new(key.expose().as_bytes(), before.first().map(|before| before.expose().as_bytes()))
        }
    };
    let auth = Auth::new(wanted, keys.map_err(wrong)?, ports);
    auth.map(Arc::new).map_err(|error| Failure::usage(format!("nobody can log in: {error}")))
}

/// Takes up other rules, keys, origins and the operator's token.
///
/// # Errors
/// Why the keys stay as they are.
pub fn reload(auth: &Auth, login: &Login, settings: &Settings) -> Result<(), String> {
    let operator = settings.operator_token.as_ref().map(|token| Secret::new(token.expose()));
    logs::hide_texts(operator.iter().map(|token| token.expose().to_owned()).collect());
    auth.set_operator_token(operator.as_ref());
    auth.set_origins(settings.allow_origin.clone());
    // First: a file of keys that cannot be read lets nobody stay whom the rules do not name any more.
    auth.set_rules(rules(&login.access));
    auth.set_api_keys(api_keys(&login.keys)?);
    Ok(())
}

/// What of the access that the files say now holds from the next start on, by the names it has there.
pub fn left(now: &Access, before: &Access) -> Vec<&'static str> {
    let changed = [
        ("auth.clients", now.clients != before.clients),
        ("auth.redirect_schemes", now.redirect_schemes != before.redirect_schemes),
        ("auth.document_hosts", now.document_hosts != before.document_hosts),
        ("auth.registration", now.no_registration != before.no_registration),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}

/// Whether anything of it was taken up.
pub fn is_reloaded(now: &Access, before: &Access) -> bool {
    now.allow != before.allow || now.admins != before.admins || now.rules != before.rules
}

/// The keys of all files.
///
/// # Errors
/// Which file cannot be used, and why.
pub fn api_keys(files: &[PathBuf]) -> Result<ApiKeys, String> {
    let mut all = String::new();
    for file in files {
        let text = text_of(file)?;
        ApiKeys::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        all += &text;
        all += "\n";
    }
    // Each is fine by itself, so that what is wrong is that two say the same.
    ApiKeys::parse(&all).map_err(|error| format!("two files of keys: {}", error.why))
}

/// The secret of a file.
///
/// # Errors
/// Why there is none.
pub fn secret_of(file: &Path) -> Result<Secret, String> {
    let text = text_of(file)?;
    let secret = text.trim();
    if secret.is_empty() || secret.contains(char::is_whitespace) {
        return Err(format!("{} does not hold one secret", file.display()));
    }
    settings::check_secret(secret).map_err(|why| format!("{}: {why}", file.display()))?;
    Ok(Secret::new(secret))
}

/// What a file says that decides who gets in: nobody else may write to it.
fn text_of(file: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{} cannot be read: {error}", file.display());
    let mode = std::fs::metadata(file).map_err(failed)?.permissions().mode();
    if mode & 0o022 != 0 {
        return Err(format!("others may write to {file}: run chmod go-w {file}", file = file.display()));
    }
    std::fs::read_to_string(file).map_err(failed)
}

fn provider(oidc: &Oidc) -> Result<Provider, String> {
    let client_secret = match (&oidc.client_secret, &oidc.client_secret_file) {
        (Some(secret), _) => Some(Secret::new(secret.expose())),
        (None, Some(file)) => Some(secret_of(file)?),
        (None, None) => None,
    };
    let authority = oidc.issuer.split_once("://").map_or(oidc.issuer.as_str(), |(_, rest)| rest);
    Ok(Provider {
        issuer: oidc.issuer.clone(),
        name: authority.split('/').next().unwrap_or_default().to_owned(),
        client_id: oidc.client_id.clone(),
        client_secret,
        scopes: oidc.scopes.clone(),
        parameters: oidc.audience.iter().map(|audience| ("audience".to_owned(), audience.clone())).collect(),
        groups_claim: oidc.groups_claim.clone(),
    })
}

fn rules(access: &Access) -> Rules {
    let rule = |rule: &settings::Rule| Rule {
        who: rule.who.as_ref().map(people),
        servers: rule.servers.clone(),
        tools: rule.tools.clone(),
    };
    // Nobody named is nobody said: with a login that is refused, unless everybody shall be let in.
    let allow = access.allow.as_ref().filter(|allow| !allow.is_empty()).map(people);
    Rules { allow, admins: people(&access.admins), permit: access.rules.iter().map(rule).collect() }
}

fn people(people: &settings::People) -> People {
    let settings::People { subjects, domains, groups, clients } = people.clone();
    People { subjects, domains, groups, clients }
}

fn client(client: &settings::KnownClient) -> KnownClient {
    KnownClient {
        id: client.id.clone(),
        name: client.name.clone(),
        redirect_uris: client.redirect_uris.clone(),
        secret: client.secret_sha256.as_deref().and_then(Hash::from_hex),
    }
}

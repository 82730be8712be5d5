//! Who gets in, checked: at a provider, by keys, or both.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use lb_exchange::Secret;

use super::access::{Access, People};
use super::gather::{Gathered, Place};
use super::kind::Value;
use super::listen::{Address, is_loopback};
use super::table::OFF;
use super::typed::{home, url_host};

/// Who gets in.
#[derive(Clone, Debug)]
pub struct Login {
    /// The provider that people log in at.
    pub oidc: Option<Oidc>,
    /// Files with the keys of programs.
    pub keys: Vec<PathBuf>,
    /// Who may do what.
    pub access: Access,
    /// Whether everybody is let in whom the provider knows.
    pub allow_any_user: bool,
    /// Networks whose documents are read although they are not public.
    pub cimd_allow: Vec<(IpAddr, u8)>,
    /// Further certificates to trust.
    pub outbound_ca: Option<PathBuf>,
    /// How long an access token is good.
    pub token_ttl: Duration,
    /// The same of a refresh token that is not used.
    pub refresh_token_ttl: Duration,
    /// How long somebody may take to log in.
    pub login_ttl: Duration,
}

/// A provider, and what we are to it.
#[derive(Clone, Debug)]
pub struct Oidc {
    /// Its issuer, byte for byte.
    pub issuer: String,
    /// Our client id there.
    pub client_id: String,
    /// Our secret there.
    pub client_secret: Option<Secret>,
    /// A file with that.
    pub client_secret_file: Option<PathBuf>,
    /// What is asked of it beside `openid`.
    pub scopes: Vec<String>,
    /// The claim that has the groups.
    pub groups_claim: String,
    /// What it wants as `audience`.
    pub audience: Option<String>,
}

/// How somebody gets in.
enum Way {
    Oidc,
    Keys(PathBuf),
}

impl Login {
    /// Puts checked values together, and says what does not fit; `None` when there is no login.
    pub(super) fn settle(gathered: &mut Gathered, address: &Address) -> Option<Self> {
        let ways = ways(gathered);
        if ways.is_empty() {
            return None;
        }
        let mut keys = Vec::new();
        let mut is_oidc = false;
        for way in ways {
            match way {
                Way::Oidc => is_oidc = true,
                Way::Keys(path) => keys.push(path),
            }
        }
        if gathered.switch("insecure_no_auth") {
            refuse(gathered, "insecure_no_auth", "says the opposite of --auth", "leave one of them out");
        }
        let oidc = if is_oidc { Oidc::settle(gathered, address) } else { None };
        Some(Self {
            oidc,
            keys,
            access: gathered.access.clone(),
            allow_any_user: gathered.switch("allow_any_user"),
            cimd_allow: gathered.networks("cimd_allow"),
            outbound_ca: gathered.text("outbound_ca").map(|path| home(&path, gathered)),
            token_ttl: life(gathered, "token_ttl", 15 * MINUTE, (DAY, "1 day")),
            refresh_token_ttl: life(gathered, "refresh_token_ttl", 7 * DAY, (30 * DAY, "30 days")),
            login_ttl: life(gathered, "login_ttl", 10 * MINUTE, (10 * MINUTE, "10 minutes")),
        })
    }
}

const MINUTE: u64 = 60;
const DAY: u64 = 86_400;

/// How long something is good, in seconds: what is said, and no more than the most.
fn life(gathered: &mut Gathered, key: &'static str, usual: u64, (most, in_words): (u64, &str)) -> Duration {
    let said = gathered.time(key, usual);
    if Duration::from_secs(most) < said {
        refuse(gathered, key, "is too long", &format!("give {in_words} at most"));
    }
    said
}

impl Oidc {
    fn settle(gathered: &mut Gathered, address: &Address) -> Option<Self> {
        check_public_url(gathered, address);
        let names_nobody = gathered.access.allow.as_ref().is_none_or(People::is_empty);
        if names_nobody && !gathered.switch("allow_any_user") {
            let message = "everybody whom the provider knows would be let in: nothing says who may be";
            let hint = "in the file of settings, write [auth.allow] with subjects, domains or groups; or say \
                        --allow-any-user";
            refuse(gathered, "auth", message, hint);
        }
        if gathered.text("mcp_path").is_some_and(|path| path != "/mcp") {
            refuse(gathered, "mcp_path", "tokens of a login are for /mcp", "leave it out");
        }
        let secret_file = gathered.text("oidc_client_secret_file").map(|path| home(&path, gathered));
        let client_secret = gathered.text("oidc_client_secret").map(Secret::new);
        if secret_file.is_some() && client_secret.is_some() {
            let message = "LANDBRIDGE_OIDC_CLIENT_SECRET says the same";
            refuse(gathered, "oidc_client_secret_file", message, "give one of them");
        }
        let (issuer, client_id) = (gathered.text("oidc_issuer"), gathered.text("oidc_client_id"));
        for (value, flag) in [(&issuer, "--oidc-issuer URL"), (&client_id, "--oidc-client-id ID")] {
            if value.is_none() {
                refuse(gathered, "auth", "oidc needs a provider to log in at", &format!("give {flag}"));
            }
        }
        let mut issuer = issuer?;
        if gathered.is("auth_provider", "auth0") && !issuer.ends_with('/') {
            issuer.push('/');
        }
        if !is_safe(&issuer) {
            let message = format!("{issuer} cannot be used: what it says could be changed on the way");
            gathered.refuse("oidc_issuer", message, Some("use https; http is for this machine only".to_owned()));
        }
        let scopes: Vec<String> = match gathered.list("oidc_scopes") {
            none if none.is_empty() => ["profile", "email"].map(str::to_owned).into(),
            // Variables of old have them between spaces.
            said => said.iter().flat_map(|scopes| scopes.split_whitespace()).map(str::to_owned).collect(),
        };
        Some(Self {
            issuer,
            client_id: client_id?,
            client_secret,
            client_secret_file: secret_file,
            scopes: scopes.into_iter().filter(|scope| scope != "openid").collect(),
            groups_claim: gathered.text("oidc_groups_claim").unwrap_or_else(|| "groups".to_owned()),
            audience: gathered.text("oidc_audience"),
        })
    }
}

/// Tokens name where they are for, and browsers are sent there.
fn check_public_url(gathered: &mut Gathered, address: &Address) {
    let key = if gathered.held.contains_key("public_url") { "public_url" } else { "auth_base_url" };
    match gathered.text(key) {
        Some(url) if !is_safe(&url) => {
            let message = format!("{url} cannot be used: tokens would travel without TLS");
            gathered.refuse(key, message, Some("use https; http is for this machine only".to_owned()));
        }
        None if !address.listen.is_local() => {
            let message = "clients must be told where this is reached from elsewhere";
            refuse(gathered, "auth", message, "give --public-url https://HOST");
        }
        _ => {}
    }
}

/// Whether nobody on the way can change what is said there.
fn is_safe(url: &str) -> bool {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest).split('/').next().unwrap_or_default();
    url.starts_with("https://") || url_host(&format!("http://{authority}")).is_some_and(|host| is_loopback(&host))
}

/// How people and programs get in; `keys` and its file may be one word or two.
fn ways(gathered: &mut Gathered) -> Vec<Way> {
    let Some(held) = gathered.held.get("auth").cloned() else { return Vec::new() };
    let Value::List(said) = &held.value else { return Vec::new() };
    let (mut found, mut words) = (Vec::new(), said.iter());
    while let Some(word) = words.next() {
        let lower = word.to_ascii_lowercase();
        let file = ["keys ", "keys:", "keys="].iter().find_map(|start| word.strip_prefix(start)).map(str::trim);
        match (lower.as_str(), file) {
            ("oidc" | "auth0" | "true" | "1" | "yes" | "on", _) => found.push(Way::Oidc),
            (off, _) if OFF.contains(&off) => {}
            ("keys", _) => match words.next() {
                Some(file) => found.push(Way::Keys(keys_path(gathered, &held.place, file))),
                None => refuse(gathered, "auth", "keys stand in a file", "give --auth keys FILE"),
            },
            (_, Some(file)) if !file.is_empty() => found.push(Way::Keys(keys_path(gathered, &held.place, file))),
            _ => gathered.refuse("auth", format!("{word:?} cannot be used: give oidc, or keys and a file"), None),
        }
    }
    found
}

/// A path of the file of settings starts where that is.
fn keys_path(gathered: &Gathered, place: &Place, file: &str) -> PathBuf {
    match (place, &gathered.folder) {
        (Place::File { .. }, Some(folder)) if !file.starts_with('~') => folder.join(file),
        _ => home(file, gathered),
    }
}

fn refuse(gathered: &mut Gathered, key: &str, message: &str, hint: &str) {
    gathered.refuse(key, message.to_owned(), Some(hint.to_owned()));
}

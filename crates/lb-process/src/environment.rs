//! Which environment variables a program gets.
//!
//! Reads no environment itself: the caller hands over the variables to choose from.

use std::ffi::{OsStr, OsString};

/// How much of our own environment a program inherits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inherit {
    /// The variables that programs need to find their home, their tools and the network.
    #[default]
    Listed,
    /// Everything but our own settings.
    All,
}

/// Names that pass under [`Inherit::Listed`], beside those of `LISTED_PREFIXES`.
const LISTED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TMPDIR",
    "TERM",
    // Proxies, in both spellings that programs read.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    // Certificates: OpenSSL, Node, Python, curl, git, Deno, cargo, AWS.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "DENO_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
];

const LISTED_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// Without these, programs on Windows find neither their folders nor the system's libraries.
const LISTED_WINDOWS: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Our own settings, secrets among them: never inherited.
const OWN_PREFIXES: &[&str] = &["LANDBRIDGE_", "MCP_CONFIG_"];

/// The environment of a program: what `inherit` lets through of `from`, then `added`, which wins.
///
/// `LANDBRIDGE_*` and `MCP_CONFIG_*` are never inherited; `added` may name them, because then the operator wrote them
/// for this very program. Each name occurs once in the result.
pub fn environment(
    added: &[(String, String)],
    inherit: Inherit,
    from: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let mut chosen: Vec<(OsString, OsString)> = from.filter(|(name, _)| passes(name, inherit)).collect();
    for (name, value) in added {
        chosen.retain(|(earlier, _)| !same_name(earlier, OsStr::new(name)));
        chosen.push((name.into(), value.into()));
    }
    chosen
}

fn passes(name: &OsStr, inherit: Inherit) -> bool {
    // No name we list or guard holds bytes outside UTF-8, so the lossy form decides the same.
    let name = name.to_string_lossy();
    // Windows keeps its current folders in names such as `=C:`; no program can be given such a name.
    if name.is_empty() || name.contains('=') || OWN_PREFIXES.iter().any(|own| starts_with(&name, own)) {
        return false;
    }
    match inherit {
        Inherit::All => true,
        Inherit::Listed => {
            LISTED.iter().any(|listed| same_text(&name, listed))
                || LISTED_PREFIXES.iter().any(|prefix| starts_with(&name, prefix))
                || (cfg!(windows) && LISTED_WINDOWS.iter().any(|listed| same_text(&name, listed)))
        }
    }
}

fn same_name(one: &OsStr, other: &OsStr) -> bool {
    one == other || (cfg!(windows) && one.eq_ignore_ascii_case(other))
}

fn same_text(name: &str, listed: &str) -> bool {
    name == listed || (cfg!(windows) && name.eq_ignore_ascii_case(listed))
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|head| same_text(head, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_listed_and_our_own_settings_never_do() {
        let table = [
            // (name, passes when listed, passes when all)
            ("PATH", true, true),
            ("HOME", true, true),
            ("USER", true, true),
            ("LOGNAME", true, true),
            ("SHELL", true, true),
            ("LANG", true, true),
            ("LC_ALL", true, true),
            ("LC_CTYPE", true, true),
            ("TMPDIR", true, true),
            ("TERM", true, true),
            ("XDG_RUNTIME_DIR", true, true),
            ("HTTPS_PROXY", true, true),
            ("no_proxy", true, true),
            ("SSL_CERT_FILE", true, true),
            ("NODE_EXTRA_CA_CERTS", true, true),
            ("AWS_SECRET_ACCESS_KEY", false, true),
            ("LD_PRELOAD", false, true),
            ("PATHS", false, true),
            ("XPATH", false, true),
            ("L", false, true),
            ("LANDBRIDGE_KEY", false, false),
            ("LANDBRIDGE_", false, false),
            ("MCP_CONFIG_AUTH_JWT_SECRET", false, false),
            ("=C:", false, false),
            ("", false, false),
        ];
        for (name, listed, all) in table {
            for (inherit, want) in [(Inherit::Listed, listed), (Inherit::All, all)] {
                let got = environment(&[], inherit, [(name.into(), "x".into())].into_iter());
                assert_eq!(!got.is_empty(), want, "name {name:?}, {inherit:?}");
            }
        }
    }

    #[test]
    fn added_variables_win_and_occur_once() {
        let from = [("PATH".into(), "/bin".into()), ("HOME".into(), "/root".into())];
        let added = [
            ("PATH".into(), "/opt/bin".into()),
            ("TOKEN".into(), "1".into()),
            ("TOKEN".into(), "2".into()),
            ("LANDBRIDGE_SETTINGS".into(), "inner.toml".into()),
        ];
        let got = environment(&added, Inherit::Listed, from.into_iter());
        let want = [("HOME", "/root"), ("PATH", "/opt/bin"), ("TOKEN", "2"), ("LANDBRIDGE_SETTINGS", "inner.toml")];
        assert_eq!(got, want.map(|(name, value)| (name.into(), value.into())));
    }
}

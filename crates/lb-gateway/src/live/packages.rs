//! Programs that fetch another program first: a client over HTTP names exactly which.

use std::path::Path;

/// Runners, and what stands between a package and its version.
const RUNNERS: &[(&str, &[&str])] =
    &[("npx", &["@"]), ("bunx", &["@"]), ("pnpx", &["@"]), ("uvx", &["==", "@"]), ("pipx", &["=="])];
/// Options that change nothing about what is fetched.
const HARMLESS: &[&str] = &["-y", "--yes", "-q", "--quiet", "--silent", "run"];
/// Options whose value is a package.
const NAMING: &[&str] = &["-p", "--package", "--from", "--spec"];

/// Whether what a runner of packages would fetch is named with its exact version. Other programs fetch nothing.
///
/// # Errors
/// What to write instead.
pub(crate) fn check(command: &str, args: &[String]) -> Result<(), String> {
    let name = Path::new(command).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.strip_suffix(".cmd").or_else(|| name.strip_suffix(".exe")).unwrap_or(name);
    let Some((runner, signs)) = RUNNERS.iter().find(|(runner, _)| *runner == name) else { return Ok(()) };
    let advice = || {
        let sign = signs.first().unwrap_or(&"@");
        format!("over HTTP, {runner} needs a package with its exact version, as in some-package{sign}1.2.3")
    };
    let mut named = false;
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        let package = match option {
            _ if HARMLESS.contains(&word) => continue,
            _ if NAMING.contains(&option) => value.or_else(|| words.next()).ok_or_else(advice)?,
            // What follows the package that an option named is the program in it, and what follows a package is its own.
            _ if word.starts_with('-') => return Err(format!("{}; {option} cannot be used", advice())),
            _ if named => return Ok(()),
            _ => word,
        };
        if !is_pinned(package, signs) {
            return Err(advice());
        }
        if !NAMING.contains(&option) {
            return Ok(());
        }
        named = true;
    }
    if named { Ok(()) } else { Err(advice()) }
}

fn is_pinned(package: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| package.rsplit_once(sign).is_some_and(|(name, version)| is_name(name) && is_exact(version)))
}

/// A name as registries have them, with a scope or without.
fn is_name(name: &str) -> bool {
    let part = |part: &str| {
        let body = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric()) && part.bytes().all(body)
    };
    match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name),
    }
}

/// One version, no range and no tag.
fn is_exact(version: &str) -> bool {
    let starts = version.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    let dots = version.split('.').count();
    let body = |byte: u8| byte.is_ascii_alphanumeric() || b".-+".contains(&byte);
    starts && 2 <= dots && version.bytes().all(body) && !version.split('.').any(|part| part == "x" || part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_of_packages_need_an_exact_version() {
        for (line, want) in [
            ("npx -y some-package@1.2.3", true),
            ("npx @scope/some-package@1.2.3-rc.1 --flag ../x", true),
            ("/usr/bin/npx --yes -p some-package@1.0.0 program --x", true),
            ("npx --package=some-package@1.0.0 program", true),
            ("uvx some-package==1.2", true),
            ("uvx some_package@2025.1.0 --repository /tmp", true),
            ("uvx --from some-package==1.2.0 program", true),
            ("pipx run some-package==1.2.0", true),
            ("node ../server.js", true),
            ("sh -c true", true),
            ("npx", false),
            ("npx -y", false),
            ("npx -y some-package", false),
            ("npx some-package@latest", false),
            ("npx some-package@^1.2.3", false),
            ("npx some-package@1", false),
            ("npx some-package@1.x", false),
            ("npx -y ../evil;x@1.0.0", false),
            ("npx https://example.com/x@1.0.0", false),
            ("npx -c true some-package@1.2.3", false),
            ("npx --registry=http://x some-package@1.2.3", false),
            ("npx -p some-package program", false),
            ("uvx some-package", false),
            ("uvx --from git+https://example.com/x program", false),
        ] {
            let mut words = line.split(' ').map(str::to_owned);
            let command = words.next().unwrap_or_default();
            let args: Vec<_> = words.collect();
            assert_eq!(check(&command, &args).is_ok(), want, "{line}");
        }
    }
}

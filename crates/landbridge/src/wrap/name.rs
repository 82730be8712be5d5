//! What a wrapped server is called when nobody says.

use std::path::Path;

use super::Wrap;

/// The name given, else the one that the command suggests; only `[A-Za-z0-9_-]`.
pub fn name(settings: &Wrap) -> String {
    match settings.name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => plain(name),
        None => plain(&inferred(&settings.command)),
    }
}

/// Every other character as `_`.
fn plain(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

fn inferred(command: &[String]) -> String {
    let Some((program, args)) = command.split_first() else { return String::new() };
    let file = stem_or_name(program);
    let first = args.iter().find(|arg| !arg.starts_with('-'));
    let suggested = match file.as_str() {
        "npx" | "bunx" | "pnpx" | "uvx" => package(args),
        python if python.starts_with("python") => module(args).or_else(|| first.map(|script| stem(script))),
        _ => first.filter(|arg| arg.ends_with(".sh")).map(|script| stem(script)),
    };
    suggested.unwrap_or(file)
}

/// The package that such a program runs, without its version.
fn package(args: &[String]) -> Option<String> {
    let after = |flags: &[&str]| {
        let at = args.iter().position(|arg| flags.contains(&arg.as_str()))?;
        args.get(at + 1)
    };
    let named = after(&["-p", "--package", "--from"]).map(String::as_str);
    let joined = args.iter().find_map(|arg| arg.strip_prefix("--package=").or_else(|| arg.strip_prefix("--from=")));
    let package = named.or(joined).or_else(|| args.iter().map(String::as_str).find(|arg| !arg.starts_with('-')))?;
    // The first `@` of a scoped name is not that of a version.
    let scoped = usize::from(package.starts_with('@'));
    let end = package.char_indices().skip(scoped).find(|(_, c)| *c == '@').map_or(package.len(), |(at, _)| at);
    package.get(..end).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The module of `python -m MODULE`.
fn module(args: &[String]) -> Option<String> {
    let first = args.iter().position(|arg| arg == "-m" || !arg.starts_with('-'))?;
    let is_module = args.get(first).is_some_and(|arg| arg == "-m");
    args.get(first + 1).filter(|_| is_module).cloned()
}

fn stem(path: &str) -> String {
    Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The stem of a shell script, else the name of a file.
fn stem_or_name(program: &str) -> String {
    if program.ends_with(".sh") {
        return stem(program);
    }
    Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_suggests_a_name() {
        for (command, want) in [
            ("npx -y @modelcontextprotocol/server-memory", "_modelcontextprotocol_server-memory"),
            ("npx -y @scope/pkg@1.2.3 --flag", "_scope_pkg"),
            ("npx server-x@latest", "server-x"),
            ("npx -p @a/b tool", "_a_b"),
            ("npx --package=@a/b tool", "_a_b"),
            ("uvx mcp-server-time", "mcp-server-time"),
            ("uvx --from pkg tool", "pkg"),
            ("python server.py --port 1", "server"),
            ("/usr/bin/python3.12 -u /srv/my server.v2.py", "my"),
            ("python3 -m mcp_server_git", "mcp_server_git"),
            ("python3 -u -m pkg.mod x.py", "pkg_mod"),
            ("bash /srv/run-it.sh", "run-it"),
            ("./start.here.sh a", "start_here"),
            ("/usr/local/bin/mcp-thing -v", "mcp-thing"),
            ("node server.js", "node"),
            ("npx", "npx"),
            ("python", "python"),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(plain(&inferred(&words)), want, "command {command:?}");
        }
    }
}

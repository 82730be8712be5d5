//! What a person sees at start: where to point a client, what to paste, what is behind.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use lb_config::settings::Settings;
use lb_exchange::{ServerSpec, Target};
use lb_gateway::{Defined, DefinedBy};

use crate::cli::SurfaceName;
use crate::run::quoted;

/// Where it listens.
pub enum Reached {
    /// An address.
    Address {
        /// The address.
        address: SocketAddr,
        /// `http` or `https`.
        scheme: &'static str,
    },
    /// A socket of this machine.
    Socket(PathBuf),
}

impl Reached {
    /// The line that tools look for.
    pub fn listening(&self) -> String {
        match self {
            Self::Address { address, scheme } => format!("listening on {scheme}://{address}"),
            Self::Socket(path) => format!("listening on unix:{}", path.display()),
        }
    }

    /// What stands before a path in a URL that leads here.
    pub fn root(&self) -> String {
        match self {
            Self::Address { address, scheme } => {
                // Nobody can connect to "any address". That of version 6 takes version 4 too, as systems are set up.
                let any = address.ip().is_unspecified();
                let shown = if any { (Ipv4Addr::LOCALHOST, address.port()).into() } else { *address };
                format!("{scheme}://{shown}")
            }
            Self::Socket(_) => "http://localhost".to_owned(),
        }
    }
}

/// The banner, for stderr: where it listens, first what clients are pointed at.
pub fn banner(
    at: &[Reached],
    surface: SurfaceName,
    servers: &[ServerSpec],
    added: &[Defined],
    settings: &Settings,
) -> String {
    let mut text = format!("landbridge {}\n", env!("CARGO_PKG_VERSION"));
    if let Some(name) = &settings.name {
        text = format!("{name} ({})\n", text.trim_end());
    }
    if let Some(description) = &settings.description {
        text += &format!("{description}\n");
    }
    for at in at {
        text += &format!("{}\n", at.listening());
    }
    let Some(at) = at.first() else { return text };
    let is_any = matches!(at, Reached::Address { address, .. } if address.ip().is_unspecified());
    if is_any && settings.public_url.is_none() {
        text += "other names and addresses of this machine need --allow-host NAME\n";
    }
    text += &paths(at, surface, servers, settings);
    text += "\nBehind it\n";
    for server in servers {
        text += &format!("  {:<12} {}\n", server.name.to_string(), describe(server));
    }
    for server in added {
        let by = match server.by {
            DefinedBy::Config => continue,
            DefinedBy::Operator => "added by an operator",
            DefinedBy::Principal(_) => "added by a client",
        };
        text += &format!("  {:<12} {}   {by}\n", server.name.to_string(), server.address);
    }
    if servers.is_empty() && added.iter().all(|server| server.by == DefinedBy::Config) {
        text += "  nothing yet: a client adds servers with the tool add_server\n";
    }
    if settings.public_url.is_none() && settings.login.is_none() {
        text += &match at {
            Reached::Address { address, .. } if address.ip().is_loopback() => {
                format!("\nSee what is called at {}/waterfall\n", at.root())
            }
            Reached::Address { .. } | Reached::Socket(_) => String::new(),
        };
    }
    text += "\nStop with Ctrl-C.\n";
    text
}

/// What to point a client at, and what to paste.
fn paths(at: &Reached, surface: SurfaceName, servers: &[ServerSpec], settings: &Settings) -> String {
    let shown = settings.public_url.clone().unwrap_or_else(|| at.root());
    let base = format!("{shown}{}", settings.mcp_path);
    let each = |server: &ServerSpec| (server.name.to_string(), format!("{base}/server/{}", server.name));
    let (paths, more): (Vec<_>, Vec<_>) = match (surface, servers) {
        (SurfaceName::Tools, _) => (vec![("landbridge".to_owned(), base.clone())], servers.iter().map(each).collect()),
        (SurfaceName::Server, [only]) => (vec![(only.name.to_string(), base.clone())], Vec::new()),
        (SurfaceName::Server, many) => (many.iter().map(each).collect(), Vec::new()),
    };
    // A URL cannot name a socket, so that a client needs to be told of it in its own way.
    let socket = match at {
        Reached::Socket(path) if settings.public_url.is_none() => Some(path),
        Reached::Socket(_) | Reached::Address { .. } => None,
    };
    let mut text = match socket {
        Some(path) => format!(
            "\nTry it with\n  curl --unix-socket {} {}/ping\n\nPoint a client that can use a socket at it, and at\n",
            quoted(&path.display().to_string()),
            at.root()
        ),
        None => "\nPoint a client at\n".to_owned(),
    };
    let width = paths.iter().chain(&more).map(|(_, url)| url.chars().count()).max().unwrap_or(0);
    for (_, url) in &paths {
        let what = if surface == SurfaceName::Tools { "everything, as tools" } else { "" };
        text += format!("  {url:<width$}   {what}").trim_end();
        text += "\n";
    }
    for (name, url) in &more {
        text += &format!("  {url:<width$}   only {name}, as it is\n");
    }
    if socket.is_some() {
        return text;
    }
    text += "\nor paste into its config\n  { \"mcpServers\": {\n";
    // Where a provider logs people in, clients find their way by themselves.
    let keyed = settings.login.as_ref().is_some_and(|login| login.oidc.is_none());
    let headers = if keyed { ", \"headers\": { \"Authorization\": \"Bearer YOUR_KEY\" }" } else { "" };
    let snippet = |(name, url): &(String, String)| {
        format!("      \"{name}\": {{ \"type\": \"http\", \"url\": \"{url}\"{headers} }}")
    };
    text += &paths.iter().map(snippet).collect::<Vec<_>>().join(",\n");
    text + "\n  } }\n"
}

/// How a server is reached, without anything that may be secret.
pub fn describe(server: &ServerSpec) -> String {
    match &server.target {
        Target::Embedded(_) => {
            "built in: notes, echo, work with progress, tools that ask you or your model, and some trouble".to_owned()
        }
        Target::Child { command, args, .. } => started(command, args),
        target @ Target::Http { .. } => target.address(),
    }
}

/// Programs that run another one, which their first plain argument names.
const LAUNCHERS: [&str; 13] =
    ["npx", "bunx", "pnpx", "uvx", "pipx", "uv", "bun", "deno", "node", "python", "python3", "docker", "podman"];
/// What may stand before that name.
const BEFORE_NAME: [&str; 5] = ["-y", "--yes", "-m", "-u", "run"];
/// What the banner shows of a command at most.
const COMMAND_CHARS_MAX: usize = 60;

/// What is started, as far as it cannot hold a secret: arguments are written after variables were filled in, so none is
/// shown but the name of the program that a launcher runs.
fn started(command: &str, args: &[String]) -> String {
    let mut words = vec![command];
    if command.rsplit('/').next().is_some_and(|program| LAUNCHERS.contains(&program)) {
        let before = args.iter().take_while(|arg| BEFORE_NAME.contains(&arg.as_str())).count();
        words.extend(args.iter().take(before).map(String::as_str));
        words.extend(
            args.get(before).map(String::as_str).filter(|name| !name.starts_with('-') && !name.contains("://")),
        );
    }
    let mut text = words.join(" ").replace(char::is_control, " ");
    if words.len() <= args.len() {
        text += " …";
    }
    match text.char_indices().nth(COMMAND_CHARS_MAX) {
        Some(_) => text.chars().take(COMMAND_CHARS_MAX - 1).chain(['…']).collect(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use lb_config::settings::Gathered;

    use super::*;

    fn demo() -> Vec<ServerSpec> {
        crate::embedded::demo().unwrap_or_else(|failure| panic!("{}", failure.1))
    }

    #[test]
    fn the_address_shown_is_one_to_connect_to() {
        for (address, shown) in [
            ("192.0.2.2:1", "\n  http://192.0.2.2:1/mcp "),
            ("[::1]:1", "\n  http://[::1]:1/mcp "),
            ("0.0.0.0:1", "\n  http://127.0.0.1:1/mcp "),
            ("[::]:1", "\n  http://127.0.0.1:1/mcp "),
        ] {
            let at = Reached::Address { address: address.parse().expect("an address"), scheme: "http" };
            let settings = Settings::settle(&mut Gathered::default());
            let text = banner(&[at], SurfaceName::Tools, &demo(), &[], &settings);
            assert!(text.contains(shown) && text.contains(&format!("listening on http://{address}\n")), "{text}");
            assert_eq!(text.contains("--allow-host"), shown.contains("127.0.0.1"), "{text}");
        }
    }

    #[test]
    fn servers_that_were_added_and_kept_are_shown_with_who_added_them() {
        let at = Reached::Address { address: "127.0.0.1:1".parse().expect("an address"), scheme: "http" };
        let settings = Settings::settle(&mut Gathered::default());
        let defined = |name: &str, by| Defined {
            name: lb_exchange::ServerName::parse(name).expect("a name"),
            transport: "http",
            address: format!("https://{name}.example/mcp"),
            by,
        };
        let added = [
            defined("mine", DefinedBy::Config),
            defined("theirs", DefinedBy::Principal(lb_exchange::Principal::local())),
            defined("ours", DefinedBy::Operator),
        ];
        let text = banner(&[at], SurfaceName::Tools, &[], &added, &settings);
        assert!(text.contains("\n  theirs       https://theirs.example/mcp   added by a client\n"), "{text}");
        assert!(text.contains("\n  ours         https://ours.example/mcp   added by an operator\n"), "{text}");
        assert!(!text.contains("mine.example") && !text.contains("nothing yet"), "{text}");
    }

    #[test]
    fn a_socket_is_shown_as_curl_takes_it_and_not_as_a_url_to_paste() {
        let settings = Settings::settle(&mut Gathered::default());
        let text = banner(&[Reached::Socket("/run/my own/sock".into())], SurfaceName::Tools, &demo(), &[], &settings);
        assert!(text.contains("\nlistening on unix:/run/my own/sock\n"), "{text}");
        assert!(text.contains("\n  curl --unix-socket '/run/my own/sock' http://localhost/ping\n"), "{text}");
        assert!(!text.contains("mcpServers"), "{text}");
    }

    #[test]
    fn a_command_is_shown_without_what_may_be_secret() {
        for (command, args, want) in [
            ("python3", vec!["server.py"], "python3 server.py"),
            ("/usr/bin/python3", vec!["-u", "-m", "tools", "hush"], "/usr/bin/python3 -u -m tools …"),
            ("npx", vec!["-y", "@scope/server", "--key=hush"], "npx -y @scope/server …"),
            ("npx", vec!["git+https://hush@git.example/x"], "npx …"),
            ("uv", vec!["run", "server.py"], "uv run server.py"),
            ("node", vec!["-e", "hush"], "node …"),
            ("docker", vec!["run", "-e", "KEY=hush", "image"], "docker run …"),
            ("tool", vec!["hush"], "tool …"),
            ("tool", vec![], "tool"),
        ] {
            let args: Vec<_> = args.into_iter().map(str::to_owned).collect();
            assert_eq!(started(command, &args), want);
        }
        let long = started(&"x".repeat(100), &[]);
        assert_eq!((long.chars().count(), long.ends_with('…')), (COMMAND_CHARS_MAX, true));
    }
}

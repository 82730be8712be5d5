//! The command line.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::logs;

/// One gateway between any MCP client and any MCP server.
#[derive(Debug, Parser)]
#[command(
    name = "landbridge",
    version,
    about = "Lets any MCP client use any MCP server",
    long_about = "Lets any MCP client use any MCP server, whatever protocol revision either side speaks.\n\n\
                  Clients see a fixed set of tools, and through them everything that the servers behind can do: add_server, \
                  execute_tool, await_activity and so on. Each configured server can also be reached by itself.\n\n\
                  Without a command it serves a small built-in demo server on http://127.0.0.1:8080, so that there is \
                  something to point a client at.",
    after_help = "Exit codes: 0 ended as asked, 1 failed at run time, 2 wrong usage or config, 130 second Ctrl-C."
)]
pub struct Cli {
    /// What to do; without it, serve the demo.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Where the demo listens; with a command, these stand behind it.
    #[command(flatten)]
    pub demo: Listen,

    /// How much to log to stderr: error, warn, info, debug or trace, or a filter such as `lb_backend=debug`.
    ///
    /// Default: info for serving over HTTP, warn on stdio.
    #[arg(long, global = true, env = "LANDBRIDGE_LOG_LEVEL", value_name = "LEVEL", value_parser = logs::level)]
    pub log_level: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve configured servers over HTTP: all of them as tools at /mcp, each at /mcp/server/NAME.
    #[command(
        after_help = "Example:\n  landbridge serve --config mcp.json\n\nmcp.json:\n  { \"mcpServers\": {\n      \
                      \"files\": { \"command\": \"npx\", \"args\": [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/tmp\"] },\n      \
                      \"docs\":  { \"url\": \"https://example.com/mcp\", \"headers\": { \"Authorization\": \"Bearer ${DOCS_TOKEN}\" } }\n  } }"
    )]
    Serve(Serve),
    /// Serve over stdin and stdout, for clients that start their servers: all servers as tools, or one by itself.
    #[command(
        after_help = "Example client config:\n  { \"mcpServers\": { \"landbridge\": { \"command\": \"landbridge\", \
                            \"args\": [\"stdio\"] } } }\n\nWith servers of its own, or as one of them:\n  \
                            landbridge stdio --config /path/to/mcp.json\n  \
                            landbridge stdio --config /path/to/mcp.json --server files"
    )]
    Stdio(Stdio),
}

/// `landbridge serve`
#[derive(Debug, Args)]
pub struct Serve {
    /// The servers, as JSON with `mcpServers`; comments, trailing commas and ${VAR} are fine. Without it there are none
    /// until a client adds some.
    #[arg(long, env = "LANDBRIDGE_CONFIG_FILE", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What clients see at /mcp: the whole protocol as tools, or the only server by itself.
    #[arg(long, value_enum, default_value_t = SurfaceName::Tools, value_name = "SURFACE")]
    pub surface: SurfaceName,

    /// Where, and for whom.
    #[command(flatten)]
    pub listen: Listen,
}

/// Where to listen, and who may call.
#[derive(Debug, Args)]
pub struct Listen {
    /// Where to listen; port 0 takes any free one, which is then printed [default: 127.0.0.1:8080].
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub listen: Option<String>,

    /// Further host names that requests may name; loopback names always may.
    #[arg(long, value_name = "HOST", value_delimiter = ',', value_parser = host)]
    pub allow_host: Vec<String>,

    /// Further web origins that may call; loopback origins always may.
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', value_parser = origin)]
    pub allow_origin: Vec<String>,

    /// Let clients add servers that are programs to be started on this machine (add_server with a command).
    #[arg(long)]
    pub allow_stdio_spawn: bool,

    /// Show the arguments of calls on the waterfall page, without what looks secret, 1 KiB each at most.
    #[arg(long)]
    pub record_args: bool,
}

/// What a client sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SurfaceName {
    /// The whole protocol as a fixed set of tools, for all servers.
    Tools,
    /// One server by itself, as it is.
    Server,
}

impl Listen {
    /// The address to listen on.
    pub fn address(&self) -> &str {
        self.listen.as_deref().unwrap_or("127.0.0.1:8080")
    }

    /// Whether any of it was given.
    pub fn is_given(&self) -> bool {
        let given = self.listen.is_some() || !self.allow_host.is_empty() || !self.allow_origin.is_empty();
        given || self.allow_stdio_spawn || self.record_args
    }
}

/// `landbridge stdio`
#[derive(Debug, Args)]
pub struct Stdio {
    /// The servers, as JSON with `mcpServers`. Without it there are none until the client adds some.
    #[arg(long, env = "LANDBRIDGE_CONFIG_FILE", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What the client sees: the whole protocol as tools, or one server by itself [default: tools, or server with
    /// --server].
    #[arg(long, value_enum, value_name = "SURFACE")]
    pub surface: Option<SurfaceName>,

    /// Which server to serve by itself; may be left out with --surface server if there is only one.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
}

/// A host and a port. Whether the host exists is seen when it is listened on.
fn address(text: &str) -> Result<String, &'static str> {
    let good = text.rsplit_once(':').is_some_and(|(host, port)| {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let named = match bare {
            Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains([':', '/', '[', ']']),
        };
        named && port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
    });
    if good { Ok(text.to_owned()) } else { Err("give HOST:PORT, as in 127.0.0.1:9999") }
}

/// A host as requests name it, in lower case, or `*`.
fn host(text: &str) -> Result<String, &'static str> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let named = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let good = match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        None => text == "*" || (!text.is_empty() && named(text)),
    };
    let advice = "give a name or address alone, without scheme, port or path, as in mcp.example.com or [2001:db8::1]";
    if good { Ok(text.to_ascii_lowercase()) } else { Err(advice) }
}

/// An origin as browsers send it, or `*`.
fn origin(text: &str) -> Result<String, &'static str> {
    let good = text.split_once("://").is_some_and(|(scheme, rest)| {
        let odd = |c: char| c.is_whitespace() || "/?#@".contains(c);
        !scheme.is_empty() && !scheme.contains(odd) && !rest.is_empty() && !rest.contains(odd)
    });
    let advice = "give scheme and host, without a path, as in https://app.example.com";
    if good || text == "*" { Ok(text.to_owned()) } else { Err(advice) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Which of these the parser takes.
    fn taken<'a, T, E>(parse: impl Fn(&str) -> Result<T, E>, texts: &[&'a str]) -> Vec<&'a str> {
        texts.iter().copied().filter(|text| parse(text).is_ok()).collect()
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        let good = ["127.0.0.1:0", "localhost:65535", "[::1]:80", "0.0.0.0:8080"];
        assert_eq!(taken(address, &good), good);
        let bad =
            ["", "9999", ":9999", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:+1", "::1:80", "[x]:1"];
        assert_eq!(taken(address, &bad), [""; 0]);
        assert_eq!(taken(address, &["http://localhost:1", "localhost:1/mcp"]), [""; 0]);
    }

    #[test]
    fn hosts_and_origins_are_written_as_requests_carry_them() {
        let good = ["mcp.example.com", "192.0.2.2", "[2001:db8::1]", "*"];
        assert_eq!(taken(host, &good), good);
        assert_eq!(host("Mcp.Example"), Ok("mcp.example".to_owned()));
        let bad = ["", "http://mcp.example.com", "mcp.example.com/", "mcp.example.com:80", "2001:db8::1", "a b", "[x]"];
        assert_eq!(taken(host, &bad), [""; 0]);
        let good = ["https://app.example.com", "http://192.0.2.2:3000", "vscode-webview://abc", "*"];
        assert_eq!(taken(origin, &good), good);
        let bad = ["", "app.example.com", "https://", "://a", "https://a/", "https://a/b", "https://b@a", "null"];
        assert_eq!(taken(origin, &bad), [""; 0]);
    }
}

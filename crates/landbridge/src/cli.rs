//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// One gateway between any MCP client and any MCP server.
#[derive(Debug, Parser)]
#[command(
    name = "landbridge",
    version,
    about = "Lets any MCP client use any MCP server",
    long_about = "Lets any MCP client use any MCP server, whatever protocol revision either side speaks.\n\n\
                  Without a command it serves a small built-in demo server on http://127.0.0.1:8080, so that there is \
                  something to point a client at.",
    after_help = "Exit codes: 0 ended as asked, 1 failed at run time, 2 wrong usage or config, 130 second Ctrl-C."
)]
pub struct Cli {
    /// What to do; without it, serve the demo.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// How much to log to stderr: error, warn, info, debug or trace, or a filter such as `lb_backend=debug`.
    ///
    /// Default: info for serving over HTTP, warn on stdio.
    #[arg(long, global = true, env = "LANDBRIDGE_LOG_LEVEL", value_name = "LEVEL")]
    pub log_level: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve configured servers over HTTP, each at /mcp/server/NAME.
    #[command(
        after_help = "Example:\n  landbridge serve --config mcp.json\n\nmcp.json:\n  { \"mcpServers\": {\n      \
                      \"files\": { \"command\": \"npx\", \"args\": [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/tmp\"] },\n      \
                      \"docs\":  { \"url\": \"https://example.com/mcp\", \"headers\": { \"Authorization\": \"Bearer ${DOCS_TOKEN}\" } }\n  } }"
    )]
    Serve(Serve),
    /// Serve one configured server over stdin and stdout, for clients that start their servers.
    #[command(after_help = "Example client config:\n  { \"mcpServers\": { \"files\": { \"command\": \"landbridge\", \
                            \"args\": [\"stdio\", \"--config\", \"/path/to/mcp.json\", \"--server\", \"files\"] } } }")]
    Stdio(Stdio),
}

/// `landbridge serve`
#[derive(Debug, Args)]
pub struct Serve {
    /// The servers, as JSON with `mcpServers`; comments, trailing commas and ${VAR} are fine.
    #[arg(long, env = "LANDBRIDGE_CONFIG_FILE", value_name = "FILE")]
    pub config: PathBuf,

    /// Where to listen; port 0 takes any free one, which is then printed.
    #[arg(long, default_value = cli_default::LISTEN, value_name = "HOST:PORT")]
    pub listen: String,

    /// Further host names that requests may name; loopback names always may.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub allow_host: Vec<String>,

    /// Further web origins that may call; loopback origins always may.
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',')]
    pub allow_origin: Vec<String>,
}

/// `landbridge stdio`
#[derive(Debug, Args)]
pub struct Stdio {
    /// The servers, as JSON with `mcpServers`.
    #[arg(long, env = "LANDBRIDGE_CONFIG_FILE", value_name = "FILE")]
    pub config: PathBuf,

    /// Which server to serve; may be left out if there is only one.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
}

/// Defaults that more than one place needs.
pub mod cli_default {
    /// Where to listen.
    pub const LISTEN: &str = "127.0.0.1:8080";
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}

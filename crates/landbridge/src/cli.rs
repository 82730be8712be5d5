//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lb_config::settings::{INLINE_CONFIG, table};

use crate::flags::{self, Flags};

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
    pub demo: Flags<flags::Demo>,

    /// How to log.
    #[command(flatten)]
    pub every: Flags<flags::Every>,

    /// Settings, as TOML: `port = 9000`, each named like its flag with _ for - [default:
    /// $XDG_CONFIG_HOME/landbridge/landbridge.toml, if there is one].
    ///
    /// A flag beats a variable, and a variable beats the file. `landbridge config show` says what holds and why.
    /// [env: LANDBRIDGE_SETTINGS]
    #[arg(long, global = true, value_name = "FILE")]
    pub settings: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve configured servers over HTTP: all of them as tools at /mcp, each at /mcp/server/NAME.
    #[command(after_help = serve_help())]
    Serve(Serve),
    /// Serve over stdin and stdout, for clients that start their servers: all servers as tools, or one by itself.
    #[command(
        after_help = "Example client config:\n  { \"mcpServers\": { \"landbridge\": { \"command\": \"landbridge\", \
                            \"args\": [\"stdio\"] } } }\n\nWith servers of its own, or as one of them:\n  \
                            landbridge stdio --config /path/to/mcp.json\n  \
                            landbridge stdio --config /path/to/mcp.json --server files"
    )]
    Stdio(Stdio),
    /// Stand in for one server that is started by its client: start it only when it is needed, and answer from what is
    /// known of it meanwhile.
    #[command(
        long_about = "Stands in for one server that is started by its client.\n\nWhat the server says of itself and its \
                      lists are kept on disk. From the second start on they are told from there, and the server itself is \
                      started by the first request that needs it, and ended when it is idle. Lists are read anew whenever \
                      the server starts or says that they changed, and on SIGHUP; the client is told what is another.",
        after_help = "Example client config, where \"npx\" was the command before:\n  { \"mcpServers\": { \"memory\": { \
                      \"command\": \"landbridge\",\n      \"args\": [\"wrap\", \"npx\", \"-y\", \
                      \"@modelcontextprotocol/server-memory\"] } } }\n\nLANDBRIDGE_WRAP_DEBUG=1 (info), 2 (warn) or 3 \
                      (debug) logs to landbridge-wrap-NAME.log in $XDG_RUNTIME_DIR/landbridge or the temporary folder.\n\
                      Exit codes: 0 ended as asked, 1 the server cannot be started or does not answer, 2 wrong usage."
    )]
    #[command(version)]
    Wrap(crate::wrap::Wrap),
    /// Check or show what `serve` would use.
    #[command(after_help = "Examples:\n  landbridge config check --config mcp.json\n  landbridge config show --json")]
    Config(Config),
    /// Serve the demo server by itself, on stdin and stdout or over HTTP: something to learn and to test with.
    #[command(
        after_help = "Examples:\n  landbridge demo --http\n  landbridge demo --http 127.0.0.1:0\n\nExample client \
                      config:\n  { \"mcpServers\": { \"demo\": { \"command\": \"landbridge\", \"args\": [\"demo\"] } } \
                      }\n\nSAMPLE_TOOL_NAME in the environment adds a tool of that name."
    )]
    Demo(crate::demo::Demo),
    /// List the landbridge processes that share a store: who is there, what each has, and how its store answers.
    #[command(
        after_help = "Example:\n  LANDBRIDGE_KEY=... landbridge nodes --store valkey://127.0.0.1:6379\n\nExit codes: 0 \
                      printed, 1 the store does not answer, 2 wrong usage."
    )]
    Nodes(crate::nodes::Nodes),
    /// Log in at servers that want it, and make keys for programs that shall get in without a browser.
    #[command(
        after_help = "Examples:\n  landbridge auth login files --config mcp.json\n  landbridge auth key new ci --file \
                            keys.txt\n  landbridge serve --auth keys keys.txt"
    )]
    Auth(crate::auth::command::Command),
    /// Make a new MCP server project in Rust, with a tool, a resource, a prompt and tests.
    #[command(
        after_help = "Examples:\n  landbridge init my-server\n  landbridge init my-server --dir ~/projects --sdk vendored"
    )]
    Init(crate::init::Init),
    /// Test a server over HTTP with one short session, and say what held and what did not.
    #[command(
        after_help = "Examples:\n  landbridge smoke\n  landbridge smoke http://127.0.0.1:8080/mcp --json\n  landbridge \
                      smoke https://localhost:8443/mcp --ca ca.pem\n\nExit codes: 0 all that could be tried held, 1 \
                      something did not. What a server need not have, and has not, is n/a."
    )]
    Smoke(crate::smoke::Smoke),
}

/// What stands below the flags of `serve`: an example, and what has a variable and no flag.
fn serve_help() -> String {
    // Short lines: a terminal that breaks them would break what is pasted from there.
    let mut text = "Example:\n  landbridge serve --config mcp.json\n\nmcp.json:\n  { \"mcpServers\": {\n    \
                    \"files\": {\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \
                    \"@modelcontextprotocol/server-filesystem\", \"/tmp\"] },\n    \"docs\": {\n      \"url\": \
                    \"https://example.com/mcp\",\n      \"headers\": { \"Authorization\": \"Bearer ${DOCS_TOKEN}\" } }\n  \
                    } }\n\nVariables that have no flag:\n"
        .to_owned();
    for setting in table().iter().filter(|setting| !setting.has_flag && !setting.is_absent()) {
        text += &format!("  {}: {}\n", setting.variable(), setting.help);
    }
    text + &format!("  {INLINE_CONFIG}: The servers themselves, as JSON, in place of --config")
}

/// `landbridge serve`
#[derive(Debug, Args)]
pub struct Serve {
    /// Every setting.
    #[command(flatten)]
    pub flags: Flags<flags::Serve>,
}

/// What a client sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SurfaceName {
    /// The whole protocol as a fixed set of tools, for all servers.
    Tools,
    /// One server by itself, as it is.
    Server,
}

impl From<lb_config::settings::Surface> for SurfaceName {
    fn from(surface: lb_config::settings::Surface) -> Self {
        match surface {
            lb_config::settings::Surface::Tools => Self::Tools,
            lb_config::settings::Surface::Server => Self::Server,
        }
    }
}

/// `landbridge stdio`
#[derive(Debug, Args)]
pub struct Stdio {
    /// The servers.
    #[command(flatten)]
    pub flags: Flags<flags::Servers>,

    /// What the client sees: the whole protocol as tools, or one server by itself [default: tools, or server with
    /// --server].
    #[arg(long, value_enum, value_name = "SURFACE")]
    pub surface: Option<SurfaceName>,

    /// Which server to serve by itself; may be left out with --surface server if there is only one.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
}

/// `landbridge config`
#[derive(Debug, Args)]
pub struct Config {
    /// What to do with it.
    #[command(subcommand)]
    pub action: ConfigAction,
}

/// What can be done with settings and servers without serving them.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Say everything that is wrong with settings and servers; exit code 2 if they cannot be used.
    Check(ConfigArgs),
    /// Show the value of every setting and where it is from, and the servers without their secrets.
    Show(ConfigArgs),
}

/// Flags of `landbridge config`: those of `serve`, and how to print.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Print JSON: check an array of {file, line, key, message, hint}, show {settings, servers}.
    #[arg(long)]
    pub json: bool,

    /// Every setting.
    #[command(flatten)]
    pub flags: Flags<flags::Serve>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_has_no_flag_is_named_in_the_help() {
        let help = serve_help();
        for name in ["LANDBRIDGE_OPERATOR_TOKEN", "LANDBRIDGE_LOG_DIR", "LANDBRIDGE_CONFIG: ", "LANDBRIDGE_KEY"] {
            assert!(help.contains(name), "{name} is not in {help}");
        }
        let example = help.split("Variables").next().expect("an example");
        assert!(example.lines().all(|line| line.len() < 80), "{example}");
    }
}

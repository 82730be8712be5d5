//! The command line of `landbridge wrap`.

use std::time::Duration;

use clap::Args;

use super::{seconds, some_seconds};

/// `landbridge wrap`
#[derive(Debug, Args)]
pub struct Wrap {
    /// How long the server may take to answer the handshake, in seconds or as in 500ms, 5m; three times that for all that it takes to know
    /// its protocol.
    #[arg(long, value_name = "TIME", default_value = "30", value_parser = some_seconds)]
    pub init_timeout: Duration,

    /// How long the server may take to tell one of its lists; one that takes longer is empty until it is read again.
    #[arg(long, value_name = "TIME", default_value = "5", value_parser = some_seconds)]
    pub list_timeout: Duration,

    /// End the server's process when nothing has used it for so long; the next call starts it again. 0 is never.
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = seconds)]
    pub idle_timeout: Duration,

    /// Ask for lists again, in the background, that were kept for longer.
    #[arg(long, value_name = "TIME", default_value = "86400", value_parser = some_seconds)]
    pub max_age: Duration,

    /// Do not use what was kept by an earlier run; what the server says now is kept in its place.
    #[arg(long)]
    pub refresh: bool,

    /// Keep nothing on disk, and use nothing from there.
    #[arg(long, conflicts_with = "refresh")]
    pub no_cache: bool,

    /// What the server is called in errors and in the name of its log file [default: made from the command].
    #[arg(long, value_name = "NAME", env = "MCP_SERVER_NAME", hide_env_values = true)]
    pub name: Option<String>,

    /// The server's command and its arguments. Options of wrap itself stand before it.
    #[arg(value_name = "COMMAND", required = true, num_args = 1.., trailing_var_arg = true)]
    pub command: Vec<String>,
}

//! The command line.
use crate::{session::Era, target::Target};
use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(version, about)]
pub struct Cli {
    /// Worker threads of the generator itself
    #[arg(long, global = true, default_value_t = 1)]
    pub threads: usize,
    #[command(subcommand)]
    pub cmd: Cmd,
}

#[derive(Subcommand)]
pub enum Cmd {
    /// Closed-loop load on one target
    Run {
        #[command(flatten)]
        target: TargetArgs,
        #[command(flatten)]
        load: LoadArgs,
    },
    /// The same load on several targets, interleaved; ratios are to the first
    Compare(CompareArgs),
    /// Spawn a command, time the first initialize and the first non-empty tools/list, kill it
    Startup {
        #[command(flatten)]
        target: TargetArgs,
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Command that serves --url (without --url the command is spoken to over stdio)
        #[arg(last = true)]
        serve: Vec<String>,
    },
    /// Open N sessions and hold them: memory per session, child processes
    Idle(IdleArgs),
    /// Open sessions at one node, stop it, and time the first and the second call of each at another
    Takeover(TakeoverArgs),
    /// Time from an event to the answer of a request that waits for it, on the tools surface
    Wake {
        #[command(flatten)]
        target: TargetArgs,
        #[arg(long, default_value_t = 100)]
        rounds: usize,
    },
}

#[derive(Args, Clone)]
pub struct TargetArgs {
    /// Streamable HTTP endpoint
    #[arg(long)]
    pub url: Option<String>,
    /// stdio server command, split at spaces
    #[arg(long)]
    pub stdio: Option<String>,
    #[arg(long, value_enum, default_value = "legacy")]
    pub era: Era,
    #[arg(long, default_value = "2025-06-18")]
    pub protocol_version: String,
    /// Extra header `Name: value`; may be given again
    #[arg(long)]
    pub header: Vec<String>,
    /// Take a stream and nothing else in answer to calls of tools
    #[arg(long)]
    pub stream: bool,
    /// Process to meter (for stdio: the spawned process)
    #[arg(long)]
    pub pid: Option<i32>,
    #[arg(long, default_value = "")]
    pub label: String,
    #[arg(long, default_value = "echo")]
    pub tool: String,
    /// Tool arguments, JSON
    #[arg(long)]
    pub args: Option<String>,
}

#[derive(Args, Clone)]
pub struct LoadArgs {
    #[arg(long, short, default_value_t = 1)]
    pub concurrency: usize,
    /// Calls in all, shared out over the workers
    #[arg(long, short = 'n', default_value_t = 1000)]
    pub calls: u64,
    /// Unmeasured calls first, in all
    #[arg(long, default_value_t = 50)]
    pub warmup: u64,
    /// Stop after this many seconds even if calls remain
    #[arg(long, default_value_t = 60.0)]
    pub max_seconds: f64,
    /// Bytes of the `message` argument
    #[arg(long, default_value_t = 64)]
    pub payload: usize,
    /// Method measured: tools/call or tools/list
    #[arg(long, default_value = "tools/call")]
    pub method: String,
    /// Deadline of one request, seconds
    #[arg(long, default_value_t = 30.0)]
    pub timeout: f64,
    /// Do not check that a tools/call reply holds the payload
    #[arg(long)]
    pub no_verify: bool,
    /// Only the JSON line
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone)]
pub struct CompareArgs {
    /// JSON file: [{"name":..,"url":..|"command":[..],"pid":..,"tool":..,"args":{..},"era":..,"headers":[..]}]
    #[arg(long)]
    pub targets: std::path::PathBuf,
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    #[command(flatten)]
    pub load: LoadArgs,
    /// Tool for targets that name none
    #[arg(long, default_value = "echo")]
    pub tool: String,
    #[arg(long, default_value = "2025-06-18")]
    pub protocol_version: String,
}

#[derive(Args, Clone)]
pub struct IdleArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[arg(long, default_value_t = 200)]
    pub sessions: usize,
    /// Sessions opened at a time
    #[arg(long, default_value_t = 8)]
    pub ramp: usize,
    /// Also open the GET stream of each session
    #[arg(long)]
    pub listen: bool,
    /// Call the tool this often on each session
    #[arg(long, default_value_t = 0)]
    pub call: usize,
    #[arg(long, default_value_t = 2.0)]
    pub hold: f64,
    /// Hang up after each session and leave it there: nothing is held, nothing is closed
    #[arg(long)]
    pub leave: bool,
    #[command(flatten)]
    pub load: LoadArgs,
}

#[derive(Args, Clone)]
pub struct TakeoverArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// The node that takes the sessions over, as a URL
    #[arg(long)]
    pub then: String,
    /// The process that is told to end once the sessions are open
    #[arg(long)]
    pub stop: i32,
    /// It is killed and not told
    #[arg(long)]
    pub kill: bool,
    #[arg(long, default_value_t = 100)]
    pub sessions: usize,
    #[command(flatten)]
    pub load: LoadArgs,
}

impl TargetArgs {
    pub fn target(&self) -> Result<Target> {
        if self.url.is_some() == self.stdio.is_some() {
            bail!("give one of --url and --stdio");
        }
        Ok(Target {
            name: if self.label.is_empty() { "target".into() } else { self.label.clone() },
            url: self.url.clone(),
            opened_at: None,
            command: self.stdio.as_ref().map(|s| s.split_whitespace().map(String::from).collect()),
            pid: self.pid,
            tool: Some(self.tool.clone()),
            args: self.args.as_deref().map(serde_json::from_str).transpose().context("--args is not JSON")?,
            era: self.era,
            headers: self.header.clone(),
            stream: self.stream,
            setup: vec![],
        })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_well_formed() {
        <super::Cli as clap::CommandFactory>::command().debug_assert();
    }
}

//! From a command line to the settings that hold for it.

use std::path::PathBuf;

use lb_config::settings::{Gathered, Given, Mistakes, Scope, Settings, Sources, gather};

use crate::cli::{Cli, Command, ConfigAction};
use crate::run::Failure;
use crate::{assembly, files, logs};

/// Settings, and where each is from.
pub struct Settled {
    /// The values.
    pub settings: Settings,
    /// Their sources, and what was wrong with them.
    pub gathered: Gathered,
    /// The flags, for when everything is read again.
    pub flags: Given,
    /// The file of settings that the command line names, for the same.
    pub named_file: Option<PathBuf>,
    /// What this command has settings for.
    pub scopes: &'static [Scope],
}

impl Settled {
    /// Reads every place that may hold a setting of this command. What is wrong is inside.
    pub fn read(cli: &Cli) -> Self {
        let (own, scopes): (_, &'static [Scope]) = match &cli.command {
            None => (Some(&cli.demo.given), &[Scope::Every, Scope::Demo, Scope::Serve]),
            Some(Command::Serve(serve)) => (Some(&serve.flags.given), ALL),
            Some(Command::Config(config)) => match &config.action {
                ConfigAction::Check(args) | ConfigAction::Show(args) => (Some(&args.flags.given), ALL),
            },
            Some(Command::Nodes(nodes)) => (Some(&nodes.flags.given), &[Scope::Every, Scope::Demo, Scope::Serve]),
            Some(Command::Stdio(stdio)) => (Some(&stdio.flags.given), &[Scope::Every, Scope::Servers]),
            Some(Command::Demo(demo)) if demo.is_over_http() => (None, &[Scope::Every, Scope::Demo, Scope::Serve]),
            Some(Command::Demo(_) | Command::Init(_) | Command::Smoke(_)) => (None, &[Scope::Every]),
            Some(Command::Auth(auth)) => match auth.given() {
                // Where a gateway keeps logins, they are looked for.
                Some(given) => (Some(given), &[Scope::Every, Scope::Servers, Scope::Serve]),
                None => (None, &[Scope::Every]),
            },
            Some(Command::Wrap(_)) => (None, &[Scope::Every]),
        };
        let mut flags: Given = own.into_iter().chain([&cli.every.given]).flatten().cloned().collect();
        if let Some(Command::Demo(demo)) = &cli.command {
            flags.extend(demo.given());
        }
        let sources = Sources::of_process(flags.clone(), cli.settings.clone()).with(mistakes(cli));
        let mut gathered = gather(sources, scopes);
        let settings = Settings::settle(&mut gathered);
        if scopes.contains(&Scope::Serve) && !matches!(cli.command, Some(Command::Auth(_))) {
            files::check(&settings, &mut gathered);
        }
        Self { settings, gathered, flags, named_file: cli.settings.clone(), scopes }
    }

    /// Says what is wrong if that is too much, and whether it is not.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn check(&self, cli: &Cli) -> Result<(), Failure> {
        if !self.gathered.is_broken() {
            return Ok(());
        }
        logs::tell(self.gathered.problems());
        // Whoever corrects the settings wants to know of the servers at the same time.
        if let Some(Command::Serve(_) | Command::Stdio(_)) = &cli.command
            && let Err(problems) = assembly::read_servers(&self.settings)
        {
            logs::tell(&problems);
        }
        Err(Failure::usage("these settings cannot be used"))
    }
}

/// What a mistake in the file of settings means to a command. One that only logs as the file says is not stopped by it.
fn mistakes(cli: &Cli) -> Mistakes {
    match &cli.command {
        None | Some(Command::Serve(_) | Command::Stdio(_) | Command::Config(_) | Command::Nodes(_)) => {
            Mistakes::Refused
        }
        Some(Command::Wrap(_) | Command::Demo(_) | Command::Init(_) | Command::Smoke(_) | Command::Auth(_)) => {
            Mistakes::Warned
        }
    }
}

const ALL: &[Scope] = &[Scope::Every, Scope::Servers, Scope::Demo, Scope::Serve];

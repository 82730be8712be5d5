//! From a command line to the settings that hold for it.

use std::path::PathBuf;

use lb_config::settings::{Gathered, Given, Scope, Settings, Sources, gather};
use lb_config::{Problem, Severity};

use crate::assembly;
use crate::cli::{Cli, Command, ConfigAction};
use crate::demo::Demo;
use crate::run::Failure;

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
            Some(Command::Stdio(stdio)) => (Some(&stdio.flags.given), &[Scope::Every, Scope::Servers]),
            Some(Command::Demo(Demo { http: Some(_) })) => (None, &[Scope::Every, Scope::Demo, Scope::Serve]),
            Some(Command::Demo(_) | Command::Init(_) | Command::Smoke(_)) => (None, &[Scope::Every]),
            Some(Command::Wrap(_)) => (None, &[Scope::Every]),
        };
        let mut flags: Given = own.into_iter().chain([&cli.every.given]).flatten().cloned().collect();
        if let Some(Command::Demo(demo)) = &cli.command {
            flags.extend(demo.given());
        }
        let mut gathered = gather(Sources::of_process(flags.clone(), cli.settings.clone()), scopes);
        let settings = Settings::settle(&mut gathered);
        Self { settings, gathered, flags, named_file: cli.settings.clone(), scopes }
    }

    /// Says what is wrong, and goes on only if it can.
    pub fn usable(self, cli: &Cli) -> Result<Self, Failure> {
        say(self.gathered.problems());
        if !self.gathered.is_broken() {
            return Ok(self);
        }
        // Whoever corrects the settings wants to know of the servers at the same time.
        if let Some(Command::Serve(_) | Command::Stdio(_)) = &cli.command
            && let Err(problems) = assembly::read_servers(&self.settings)
        {
            say(&problems);
        }
        Err(Failure::usage("these settings cannot be used"))
    }
}

const ALL: &[Scope] = &[Scope::Every, Scope::Servers, Scope::Demo, Scope::Serve];

/// Tells people of problems; the errors last, where they are seen.
pub fn say(problems: &[Problem]) {
    for severity in [Severity::Warning, Severity::Error] {
        for problem in problems.iter().filter(|problem| problem.severity == severity) {
            eprintln!("{}", crate::run::harmless(&problem.to_string()));
        }
    }
}

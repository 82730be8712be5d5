//! The flags of settings, made of the table of settings.

use std::marker::PhantomData;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use lb_config::settings::{Given, Scope, Setting, table};

/// Which flags a command has.
pub trait Group {
    /// The settings.
    const SCOPES: &'static [Scope];
    /// Which of those; empty for all.
    const KEYS: &'static [&'static str] = &[];
    /// Whether they may stand before and behind a command.
    const GLOBAL: bool = false;
    /// Whether the help is silent about some.
    fn hides(setting: &Setting) -> bool {
        setting.is_absent()
    }
}

/// Those of every command.
#[derive(Debug)]
pub struct Every;
/// Those of the demo.
#[derive(Debug)]
pub struct Demo;
/// Those of `serve`.
#[derive(Debug)]
pub struct Serve;
/// Those that say who may call, where the address is said otherwise.
#[derive(Debug)]
pub struct Callers;
/// Those of a store that several processes share.
#[derive(Debug)]
pub struct Store;
/// Those of whatever reads a config and does not listen.
#[derive(Debug)]
pub struct Servers;

impl Group for Every {
    const SCOPES: &'static [Scope] = &[Scope::Every];
    const GLOBAL: bool = true;
}

impl Group for Demo {
    const SCOPES: &'static [Scope] = &[Scope::Demo];
}

impl Group for Serve {
    const SCOPES: &'static [Scope] = &[Scope::Servers, Scope::Demo, Scope::Serve];
}

impl Group for Callers {
    const SCOPES: &'static [Scope] = &[Scope::Demo];
    const KEYS: &'static [&'static str] = &["insecure_no_auth", "allow_host", "allow_origin", "record_args"];
}

impl Group for Store {
    const SCOPES: &'static [Scope] = &[Scope::Serve];
    const KEYS: &'static [&'static str] = &["store", "store_ca", "store_prefix", "key_file"];
}

impl Group for Servers {
    const SCOPES: &'static [Scope] = &[Scope::Servers];
}

/// Flags of a group, as they were given.
#[derive(Debug)]
pub struct Flags<G> {
    /// Key and values of each that was given.
    pub given: Given,
    group: PhantomData<G>,
}

impl<G: Group> Flags<G> {
    fn settings() -> impl Iterator<Item = &'static Setting> {
        let is_meant = |setting: &&Setting| G::KEYS.is_empty() || G::KEYS.contains(&setting.key);
        table().iter().filter(|setting| setting.has_flag && G::SCOPES.contains(&setting.scope)).filter(is_meant)
    }
}

impl<G: Group> Args for Flags<G> {
    fn augment_args(command: Command) -> Command {
        Self::settings()
            .fold(command, |command, setting| command.arg(arg(setting).global(G::GLOBAL).hide(G::hides(setting))))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<G: Group> FromArgMatches for Flags<G> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let is_given = |setting: &&Setting| matches.value_source(setting.key) == Some(ValueSource::CommandLine);
        let values = |setting: &Setting| match setting.kind.is_switch() {
            true => Vec::new(),
            false => matches.get_many::<String>(setting.key).into_iter().flatten().cloned().collect(),
        };
        let given = Self::settings().filter(is_given).map(|setting| (setting.key, values(setting))).collect();
        Ok(Self { given, group: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Values are judged later, all at once and in every place alike.
fn arg(setting: &'static Setting) -> Arg {
    let names: Vec<String> =
        std::iter::once(setting.variable()).chain(setting.aliases.iter().map(|name| (*name).to_owned())).collect();
    let help = match (setting.kind.is_switch(), setting.default) {
        (true, _) | (_, "none") => setting.help.to_owned(),
        (false, default) => format!("{} [default: {default}]", setting.help),
    };
    let arg = Arg::new(setting.key)
        .long(setting.flag())
        .long_help(format!("{help}\n[env: {}]", names.join(", ")))
        .help(help)
        .value_name(setting.value_name);
    match setting.kind {
        kind if kind.is_switch() => arg.action(ArgAction::SetTrue),
        // `oidc`, or `keys` and a file.
        _ if setting.key == "auth" => arg.action(ArgAction::Append).num_args(1..=2),
        kind if kind.is_list() => arg.action(ArgAction::Append),
        _ if setting.is_absent() => arg.action(ArgAction::Append).num_args(0..=1).default_missing_value(""),
        _ => arg.action(ArgAction::Set),
    }
}

//! Places, their order, and everything that is wrong at once.

mod login;
mod places;
mod state;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Durability, Gathered, Scope, Settings, Sources, Store, gather};

const ALL: &[Scope] = &[Scope::Every, Scope::Servers, Scope::Demo, Scope::Serve];

/// What these flags, variables and this file come to.
fn settle(flags: &[(&'static str, &str)], variables: &[(&str, &str)], toml: &str) -> (Settings, Gathered) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("landbridge.toml");
    std::fs::write(&file, toml).expect("written");
    let flags = flags.iter().map(|(key, value)| match *value {
        "" => (*key, Vec::new()),
        value => (*key, vec![value.to_owned()]),
    });
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let sources = Sources {
        flags: flags.collect(),
        variables: variables.collect(),
        file: (!toml.is_empty()).then(|| PathBuf::from(&file)),
        ..Sources::default()
    };
    let mut gathered = gather(sources, ALL);
    let settings = Settings::settle(&mut gathered);
    (settings, gathered)
}

/// The problems, one line each, without the folder of the file.
fn told(gathered: &Gathered) -> Vec<String> {
    let line = |text: String| match text.split_once("landbridge.toml") {
        Some((_, rest)) if text.starts_with("error: /") => format!("error: landbridge.toml{rest}"),
        _ => text,
    };
    gathered.problems().iter().map(|problem| line(problem.to_string()).replace("\n  hint", " | hint")).collect()
}

//! Settings out of a file of TOML, with the line of each.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::access::{self, Access};
use super::gather::{Place, Told};
use super::kind::{Raw, Unit};
use super::table::table;
use crate::file::{self, Exposure};
use crate::problem::Problem;
use crate::report::{KeyPath, Report};
use crate::suggest::nearest;

/// Where the file is looked for when nobody names one.
#[must_use]
pub fn default_path(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let given = env("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from).and_then(absolute);
    let home = || env("HOME").map(PathBuf::from).and_then(absolute).map(|home| home.join(".config"));
    Some(given.or_else(home)?.join("landbridge/landbridge.toml"))
}

/// What a file says, by key.
#[derive(Debug, Default)]
pub(crate) struct FileSettings {
    pub told: Vec<(&'static str, Told)>,
    /// Its section about who gets in.
    pub access: Access,
    pub problems: Vec<Problem>,
}

/// Reads a file from the disk.
pub(crate) fn load(path: &Path) -> FileSettings {
    let (bytes, metadata) = match file::read(path) {
        Ok(read) => read,
        Err(message) => {
            let problems = vec![file::whole_file(path, message, None)];
            return FileSettings { problems, ..FileSettings::default() };
        }
    };
    let mut found = parse(&bytes, path);
    let exposure = Exposure::of(&metadata);
    if exposure.writable {
        let hint = format!("run chmod go-w {}", path.display());
        let message = "refused: others may write to this file, and it decides what is allowed".to_owned();
        found.problems.push(file::whole_file(path, message, Some(hint)));
    }
    let is_secret = |(key, told): &(&'static str, Told)| {
        // The address of a store is one when it holds a password.
        let is_plain = *key == "store" && matches!(&told.raw, Raw::Text(text) if !text.contains('@'));
        !is_plain && table().iter().any(|setting| setting.key == *key && setting.secret)
    };
    if exposure.readable && found.told.iter().any(is_secret) {
        let message = "holds a secret, and others can read it".to_owned();
        let mut problem = file::whole_file(path, message, Some(format!("run chmod go-r {}", path.display())));
        problem.severity = crate::problem::Severity::Warning;
        found.problems.push(problem);
    }
    found
}

/// Reads the text of a file.
pub(crate) fn parse(bytes: &[u8], path: &Path) -> FileSettings {
    let mut report = Report::new(path, bytes);
    let top = KeyPath::default();
    let mut told = Vec::new();
    let mut access = Access::default();
    match std::str::from_utf8(bytes) {
        Err(error) => {
            report.error(error.valid_up_to(), &top, "the file is not UTF-8");
        }
        Ok(text) => match DeTable::parse(text) {
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                // The first line says what; the others would quote the file, and with it perhaps a secret.
                let message = error.message().lines().next().unwrap_or("cannot be read").to_owned();
                report.error(at, &top, message);
            }
            Ok(root) => {
                for (key, value) in root.get_ref() {
                    let (name, at) = (key.get_ref().as_ref(), key.span().start);
                    let Some(setting) = table().iter().find(|setting| setting.key == name) else {
                        unknown(&mut report, at, &top.key(name), name);
                        continue;
                    };
                    let line = report.line(at);
                    let place = Place::File { path: path.to_owned(), line };
                    if let ("auth", DeValue::Table(section)) = (setting.key, value.get_ref()) {
                        let (read, ways) = access::read(section, &mut report, &top.key(name));
                        access = read;
                        told.extend(ways.map(|raw| (setting.key, Told { place, raw, unit: Unit::Seconds })));
                        continue;
                    }
                    told.push((setting.key, Told { place, raw: raw(value.get_ref()), unit: Unit::Seconds }));
                }
            }
        },
    }
    FileSettings { told, access, problems: report.errors }
}

fn unknown(report: &mut Report<'_>, at: usize, path: &KeyPath, name: &str) {
    let known: Vec<&str> = table().iter().filter(|setting| !setting.is_absent()).map(|setting| setting.key).collect();
    let problem = report.error(at, path, "unknown key");
    match (name, nearest(name, &known)) {
        ("mcpServers" | "mcp_servers" | "servers", _) => {
            problem.hint("servers stand in a JSON file of their own: config = \"mcp.json\"");
        }
        (_, Some(known)) => problem.hint(format!("did you mean {known}?")),
        (_, None) => problem.hint("landbridge config show lists all keys"),
    }
}

pub(super) fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Boolean(value) => Raw::Bool(*value),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Raw::Other("such a number"), Raw::Number)
        }
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| match item.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            });
            texts.collect::<Option<Vec<_>>>().map_or(Raw::Other("an array of something else"), Raw::List)
        }
        DeValue::Float(_) => Raw::Other("a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a section"),
    }
}

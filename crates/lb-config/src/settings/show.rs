//! What holds now and why, for people and scripts; and what a reload cannot take up.

use super::gather::{Gathered, Place};
use super::kind::Value;
use super::listen::{Address, Listen};
use super::table::{Setting, table};

/// One line per setting: name, value, source.
#[must_use]
pub fn shown(gathered: &Gathered) -> String {
    let rows = rows(gathered);
    let key_width = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    let value_width = rows.iter().map(|row| row.value.chars().count()).max().unwrap_or(0).min(40);
    let line = |row: &Row| format!("{:key_width$}  {:value_width$}  {}\n", row.key, row.value, row.source);
    rows.iter().map(line).collect()
}

/// The same as a JSON array of `{key, value, source, reloads}`; the value of a secret is `***`.
#[must_use]
pub fn shown_json(gathered: &Gathered) -> serde_json::Value {
    let row = |row: Row| {
        let Row { key, value, source, reloads } = row;
        serde_json::json!({ "key": key, "value": value, "source": source, "reloads": reloads })
    };
    rows(gathered).into_iter().map(row).collect()
}

/// The keys whose values differ, and which of those a reload cannot take up.
#[must_use]
pub fn changed(before: &Gathered, after: &Gathered) -> (Vec<&'static str>, Vec<&'static str>) {
    let differs = |setting: &&Setting| {
        let value = |gathered: &Gathered| gathered.held.get(setting.key).map(|held| held.value.clone());
        value(before) != value(after)
    };
    let (taken, left): (Vec<_>, Vec<_>) = table().iter().filter(differs).partition(|setting| setting.reloads);
    let keys = |settings: Vec<&'static Setting>| settings.into_iter().map(|setting| setting.key).collect();
    (keys(taken), keys(left))
}

struct Row {
    key: &'static str,
    value: String,
    source: String,
    reloads: bool,
}

fn rows(gathered: &Gathered) -> Vec<Row> {
    let there = table().iter().filter(|setting| !setting.is_absent());
    let address = gathered.address();
    let access = gathered.access.rows();
    let source = gathered.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    let access = access.into_iter().map(|(key, value)| Row { key, value, source: source.clone(), reloads: true });
    let settings = there.map(|setting| {
        let reloads = setting.reloads;
        match gathered.held.get(setting.key) {
            // Three settings and one address: each shows its part of what holds.
            _ if ["listen", "host", "port"].contains(&setting.key) => {
                let (value, source) = part(&address, setting.key);
                Row { key: setting.key, value: value.escape_debug().to_string(), source, reloads }
            }
            Some(held) => {
                let value = if setting.secret { "***".to_owned() } else { text(&held.value) };
                Row { key: setting.key, value, source: held.place.to_string(), reloads }
            }
            None => {
                Row { key: setting.key, value: setting.default.to_owned(), source: Place::Default.to_string(), reloads }
            }
        }
    });
    settings.chain(access).collect()
}

/// The value and the source of an address or of a part of it.
fn part(address: &Address, key: &str) -> (String, String) {
    let whole = match &address.listen {
        Listen::Tcp(text) => text.clone(),
        Listen::Unix(path) => format!("unix:{}", path.display()),
    };
    let (host, port) = address.parts().unwrap_or(("none", "none"));
    match key {
        "host" => (host.to_owned(), address.host.to_string()),
        "port" => (port.to_owned(), address.port.to_string()),
        _ => (whole, address.source()),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Switch(value) => value.to_string(),
        Value::Count(count) => count.to_string(),
        Value::Time(time) => format!("{time:?}"),
        // What a terminal would obey is shown, not sent.
        Value::Text(text) => text.escape_debug().to_string(),
        Value::List(list) => list.iter().map(|item| item.escape_debug().to_string()).collect::<Vec<_>>().join(","),
        Value::Networks(list) => list.iter().map(|(ip, bits)| format!("{ip}/{bits}")).collect::<Vec<_>>().join(","),
        Value::Off => "off".to_owned(),
    }
}

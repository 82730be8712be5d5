//! Settings of the gateway itself: one table, and four places that it is read from.
//!
//! A setting has one name in three spellings: `log_level` in the file, `--log-level` on the command line and
//! `LANDBRIDGE_LOG_LEVEL` in the environment. Older names of variables are aliases. A flag beats a variable, a variable
//! an alias, an alias the file, and the file the default. Everything that is wrong is told at once. What a value does is
//! the business of whoever is given the [`Settings`].

mod access;
mod check;
mod environment;
mod file;
mod gather;
mod kind;
mod listen;
mod login;
mod show;
mod state;
mod table;
mod typed;

pub use access::{Access, KnownClient, People, Rule};
pub use check::{secret as check_secret, unknown as check_key};
pub use file::default_path;
pub use gather::{Gathered, Given, Mistakes, Sources, fuzz_settings, gather};
pub use kind::{Kind, Value};
pub use listen::Listen;
pub use login::{Login, Oidc};
pub use show::{changed, shown, shown_json};
pub use state::{Durability, Node, State, Store};
pub use table::{INLINE_CONFIG, SETTINGS_VARIABLE, Scope, Setting, find, table};
pub use typed::{Environment, LogFormat, Pin, ProxyHeader, Settings, Surface, Tls};

#[cfg(test)]
mod tests;

//! Config files to checked [`ServerSpec`](lb_exchange::ServerSpec)s, and every place of a setting to checked [`settings`].
//!
//! A file is read in three steps: bytes to a tree with positions (`json`), the tree to entries (`section`), an entry
//! to a spec (`entry`). Every step reports into one `Report` and goes on, so that a file is corrected once and not
//! once per mistake. Only [`load`] touches the file system and the process environment.

mod entry;
mod expand;
mod fields;
mod file;
mod folders;
mod json;
mod problem;
mod report;
mod restart;
mod section;
pub mod settings;
mod suggest;

pub use file::{CommandPlace, FILE_BYTES_MAX, Loaded, fuzz_parse, load, load_inline, parse, parse_bytes};
pub use folders::{cache_folder, runtime_folder, session_bus, state_folder, wrap_debug};
pub use problem::{Problem, Severity, problems_json};

#[cfg(test)]
mod tests;

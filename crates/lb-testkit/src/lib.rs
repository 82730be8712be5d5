//! Doubles for tests: a middle whose exchanges follow scripts, words to write such scripts with, and generated input.

pub mod generate;

mod middle;
mod words;

pub use middle::{ScriptedMiddle, ScriptedSeat};
pub use words::{
    ask, error, modern_result, note, pause, raw, replay, result, wait_for_answer, wait_for_cancel, withdraw,
};

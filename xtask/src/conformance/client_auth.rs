//! The suite as a server that wants a login, and landbridge as its OAuth client; a driver plays the person with a browser.

use std::path::Path;

use anyhow::{Context, Result};

use super::client::{About, drive, scenarios, words};
use super::{Programs, Run, Suite};
use crate::{peers, workspace};

/// The suite's client scenarios about authorization, of one revision.
pub fn run(programs: &Programs, suite: Suite, out: &Path) -> Result<Run> {
    let landbridge = programs.landbridge.as_ref().context("landbridge was not built")?;
    let driver = workspace::root().join("xtask/drivers/client-auth.mjs");
    let command = words(&[&peers::NODE.program()?, &driver, landbridge, &out.join("homes")])?;
    let names = scenarios(suite, About::Authorization)?;
    Ok(Run { scenarios: drive(suite, &names, &command, &out.join("through"))?, direct: None })
}

//! The table of the gateway's tools as its documents state it, and a suite that holds a running gateway against it.
//!
//! Black box: it knows tools by name, arguments by what is documented, and replies by their shape. It runs through a
//! [`ToolClient`], so that both transports and both eras are judged alike. Every check is counted, and a fault does not
//! end the run, so that one run shows all of them.

mod arguments;
mod listing;
mod refusals;
mod shape;
mod steps;
mod successes;
mod table;

pub use self::shape::misfit;
pub use self::table::{Kind, Param, Tool, tools};
use crate::tools::ToolClient;

/// What a suite found.
#[derive(Debug, Default)]
pub struct Tally {
    /// Checks that ran.
    pub checks: usize,
    /// What did not hold, one line each.
    pub faults: Vec<String>,
}

impl Tally {
    /// Counts a check; `told` says what did not hold.
    pub fn check(&mut self, holds: bool, told: impl FnOnce() -> String) -> bool {
        self.checks += 1;
        if !holds {
            // A reply can be long, and its start tells enough.
            self.faults.push(told().chars().take(500).collect());
        }
        holds
    }
}

/// What stands behind the gateway under test.
#[derive(Clone, Debug)]
pub struct World {
    /// Whether the client may have programs started.
    pub may_spawn: bool,
    /// An HTTP server that can be added.
    pub url: String,
}

/// Runs everything against a gateway with the fixture server behind it as `fix` and a server of plain tools as `plain`.
pub async fn run(client: &ToolClient, world: &World) -> Tally {
    let mut tally = Tally::default();
    listing::check(client, &mut tally).await;
    arguments::check(client, &mut tally).await;
    refusals::check(client, world, &mut tally).await;
    successes::check(client, world, &mut tally).await;
    tally
}

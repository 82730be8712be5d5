//! What the binary promises under load and faults. Each test runs one scenario of `lb-soak` in its short size and lets
//! the checker judge the history that it left. `LANDBRIDGE_SEED` repeats a run; `cargo xtask soak` runs larger sizes.

use std::path::PathBuf;

use lb_soak::{Scenario, Setup, Size, check, random};

mod rows;

/// Runs a scenario and fails with what it violated.
fn holds(name: &str) {
    let scenario = Scenario::named(name).unwrap_or_else(|| panic!("no scenario is called {name}"));
    let seed = std::env::var("LANDBRIDGE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(random::seed);
    eprintln!("{name}: LANDBRIDGE_SEED={seed}");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("reliability");
    let setup = Setup { binary: env!("CARGO_BIN_EXE_landbridge").to_owned(), folder };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let path = runtime.block_on(scenario.run(&setup, Size::Short, seed));
    let verdict = check::file(&path);
    eprintln!("{verdict}");
    assert!(verdict.holds(), "{verdict}\n  history: {}", path.display());
    // What held is of no further use.
    std::fs::remove_file(path).expect("the history is removed");
}

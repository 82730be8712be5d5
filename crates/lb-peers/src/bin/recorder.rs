//! The `recorder` server; see [`lb_peers::raw::recorder`].

use std::process::ExitCode;

use lb_peers::raw::recorder::{Options, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("recorder: {problem}");
            return ExitCode::from(2);
        }
    };
    match run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("recorder: {error}");
            ExitCode::FAILURE
        }
    }
}

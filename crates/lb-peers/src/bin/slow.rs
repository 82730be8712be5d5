//! The crowd of slow clients; see [`lb_peers::slow`].
#![expect(clippy::print_stdout, reason = "what it saw goes to whoever started it")]

use std::process::ExitCode;

use lb_peers::slow::{Options, USAGE, raise_descriptors, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::parse(&words) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("slow: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    eprintln!("up to {} descriptors", raise_descriptors());
    let seen = run(options, || println!("ready")).await;
    println!("{}", serde_json::json!(seen));
    ExitCode::SUCCESS
}

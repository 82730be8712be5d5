//! The `evil` server; see [`lb_peers::evil`].

use std::io::Write as _;
use std::process::ExitCode;

use lb_peers::evil::{Action, Fault, linger, serve_http, serve_stdio};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let action = match Action::parse(std::env::args().skip(1)) {
        Ok(action) => action,
        Err(problem) => {
            eprintln!("evil: {problem}");
            return ExitCode::from(2);
        }
    };
    let done = match action {
        Action::ListFaults => {
            let listing: String = Fault::ALL.iter().map(|fault| fault.listing() + "\n").collect();
            std::io::stdout().write_all(listing.as_bytes())
        }
        Action::Linger => linger().await,
        Action::Serve(options) => match options.http {
            Some(address) => serve_http(options, address).await,
            None => serve_stdio(options).await,
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("evil: {error}");
            ExitCode::FAILURE
        }
    }
}

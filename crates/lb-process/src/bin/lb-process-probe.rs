//! A process for the tests to start: its own supervisor, and a program that behaves as its first argument says.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    lb_process::supervise_entry().unwrap_or_else(|| match probe::run() {
        Ok(code) => code,
        Err(error) => panic!("probe failed: {error}"),
    })
}

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
mod probe {
    use std::{
        io::{self, Read, Write},
        process::{Command, ExitCode, Stdio},
    };

    use rustix::process::{Signal, getpid, kill_process, setsid};

    pub(super) fn run() -> io::Result<ExitCode> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match args.as_slice() {
            ["echo"] => echo()?,
            ["exit", code] => return Ok(ExitCode::from(code.parse::<u8>().map_err(io::Error::other)?)),
            ["kill-self"] => kill_process(getpid(), Signal::KILL)?,
            ["complain", text, code] => {
                io::stderr().write_all(text.as_bytes())?;
                return Ok(ExitCode::from(code.parse::<u8>().map_err(io::Error::other)?));
            }
            ["close-stdout"] => {
                rustix::stdio::dup2_stdout(std::fs::File::open("/dev/null")?)?;
                echo()?;
            }
            ["fds"] => list_fds()?,
            ["env"] => list_env()?,
            ["args", rest @ ..] => say(&rest.join("\n"))?,
            ["signals"] => say(&std::fs::read_to_string("/proc/self/status")?)?,
            ["linger", _marker] => linger()?,
            ["linger-apart", _marker] => {
                setsid()?;
                linger()?;
            }
            ["family", marker] => {
                family(marker)?;
                say("ready")?;
                echo()?;
            }
            ["deaf-family", marker] => {
                family(marker)?;
                linger()?;
            }
            ["leave-family", marker] => family(marker)?,
            ["host", count, marker] => host(count.parse().map_err(io::Error::other)?, marker)?,
            _ => return Err(io::Error::other(format!("unknown behaviour {args:?}"))),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn say(text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{text}")?;
        stdout.flush()
    }

    /// Copies input to output, until the end of input.
    fn echo() -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match io::stdin().read(&mut buffer)? {
                0 => return Ok(()),
                read => {
                    let mut stdout = io::stdout().lock();
                    stdout.write_all(buffer.get(..read).unwrap_or_default())?;
                    stdout.flush()?;
                }
            }
        }
    }

    /// Says that it is set up, and stays.
    fn linger() -> io::Result<()> {
        say("ready")?;
        loop {
            std::thread::park();
        }
    }

    /// Two children that never end by themselves: one in our group, one in a session of its own with a child there.
    fn family(marker: &str) -> io::Result<()> {
        for behaviour in ["linger", "linger-apart"] {
            Command::new(std::env::current_exe()?).args([behaviour, marker]).stdin(Stdio::null()).spawn()?;
        }
        // An orphan twice removed: the shell between leaves at once.
        let script = r#""$0" linger-apart "$1" & exit 0"#;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).arg(std::env::current_exe()?).arg(marker).stdin(Stdio::null()).spawn()?.wait()?;
        Ok(())
    }

    fn list_fds() -> io::Result<()> {
        let listing = std::fs::read_dir("/proc/self/fd")?;
        let mut open: Vec<(String, String)> = Vec::new();
        for entry in listing {
            let entry = entry?;
            // The listing's own descriptor is gone by the time its target is read.
            let target = std::fs::read_link(entry.path())?.display().to_string();
            if !target.starts_with("/proc/") {
                open.push((entry.file_name().to_string_lossy().into_owned(), target));
            }
        }
        open.sort();
        let names: Vec<String> =
            open.iter().map(|(fd, target)| format!("{fd} {}", target.split(':').next().unwrap_or(""))).collect();
        say(&names.join("\n"))
    }

    fn list_env() -> io::Result<()> {
        let mut names: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
        names.sort();
        say(&names.join("\n"))
    }

    /// A process like our own: starts `count` families that heed no end of input, says so, and waits to be killed.
    fn host(count: usize, marker: &str) -> io::Result<()> {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            let mut children = Vec::with_capacity(count);
            for _ in 0..count {
                let command = lb_process::Command::new(std::env::current_exe()?, lb_process::own_supervisor()?);
                let child =
                    lb_process::Child::spawn(&command.args(["deaf-family", marker])).await.map_err(io::Error::other)?;
                let (stdin, mut stdout) = child.take_pipes().ok_or(io::ErrorKind::BrokenPipe)?;
                // One line from each: the program, two children, one orphan.
                let mut ready = [0; 4 * 6];
                tokio::io::AsyncReadExt::read_exact(&mut stdout, &mut ready).await?;
                children.push((child, stdin, stdout));
            }
            say("ready")?;
            std::future::pending::<io::Result<()>>().await
        })
    }
}

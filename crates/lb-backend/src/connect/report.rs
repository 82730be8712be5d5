//! What the log says of a server that fails: one line, for people.

use std::time::Instant;

use lb_process::printable;

use crate::error::{ConnectError, times};
use crate::restart::Life;

/// Longest line.
const CHARS_MAX: usize = 1000;
/// Longest piece of a server's stderr in it.
const STDERR_CHARS_MAX: usize = 300;

/// There is no connection, and nothing has crashed.
pub fn failed(server: &str, error: &ConnectError) -> String {
    printable(error.message(&format!("server {server:?}")).as_bytes(), CHARS_MAX)
}

/// How a server ended, to be read after its name, with the last line that it wrote to stderr.
pub fn ended(exit: &str, stderr: &str) -> String {
    let how = exit.strip_prefix("it ").unwrap_or(exit);
    let was = if how.starts_with("killed") { "was " } else { "" };
    match stderr.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => format!("{was}{how}: {}", printable(line.as_bytes(), STDERR_CHARS_MAX)),
        None => format!("{was}{how}"),
    }
}

/// What happened to a server, and when it is started again.
pub fn crashed(server: &str, what: &str, life: Life, now: Instant) -> String {
    let line = match life {
        Life::Backoff { until, .. } if until <= now => {
            format!("server {server:?} {what}; the next call tries again")
        }
        Life::Backoff { until, .. } => {
            format!("server {server:?} {what}; next start in {:.1} s", (until - now).as_secs_f64())
        }
        Life::GaveUp { crashes, until: Some(until) } => {
            let (times, again) = (times(crashes), until.saturating_duration_since(now).as_secs_f64().ceil());
            format!("server {server:?} ended {times} and is given up; tried again in {again} s; last: {what}")
        }
        Life::GaveUp { until: None, .. } => {
            format!("server {server:?} {what}; not started again: its restarts are off")
        }
        Life::Stopped | Life::Running { .. } => format!("server {server:?} {what}"),
    };
    printable(line.as_bytes(), CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_crash_is_told_in_one_line() {
        let now = Instant::now();
        let after = |millis| now + Duration::from_millis(millis);
        let no_key = ended("exited with code 3", "starting\nfatal: no API key given\n\n");
        for (what, life, want) in [
            (
                no_key.clone(),
                Life::Backoff { crashes: 2, until: after(500) },
                r#"server "x" exited with code 3: fatal: no API key given; next start in 0.5 s"#,
            ),
            (
                ended("killed by signal 9", ""),
                Life::Backoff { crashes: 1, until: now },
                r#"server "x" was killed by signal 9; the next call tries again"#,
            ),
            (
                ended("it closed its input or output", "\u{1b}[31mred"),
                Life::GaveUp { crashes: 1, until: None },
                r#"server "x" closed its input or output: \u{1b}[31mred; not started again: its restarts are off"#,
            ),
            (
                no_key,
                Life::GaveUp { crashes: 6, until: Some(after(59_500)) },
                concat!(
                    r#"server "x" ended 6 times in a row and is given up; tried again in 60 s; "#,
                    "last: exited with code 3: fatal: no API key given"
                ),
            ),
        ] {
            assert_eq!(crashed("x", &what, life, now), want);
        }
    }

    #[test]
    fn a_failed_connection_is_told_as_the_client_gets_it_in_one_line() {
        let error = ConnectError::Status { status: 404, body: "<html>\nnot here".to_owned() };
        let hint = "see whether its url is that of an MCP server";
        let want = format!(r#"server "x": the server answers HTTP 404: <html>\nnot here; {hint}"#);
        assert_eq!(failed("x", &error), want);
    }
}

//! A small server on stdio that knows `initialize` and answers the era probe in a way of your choice:
//! `odd_probe [--on-probe HOW] [--record FILE]`, where HOW is `error:CODE`, `late:MS` (an error after that time),
//! `never`, `exit:CODE`, `crash`, `close` (of stdout), `garbage`, `empty` (a result that says nothing) or `welcome:MS`
//! (a modern answer after that time). The record has one line per received message: process id and method.
//!
//! Its tool `withdraw` asks the client something and takes it back; every other tool answers with a text.

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use lb_peers::raw::message::{Message, error, result};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned();
    let server = Server { on_probe: option("--on-probe").unwrap_or_else(|| "error:-32601".into()) };
    let record = option("--record");
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return ExitCode::FAILURE };
        let Some(message) = Message::parse(line.as_bytes()) else { continue };
        if let Some(record) = &record {
            note(record, message.method());
        }
        let Some(id) = &message.id else { continue };
        match server.answer(id, &message) {
            Then::Say(lines) => {
                if say(&lines).is_err() {
                    return ExitCode::FAILURE;
                }
            }
            Then::Exit(code) => return ExitCode::from(code),
        }
    }
    ExitCode::SUCCESS
}

enum Then {
    Say(Vec<String>),
    Exit(u8),
}

struct Server {
    on_probe: String,
}

impl Server {
    fn answer(&self, id: &str, message: &Message) -> Then {
        let modern = message.meta_version().is_some();
        let line = match message.method() {
            "server/discover" => return self.probed(id),
            "initialize" => {
                let version = message.text_param("protocolVersion").unwrap_or_default();
                let rest = r#""capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}"#;
                result(id, &format!(r#"{{"protocolVersion":"{version}",{rest}}}"#))
            }
            "ping" => result(id, "{}"),
            "tools/list" => {
                let hints = if modern { r#""resultType":"complete","ttlMs":0,"cacheScope":"private","# } else { "" };
                result(id, &format!(r#"{{{hints}"tools":[{{"name":"echo","inputSchema":{{"type":"object"}}}}]}}"#))
            }
            "tools/call" if message.text_param("name").as_deref() == Some("withdraw") => return withdraw(id),
            "tools/call" if modern => result(id, &content("modern", r#""resultType":"complete","#)),
            "tools/call" => result(id, &content("legacy", "")),
            // An answer of the client.
            "" => return Then::Say(Vec::new()),
            _ => error(id, -32601, "method not found", None),
        };
        Then::Say(vec![line])
    }

    fn probed(&self, id: &str) -> Then {
        let (how, value) = self.on_probe.split_once(':').unwrap_or((&self.on_probe, "0"));
        let number = value.parse().unwrap_or(0);
        let line = match how {
            "error" => error(id, number, "what is this?", None),
            "late" => {
                wait(number);
                error(id, -32601, "what was this?", None)
            }
            "never" => return Then::Say(Vec::new()),
            "exit" => return Then::Exit(u8::try_from(number).unwrap_or(1)),
            "crash" => std::process::abort(),
            "close" => {
                return match rustix::stdio::dup2_stdout(devnull()) {
                    Ok(()) => Then::Say(Vec::new()),
                    Err(_) => Then::Exit(1),
                };
            }
            "garbage" => "what is this?".to_owned(),
            "welcome" => {
                wait(number);
                let rest = r#""capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private""#;
                result(id, &format!(r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],{rest}}}"#))
            }
            _ => result(id, "{}"),
        };
        Then::Say(vec![line])
    }
}

fn content(era: &str, members: &str) -> String {
    format!(r#"{{{members}"content":[{{"type":"text","text":"from the {era} era"}}]}}"#)
}

/// A question, its withdrawal, and the answer to the call.
fn withdraw(id: &str) -> Then {
    let params = r#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#;
    Then::Say(vec![
        format!(r#"{{"jsonrpc":"2.0","id":"q-7","method":"elicitation/create","params":{params}}}"#),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q-7"}}"#.to_owned(),
        result(id, &content("legacy", "")),
    ])
}

#[expect(clippy::disallowed_methods, reason = "this server has one thread and nothing else to do")]
fn wait(ms: i64) {
    std::thread::sleep(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
}

fn devnull() -> std::fs::File {
    std::fs::File::open("/dev/null").unwrap_or_else(|_| std::process::abort())
}

fn say(lines: &[String]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    for line in lines {
        stdout.write_all(line.as_bytes())?;
        stdout.write_all(b"\n")?;
    }
    stdout.flush()
}

/// Appends to the record in one write, since several processes share it.
fn note(record: &str, method: &str) {
    let line = format!("{} {method}\n", std::process::id());
    let file = std::fs::OpenOptions::new().create(true).append(true).open(record);
    if let Err(problem) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        eprintln!("odd_probe: {problem}");
    }
}

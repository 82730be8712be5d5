//! What it costs that a call has to show a token.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::aims::Aim;
use super::load::{Effort, Measured, median_of_pairs};
use super::targets::{Bench, Running};

const PATH: &str = "/mcp/server/echo";
/// Calls of one turn, as a multiple of the usual: the difference is a small one.
const MORE_CALLS: u64 = 4;

impl Bench {
    /// The same calls through a gateway that lets everybody in, and through one that looks at a token.
    pub fn token_aims(&self, effort: Effort) -> Result<Vec<Aim>> {
        let echo = self.echo_on_http(true)?;
        let servers = json!({"echo": {"url": format!("{}/mcp", echo.url)}});
        // The provider must know where people are sent back to: take a port that was free a moment ago.
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let url = format!("http://{address}");
        let mut provider = Command::new(self.login());
        let provider = self.server(provider.args(["serve", &url]), "provider")?;
        let guarded = self.guarded_gateway(&servers, &address, &provider.url)?;
        let told = self.one_line(Command::new(self.login()).args(["get", &url]))?;
        let token = told.get("access_token").and_then(Value::as_str).context("nobody got a token")?;
        let mut found = Vec::new();
        let mut running = Running::default();
        running.add("open", "legacy", PATH, self.gateway_with(&servers)?);
        running.add("token", "legacy", PATH, guarded);
        running.with_header(&format!("Authorization: Bearer {token}"));
        running.keep(echo);
        running.keep(provider);
        let effort = Effort { calls: effort.calls * MORE_CALLS, ..effort };
        for concurrency in [1, 32] {
            let measured = self.compare(&running, concurrency, 64, "tools/call", effort)?;
            let name = format!(
                "legacy-json, {concurrency} at once: CPU of a token that is looked at (calls are not logged), us per call"
            );
            found.push(Aim::at_most(name, added_cpu(&measured), 5.0));
        }
        Ok(found)
    }
}

/// Microseconds of CPU per call of the second target over the first.
fn added_cpu(measured: &[Measured]) -> Option<f64> {
    let [open, token] = measured else { return None };
    eprintln!("CPU per call: {:.1} us open, {:.1} us with a token", open.cpu_us_per_call, token.cpu_us_per_call);
    median_of_pairs(token, open, |token, open| token.cpu_us - open.cpu_us)
}

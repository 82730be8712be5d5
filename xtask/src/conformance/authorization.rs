//! The suite as a client that knows its id: a person logs in at our own authorization server, and at a real provider.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Programs, Run, SUITE_DURATION_MAX, Suite, name_of, suite_peer, write_private};
use crate::peers;
use crate::score;
use crate::sh::{self, Server};
use crate::workspace;

/// How long the provider may take to listen, on a machine that is busy.
const PROVIDER_START_MAX: Duration = Duration::from_secs(50);
/// The id that the operator has given to the suite; it has no secret.
const CLIENT: &str = "conformance";

/// A provider of logins. Dropping it ends the process.
struct Provider {
    issuer: String,
    child: Child,
}

impl Provider {
    fn start(callback: &str, log: &Path) -> Result<Self> {
        let folder = peers::folder()?;
        let mut command = Command::new(peers::NODE.program()?);
        command.arg(workspace::root().join("crates/lb-peers/src/idp/provider.mjs"));
        command.arg(folder.join(peers::OIDC_PROVIDER.key).join("node_modules/oidc-provider/lib/index.js"));
        command.env("PORT", "0").env("CLIENT_REDIRECTS", callback);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(log)?);
        let mut child = command.spawn().context("cannot start the provider")?;
        let mut lines = BufReader::new(child.stdout.take().context("stdout was piped above")?);
        let (tell, told) = mpsc::channel();
        // It writes more lines, which must go somewhere; the thread ends with the process.
        thread::spawn(move || {
            let mut line = String::new();
            tell.send(lines.read_line(&mut line).map(|_| line)).ok();
            std::io::copy(&mut lines, &mut std::io::sink()).ok();
        });
        let mut provider = Self { issuer: String::new(), child };
        let line = told.recv_timeout(PROVIDER_START_MAX).context("the provider does not say where it is")??;
        let said: Value = serde_json::from_str(&line).with_context(|| format!("the provider says {line:?}"))?;
        provider.issuer = said["issuer"].as_str().context("the provider names no issuer")?.to_owned();
        Ok(provider)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // Whether it has ended before does not matter.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The suite's scenarios for authorization servers, of one revision.
pub fn run(programs: &Programs, suite: Suite, out: &Path) -> Result<Run> {
    let [port, callback_port] = free_ports()?;
    let url = format!("http://127.0.0.1:{port}");
    let provider = Provider::start(&format!("{url}/oauth/callback"), &out.join("provider.log"))?;
    let gateway = start(programs, out, port, callback_port, &provider)?;
    let results = out.join("results");
    let mut command = Command::new(peers::NODE.program()?);
    command.arg(workspace::root().join("xtask/drivers/authorization.mjs")).arg(suite_peer(suite).program()?);
    command.args(["authorization", "--url", &url, "--client-id", CLIENT, "--port", &callback_port.to_string()]);
    command.args(["--resource", &format!("{url}/mcp"), "--spec-version", &name_of(&suite)]);
    command.arg("-o").arg(&results);
    let output = sh::capture(&mut command, SUITE_DURATION_MAX)?;
    fs::write(out.join("suite.log"), &output.text)?;
    drop(gateway);
    if output.status.is_none() {
        bail!("the suite did not end within {SUITE_DURATION_MAX:?}; see {}", out.join("suite.log").display());
    }
    Ok(Run { scenarios: score::read(&results)?, direct: None })
}

/// A gateway that people log in to, and that knows the suite as a client.
fn start(programs: &Programs, out: &Path, port: u16, callback_port: u16, provider: &Provider) -> Result<Server> {
    let landbridge = programs.landbridge.as_ref().context("landbridge was not built")?;
    let (config, settings) = (out.join("mcp.json"), out.join("landbridge.toml"));
    let servers = json!({ "mcpServers": { "fixture": { "command": programs.fixture } } });
    write_private(&config, &serde_json::to_vec(&servers)?)?;
    let text = format!(
        "[auth]\nallow = {{ domains = [\"example.test\"] }}\n\n[[auth.clients]]\nid = \"{CLIENT}\"\nname = \"The official \
         suite\"\nredirect_uris = [\"http://127.0.0.1:{callback_port}/callback\"]\n"
    );
    write_private(&settings, text.as_bytes())?;
    let mut command = Command::new(landbridge);
    command.arg("serve").arg("--settings").arg(&settings).arg("--config").arg(&config);
    command.args(["--listen", &format!("127.0.0.1:{port}"), "--public-url", &format!("http://127.0.0.1:{port}")]);
    command.args(["--auth", "oidc", "--oidc-client-id", "gateway", "--oidc-issuer", &provider.issuer]);
    command.env("LANDBRIDGE_OIDC_CLIENT_SECRET", "gateway-secret-for-tests-only");
    super::at_home_in(&mut command, out);
    Server::start(&mut command, &out.join("landbridge.log"))
}

/// Ports that are free now: both must be known before anything listens there.
fn free_ports() -> Result<[u16; 2]> {
    let [first, second] = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    Ok([first?.local_addr()?.port(), second?.local_addr()?.port()])
}

//! `cargo xtask conformance`: the official suites against the fixture server, directly and through landbridge.
//!
//! Each run has servers of its own on free ports, so runs neither share state nor score what happened to listen there.

mod authorization;
pub mod client;
mod client_auth;
mod target;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use serde_json::json;

use self::client::Driver;
use crate::peers::{self, CONFORMANCE, CONFORMANCE_STABLE};
use crate::score::{self, Scenarios, Score};
use crate::sh::{self, Server};
use crate::workspace;

/// The paths `cargo xtask test` runs.
pub const IN_CI: &[Way] =
    &[Way::Direct, Way::HttpHttp, Way::HttpStdio, Way::Client, Way::Authorization, Way::ClientAuth];

/// How many runs go on at once.
const WORKERS: usize = 2;

/// A whole suite takes well under a minute; the stable suite has no limits of its own.
const SUITE_DURATION_MAX: Duration = Duration::from_secs(600);

/// How the suite reaches the fixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// The fixture alone: the measure for the others
    Direct,
    /// Through landbridge to the fixture over streamable HTTP
    HttpHttp,
    /// Through landbridge to the fixture over stdio
    HttpStdio,
    /// The other way round: a client through landbridge to the suite, measured by the same client alone
    Client,
    /// The suite logs in at landbridge's own authorization server
    Authorization,
    /// landbridge logs in at servers of the suite
    ClientAuth,
}

impl Way {
    /// Only servers have scenarios for the extension, and the stable suite none elsewhere that take a revision. Of the
    /// oldest revision there are only scenarios about logins.
    fn has(self, suite: Suite) -> bool {
        match suite {
            Suite::Legacy | Suite::Modern => true,
            Suite::Oldest => self == Self::ClientAuth,
            Suite::Tasks | Suite::Stable => matches!(self, Self::Direct | Self::HttpHttp | Self::HttpStdio),
        }
    }

    /// Whether the direct run of the same suite is the measure.
    fn beside_direct(self) -> bool {
        matches!(self, Self::HttpHttp | Self::HttpStdio)
    }
}

/// Which scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// All scenarios of the legacy revision
    #[value(name = "2025-11-25")]
    Legacy,
    /// All scenarios of the modern revision
    #[value(name = "2026-07-28")]
    Modern,
    /// What is left of the first revision with logins
    #[value(name = "2025-03-26")]
    Oldest,
    /// The tasks extension
    Tasks,
    /// The suite's stable release
    #[value(name = "0.1.16")]
    Stable,
}

/// The scenarios of the tasks extension; the suite runs extensions one by one only.
const TASKS: &[&str] = &[
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
];

/// One suite over one path, scored.
pub struct Row {
    pub way: Way,
    pub suite: Suite,
    pub score: Score,
    /// How many pass without landbridge: the fixture alone, or on the client path the driver alone.
    direct: Option<usize>,
    /// Why the row misses its target; empty when it does not.
    pub misses: Vec<String>,
    /// The checks that failed, for the log.
    failures: Vec<String>,
}

impl Row {
    /// How many scenarios gave a verdict at all.
    pub fn scenarios(&self) -> usize {
        self.score.passed + self.score.failed + self.score.void.len()
    }

    /// The peers that ran it; as the client, those of our own driver.
    pub fn peers(&self) -> Vec<&'static str> {
        let client = match (self.way, self.suite) {
            (Way::Authorization, _) => Some(peers::OIDC_PROVIDER.key),
            (Way::Client, Suite::Legacy) => Some(peers::TYPESCRIPT_V1.key),
            (Way::Client, Suite::Modern) => Some(peers::TYPESCRIPT_V2.key),
            _ => None,
        };
        [peers::NODE.key, suite_peer(self.suite).key].into_iter().chain(client).collect()
    }
}

/// The value's name on the command line, in the table and in the JSON.
fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The command: runs, prints, and says whether every row met its target.
pub fn command(ways: &[Way], suites: &[Suite], driver: Option<String>, as_json: bool) -> Result<bool> {
    let ways = if ways.is_empty() { Way::value_variants() } else { ways };
    let suites = if suites.is_empty() { Suite::value_variants() } else { suites };
    // In JSON mode stdout belongs to the JSON alone.
    let rows = run(ways, suites, driver, as_json)?;
    if as_json {
        println!("{}", serde_json::to_string_pretty(&rows.iter().map(as_json_row).collect::<Vec<_>>())?);
    } else {
        print(&rows);
    }
    Ok(rows.iter().all(|row| row.misses.is_empty()))
}

/// Runs every suite over every path. The direct run comes along, since the others are measured by it.
pub fn run(ways: &[Way], suites: &[Suite], driver: Option<String>, quiet: bool) -> Result<Vec<Row>> {
    let driver = driver.map_or(Driver::Ours, Driver::Given);
    let suites_of_clients = [peers::TYPESCRIPT_V1, peers::TYPESCRIPT_V2, peers::OIDC_PROVIDER];
    let needed: Vec<_> = [peers::NODE, CONFORMANCE, CONFORMANCE_STABLE].into_iter().chain(suites_of_clients).collect();
    if quiet { peers::ensure_quietly(&needed) } else { peers::ensure(&needed) }?;
    let programs = Programs::build(ways, driver)?;
    let mut jobs: VecDeque<(Way, Suite)> = VecDeque::new();
    let measure = ways.iter().any(|way| way.beside_direct());
    for way in Way::value_variants() {
        if ways.contains(way) || (*way == Way::Direct && measure) {
            jobs.extend(suites.iter().filter(|suite| way.has(**suite)).map(|suite| (*way, *suite)));
        }
    }
    let results = run_all(&programs, jobs)?;
    let of = |way: Way, suite: Suite| results.iter().find(|(job, _)| *job == (way, suite)).map(|(_, run)| run);
    let mut rows = Vec::new();
    for way in Way::value_variants().iter().filter(|way| ways.contains(way)) {
        for suite in suites.iter().filter(|suite| way.has(**suite)) {
            let run = of(*way, *suite).context("every job left a result")?;
            let beside = way.beside_direct().then(|| of(Way::Direct, *suite)).flatten().map(|run| &run.scenarios);
            let direct = run.direct.as_ref().or(beside);
            let score = score::score(&run.scenarios, direct);
            let misses = target::misses(*way, *suite, &programs.driver, &score);
            let failures = failures(&run.scenarios);
            let direct = direct.map(|direct| score::score(direct, None).passed);
            rows.push(Row { way: *way, suite: *suite, score, direct, misses, failures });
        }
    }
    Ok(rows)
}

fn failures(scenarios: &Scenarios) -> Vec<String> {
    let each = scenarios.iter().flat_map(|(name, scenario)| scenario.failures.iter().map(move |why| (name, why)));
    each.map(|(name, why)| format!("{name}: {why}")).collect()
}

/// What one suite over one path showed.
pub struct Run {
    scenarios: Scenarios,
    /// The measure, where it is not the direct path of the same suite.
    direct: Option<Scenarios>,
}

/// One finished run.
type Finished = ((Way, Suite), Run);

fn run_all(programs: &Programs, jobs: VecDeque<(Way, Suite)>) -> Result<Vec<Finished>> {
    let jobs = Mutex::new(jobs);
    let results: Mutex<Vec<Result<Finished>>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some((way, suite)) = next else { break };
                    let result = programs
                        .run(way, suite)
                        .with_context(|| format!("{} {}", name_of(&way), name_of(&suite)))
                        .map(|run| ((way, suite), run));
                    results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                }
            });
        }
    });
    results.into_inner().map_err(|_| anyhow!("a conformance worker panicked"))?.into_iter().collect()
}

/// The programs under test, built, and where results go.
pub struct Programs {
    fixture: PathBuf,
    landbridge: Option<PathBuf>,
    driver: Driver,
    out: PathBuf,
    /// Two runs in one folder would score each other's results.
    _alone: fs::File,
}

impl Programs {
    fn build(ways: &[Way], driver: Driver) -> Result<Self> {
        let (out, alone) = workspace::exclusive_folder("conformance")?;
        let through = ways.iter().any(|way| *way != Way::Direct);
        Ok(Self {
            fixture: workspace::build_bin("lb-peers", "fixture", "dev")?,
            landbridge: through.then(|| workspace::build_bin("landbridge", "landbridge", "dev")).transpose()?,
            driver,
            out,
            _alone: alone,
        })
    }

    /// One suite over one path, from starting the servers to reading the results.
    fn run(&self, way: Way, suite: Suite) -> Result<Run> {
        let out = self.out.join(format!("{}-{}", name_of(&way), name_of(&suite)));
        if out.exists() {
            fs::remove_dir_all(&out)?;
        }
        let results = out.join("results");
        fs::create_dir_all(&results)?;
        // The gateway ends before what it stands in front of: it is dropped first.
        let (gateway, fixture, url) = match way {
            Way::Client => return client::run(self, suite, &out),
            Way::Authorization => return authorization::run(self, suite, &out),
            Way::ClientAuth => return client_auth::run(self, suite, &out),
            Way::Direct => {
                let fixture = self.start_fixture(&out)?;
                let url = fixture.url.clone();
                (None, Some(fixture), url)
            }
            Way::HttpHttp => {
                let fixture = self.start_fixture(&out)?;
                let (gateway, url) = self.start_gateway(&out, &json!({"url": fixture.url}))?;
                (Some(gateway), Some(fixture), url)
            }
            Way::HttpStdio => {
                let (gateway, url) = self.start_gateway(&out, &json!({"command": self.fixture, "args": []}))?;
                (Some(gateway), None, url)
            }
        };
        for (number, arguments) in suite_runs(suite).iter().enumerate() {
            let log = out.join(format!("suite-{number}.log"));
            run_suite(suite, &url, arguments, &results, &log)?;
        }
        drop(gateway);
        drop(fixture);
        Ok(Run { scenarios: score::read(&results)?, direct: None })
    }

    fn start_fixture(&self, out: &Path) -> Result<Server> {
        let mut command = Command::new(&self.fixture);
        command.args(["--http", "127.0.0.1:0", "--era", "dual"]);
        Server::start(&mut command, &out.join("fixture.log"))
    }

    /// The gateway and where the fixture is behind it.
    fn start_gateway(&self, out: &Path, server: &serde_json::Value) -> Result<(Server, String)> {
        let landbridge = self.landbridge.as_ref().context("landbridge was not built")?;
        let gateway = start_landbridge(landbridge, out, "fixture", server)?;
        let url = format!("{}/mcp/server/fixture", gateway.url);
        Ok((gateway, url))
    }
}

/// Starts `landbridge serve` on a free port with one server behind it.
fn start_landbridge(landbridge: &Path, out: &Path, name: &str, server: &serde_json::Value) -> Result<Server> {
    let config = out.join("mcp.json");
    write_private(&config, &serde_json::to_vec_pretty(&json!({"mcpServers": {name: server}}))?)?;
    let mut command = Command::new(landbridge);
    command.args(["serve", "--surface", "server", "--config"]).arg(&config).args(["--listen", "127.0.0.1:0"]);
    at_home_in(&mut command, out);
    Server::start(&mut command, &out.join("landbridge.log"))
}

/// Neither the settings nor the state of whoever runs this may have a part in it.
fn at_home_in(command: &mut Command, out: &Path) {
    for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        command.env(variable, out.join("home"));
    }
}

/// Config files that others may write are refused, whatever the umask here.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The arguments of each call of the suite's program.
fn suite_runs(suite: Suite) -> Vec<Vec<String>> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match suite {
        Suite::Legacy | Suite::Modern | Suite::Oldest => {
            vec![owned(&["--suite", "all", "--spec-version", &name_of(&suite)])]
        }
        Suite::Stable => vec![owned(&["--suite", "all"])],
        Suite::Tasks => TASKS.iter().map(|name| owned(&["--scenario", name])).collect(),
    }
}

fn suite_peer(suite: Suite) -> &'static peers::Peer {
    if suite == Suite::Stable { &CONFORMANCE_STABLE } else { &CONFORMANCE }
}

/// The suite exits with 1 when a scenario fails; that is for the score to say. It must have come to its end, though.
fn run_suite(suite: Suite, url: &str, arguments: &[String], results: &Path, log: &Path) -> Result<()> {
    let peer = suite_peer(suite);
    let mut command = Command::new(peers::NODE.program()?);
    command.arg(peer.program()?).args(["server", "--url", url]).args(arguments).arg("-o").arg(results);
    let output = sh::capture(&mut command, SUITE_DURATION_MAX)?;
    fs::write(log, &output.text)?;
    if output.status.is_none() {
        bail!("the suite did not end within {SUITE_DURATION_MAX:?}; see {}", log.display());
    }
    Ok(())
}

/// Prints the rows beside the direct ones, and what is wrong below.
pub fn print(rows: &[Row]) {
    println!(
        "{:<12} {:<12} {:>6} {:>6} {:>6} {:>5} {:>8}  bad",
        "path", "suite", "direct", "passed", "failed", "void", "warnings"
    );
    for row in rows {
        let score = &row.score;
        println!(
            "{:<12} {:<12} {:>6} {:>6} {:>6} {:>5} {:>8}  {}",
            name_of(&row.way),
            name_of(&row.suite),
            row.direct.map_or("-".to_owned(), |passed| passed.to_string()),
            score.passed,
            score.failed,
            score.void.len(),
            score.warnings,
            score.bad.join(" ")
        );
    }
    for row in rows {
        for why in row.misses.iter().chain(&row.failures) {
            println!("  {} {}: {why}", name_of(&row.way), name_of(&row.suite));
        }
    }
}

fn as_json_row(row: &Row) -> serde_json::Value {
    json!({
        "path": name_of(&row.way),
        "suite": name_of(&row.suite),
        "passed": row.score.passed,
        "failed": row.score.failed,
        "void": row.score.void.len(),
        "warnings": row.score.warnings,
        "bad": row.score.bad,
    })
}

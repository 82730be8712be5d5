//! Running the workspace's tests, one process each: by cargo-nextest, or by ourselves where it is not installed.
//!
//! Both ways give the same: a verdict and a duration per test, a hanging test ended. A test that failed beside all the
//! others is looked at again alone, as often as would make chance plain; it is named in any case.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::sh;
use crate::workspace::{cargo, root};

/// A test that runs longer is ended; the same as `.config/nextest.toml` says.
const TEST_DURATION_MAX: Duration = Duration::from_secs(60);

/// So few tests may fail beside the others and pass alone. More than that is no chance.
const SHAKY_MAX: usize = 2;
/// How often such a test must pass alone, without one failure.
const ALONE: usize = 5;

/// One test and how it went.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// Package, binary and path, as in `lb-wire scan::tests::finds_members`.
    pub name: String,
    pub took: Duration,
    pub passed: bool,
    /// Whether it failed beside all the others, and passed only alone.
    pub shaky: bool,
}

/// All tests of one run.
#[derive(Default)]
pub struct Report {
    pub tests: Vec<Test>,
}

impl Report {
    /// How many passed.
    pub fn passed(&self) -> usize {
        self.tests.iter().filter(|test| test.passed).count()
    }

    /// How many did not.
    pub fn failed(&self) -> usize {
        self.tests.len() - self.passed()
    }

    /// Those that passed only alone.
    pub fn shaky(&self) -> impl Iterator<Item = &Test> {
        self.tests.iter().filter(|test| test.shaky)
    }

    /// The slowest tests, one line each, slowest first.
    pub fn slowest(&self, count: usize) -> Vec<String> {
        let mut tests: Vec<&Test> = self.tests.iter().collect();
        tests.sort_by_key(|test| std::cmp::Reverse(test.took));
        tests.iter().take(count).map(|test| format!("{:>7.2} s  {}", test.took.as_secs_f64(), test.name)).collect()
    }
}

/// Runs all tests of the workspace with `env` set for them.
pub fn run(env: &[(&str, &Path)]) -> Result<Report> {
    let nextest = cargo().args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if nextest.is_ok_and(|status| status.success()) {
        return with_nextest(env);
    }
    println!("cargo-nextest is not installed: running the tests one process each without it");
    alone(env)
}

fn with_nextest(env: &[(&str, &Path)]) -> Result<Report> {
    // nextest keeps its reports below the workspace, wherever the build itself goes.
    let junit = root().join("target/nextest/default/junit.xml");
    match std::fs::remove_file(&junit) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot remove {}", junit.display())),
    }
    let mut command = cargo();
    command.args(["nextest", "run", "--workspace"]).envs(env.iter().copied());
    let status = command.status().context("cannot start cargo nextest")?;
    let xml = std::fs::read_to_string(&junit)
        .with_context(|| format!("cargo nextest ended with {status} and left no {}", junit.display()))?;
    let report = Report { tests: parse_junit(&xml) };
    // The two accounts must agree, or one of them was read wrongly.
    if report.tests.is_empty() || status.success() != (report.failed() == 0) {
        bail!(
            "cargo nextest ended with {status}, its report has {} passed, {} failed",
            report.passed(),
            report.failed()
        );
    }
    Ok(looked_at_again(report, env))
}

/// Runs what failed again, alone and often, if it is little: end-to-end tests start hundreds of processes on few cores.
fn looked_at_again(mut report: Report, env: &[(&str, &Path)]) -> Report {
    if SHAKY_MAX < report.failed() {
        return report;
    }
    for test in report.tests.iter_mut().filter(|test| !test.passed) {
        let Some((binary, name)) = test.name.split_once(' ') else { continue };
        let this = format!("binary_id(={binary}) & test(={name})");
        let passes_alone = (0..ALONE).all(|_| {
            let mut command = cargo();
            command.args(["nextest", "run", "--workspace", "-E", &this]).envs(env.iter().copied());
            command.status().is_ok_and(|status| status.success())
        });
        (test.passed, test.shaky) = (passes_alone, passes_alone);
    }
    report
}

/// Reads the test cases of a JUnit file as cargo-nextest writes it.
fn parse_junit(xml: &str) -> Vec<Test> {
    let mut tests = Vec::new();
    for case in xml.split("<testcase ").skip(1) {
        let (open, rest) = case.split_once('>').unwrap_or((case, ""));
        let body = rest.split_once("</testcase>").map_or("", |(body, _)| body);
        let self_closed = open.ends_with('/');
        let seconds = attribute(open, "time").and_then(|text| text.parse().ok()).unwrap_or(0.0);
        let bad = !self_closed && (body.contains("<failure") || body.contains("<error"));
        tests.push(Test {
            name: format!(
                "{} {}",
                attribute(open, "classname").unwrap_or_default(),
                attribute(open, "name").unwrap_or_default()
            ),
            took: Duration::from_secs_f64(seconds),
            passed: !bad,
            shaky: false,
        });
    }
    tests
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!("{name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

/// A test binary that cargo built.
struct Binary {
    label: String,
    path: PathBuf,
    folder: PathBuf,
}

/// The same without nextest: list what each test binary holds, then run every test in a process of its own.
fn alone(env: &[(&str, &Path)]) -> Result<Report> {
    let mut queue = VecDeque::new();
    for binary in binaries()? {
        let listed = sh::stdout_of(Command::new(&binary.path).args(["--list", "--format", "terse"]))?;
        let names: Vec<String> =
            listed.lines().filter_map(|line| line.strip_suffix(": test")).map(String::from).collect();
        let binary = std::sync::Arc::new(binary);
        queue.extend(names.into_iter().map(|name| (binary.clone(), name)));
    }
    let queue = Mutex::new(queue);
    let tests = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.pop_front());
                    let Some((binary, name)) = next else { break };
                    let test = one(&binary, &name, env);
                    if let Ok(mut tests) = tests.lock() {
                        tests.push(test);
                    }
                }
            });
        }
    });
    let tests = tests.into_inner().map_err(|_| anyhow::anyhow!("a test worker panicked"))?;
    if tests.is_empty() {
        bail!("the test binaries hold no tests");
    }
    Ok(Report { tests })
}

fn one(binary: &Binary, name: &str, env: &[(&str, &Path)]) -> Test {
    let started = Instant::now();
    let mut command = Command::new(&binary.path);
    command.args(["--exact", name, "--nocapture"]).current_dir(&binary.folder).envs(env.iter().copied());
    command.env("CARGO_MANIFEST_DIR", &binary.folder);
    let outcome = sh::capture(&mut command, TEST_DURATION_MAX);
    let name = format!("{} {name}", binary.label);
    let passed = match outcome {
        Ok(output) if output.status.is_some_and(|status| status.success()) => true,
        Ok(output) => {
            println!("FAIL {name}\n{}", output.text);
            false
        }
        Err(error) => {
            println!("FAIL {name}: {error:#}");
            false
        }
    };
    Test { name, took: started.elapsed(), passed, shaky: false }
}

fn binaries() -> Result<Vec<Binary>> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
        manifest_path: Option<PathBuf>,
        profile: Option<Profile>,
        target: Option<Target>,
    }
    #[derive(Deserialize)]
    struct Profile {
        test: bool,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    let text = sh::stdout_of(cargo().args([
        "test",
        "--workspace",
        "--no-run",
        "--quiet",
        "--message-format=json-render-diagnostics",
    ]))?;
    let mut found = Vec::new();
    for message in text.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok()) {
        let (Some(path), Some(manifest), Some(target)) = (message.executable, message.manifest_path, message.target)
        else {
            continue;
        };
        if message.profile.is_none_or(|profile| !profile.test) {
            continue;
        }
        let folder = manifest.parent().context("a manifest lies in a folder")?.to_path_buf();
        let package = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let label =
            if target.name.replace('_', "-") == package { package } else { format!("{package}::{}", target.name) };
        found.push(Binary { label, path, folder });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_cases_are_read_with_their_verdicts() {
        let xml = r#"<testsuites><testsuite name="lb-wire" tests="3">
            <testcase name="scan::tests::finds" classname="lb-wire" timestamp="x" time="0.250">
            </testcase>
            <testcase name="a&lt;b&gt;" classname="lb-wire::it" time="1.5">
                <failure message="no" type="test failure">text</failure>
            </testcase>
            <testcase name="short" classname="lb-wire" time="0.001"/>
        </testsuite></testsuites>"#;
        let report = Report { tests: parse_junit(xml) };
        assert_eq!((report.passed(), report.failed()), (2, 1));
        assert_eq!(report.slowest(2), ["   1.50 s  lb-wire::it a<b>", "   0.25 s  lb-wire scan::tests::finds"]);
    }
}

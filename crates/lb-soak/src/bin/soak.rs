//! `soak --landbridge FILE --out DIR [--minutes N] [--seed N] [--only R4,R7] [--short]` cycles through the scenarios until
//! the time is over; `soak check DIR` judges the histories of an earlier run. `cargo xtask soak` builds and starts it.
#![expect(clippy::print_stdout, reason = "a command line tool prints its findings")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lb_soak::check::{self, Verdict};
use lb_soak::random::{self, Random};
use lb_soak::{SCENARIOS, Scenario, Setup, Size};

const USAGE: &str =
    "usage: soak --landbridge FILE --out DIR [--minutes N] [--seed N] [--only R4,R7] [--short]\n       soak check DIR";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.as_slice() {
        [command, folder] if command == "check" => judge(Path::new(folder)),
        _ => Options::parse(&words).and_then(|options| options.run()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("soak: {problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

struct Options {
    landbridge: String,
    out: PathBuf,
    time: Duration,
    seed: u64,
    only: Vec<Scenario>,
    short: bool,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut options = Self {
            landbridge: String::new(),
            out: PathBuf::new(),
            time: Duration::ZERO,
            seed: random::seed(),
            only: SCENARIOS.to_vec(),
            short: false,
        };
        let mut words = words.iter();
        while let Some(flag) = words.next() {
            if flag == "--short" {
                options.short = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("{flag} {value}: not a number"));
            match flag.as_str() {
                "--landbridge" => options.landbridge.clone_from(value),
                "--out" => options.out = value.into(),
                "--minutes" => options.time = Duration::from_secs(60 * number()?),
                "--seed" => options.seed = number()?,
                "--only" => {
                    let named = |name| Scenario::named(name).ok_or_else(|| unknown(name));
                    options.only = value.split(',').map(named).collect::<Result<_, _>>()?;
                }
                _ => return Err(format!("unknown option {flag}")),
            }
        }
        if options.landbridge.is_empty() || options.out.as_os_str().is_empty() {
            return Err("--landbridge FILE and --out DIR are required".to_owned());
        }
        Ok(options)
    }

    /// Every scenario has an equal share of the time.
    fn size(&self) -> Size {
        let share = self.time / u32::try_from(self.only.len()).unwrap_or(u32::MAX).max(1);
        if self.short { Size::Short } else { Size::For(share) }
    }

    /// Each scenario once, then on and on until the time is over.
    fn run(&self) -> Result<bool, String> {
        println!("seed {}", self.seed);
        std::fs::create_dir_all(&self.out).map_err(|error| format!("{}: {error}", self.out.display()))?;
        let setup = Setup { binary: self.landbridge.clone(), folder: self.out.clone() };
        let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
        let (start, mut seeds, mut round) = (Instant::now(), Random::new(self.seed), 0);
        loop {
            for scenario in &self.only {
                if 0 < round && self.time <= start.elapsed() {
                    return judge(&self.out);
                }
                // The first round has the seed itself, so that one scenario can be repeated alone.
                let seed = if round == 0 { self.seed } else { seeds.bits() >> 16 };
                println!("{:>6} s  {} (seed {seed}): {}", start.elapsed().as_secs(), scenario.name, scenario.about);
                let (scenario, setup, size) = (*scenario, setup.clone(), self.size());
                // In a task of its own: a panic there leaves a history that breaks off, and the others go on.
                let mut task = tokio::task::JoinSet::new();
                task.spawn_on(async move { scenario.run(&setup, size, seed).await }, runtime.handle());
                if let Some(Err(error)) = runtime.block_on(task.join_next()) {
                    eprintln!("{}: {error}", scenario.name);
                }
                println!("{}", check::file(&scenario.path(&self.out, seed)));
            }
            round += 1;
        }
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    format!("no scenario is called {name}; there are {}", names.join(", "))
}

/// Judges every history in a folder, writes `verdict.json` and prints a table.
fn judge(folder: &Path) -> Result<bool, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let is_history = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("history-") && name.ends_with(".jsonl")
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_history).collect();
    paths.sort();
    let verdicts: Vec<Verdict> = paths.iter().map(|path| check::file(path)).collect();
    let text = serde_json::to_string_pretty(&verdicts).map_err(|error| error.to_string())?;
    std::fs::write(folder.join("verdict.json"), text).map_err(|error| error.to_string())?;
    println!(
        "\n{:<12} {:>18} {:>8} {:>8} {:>7} {:>7} {:>7} {:>10}",
        "scenario", "seed", "calls", "results", "errors", "broken", "refused", "violations"
    );
    for verdict in &verdicts {
        let Verdict { scenario, seed, calls, results, errors, broken, refused, violated, .. } = verdict;
        println!(
            "{scenario:<12} {seed:>18} {calls:>8} {results:>8} {errors:>7} {broken:>7} {refused:>7} {violated:>10}"
        );
    }
    for violation in
        verdicts.iter().flat_map(|verdict| verdict.violations.iter().map(move |text| (&verdict.scenario, text)))
    {
        println!("VIOLATION {}: {}", violation.0, violation.1);
    }
    println!("histories and verdict.json are in {}", folder.display());
    Ok(!verdicts.is_empty() && verdicts.iter().all(Verdict::holds))
}

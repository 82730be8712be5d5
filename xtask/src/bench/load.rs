//! Reading what the load generator says, and pairing targets round by round.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::Row;
use super::targets::Setting;

/// How much load: rounds in which the targets take turns, calls per turn.
#[derive(Clone, Copy)]
pub struct Effort {
    pub rounds: usize,
    pub calls: u64,
}

/// One target's line of `mcpload compare`.
#[derive(Clone, Debug, Deserialize)]
pub struct Measured {
    pub label: String,
    pub p50_us: f64,
    pub p99_us: f64,
    pub calls_per_s: f64,
    pub cpu_us_per_call: f64,
    errors: u64,
    first_error: Option<String>,
    each: Vec<Round>,
}

/// One turn of one target.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Round {
    pub p50_us: f64,
    pub calls_per_s: f64,
    pub cpu_us: f64,
}

/// Reads the lines, first target first. A target with errors is no measurement and fails the run.
pub fn parse(lines: &str) -> Result<Vec<Measured>> {
    let json = lines.lines().filter(|line| line.starts_with('{'));
    let measured = json.map(serde_json::from_str).collect::<Result<Vec<Measured>, _>>().context("mcpload's JSON")?;
    if measured.is_empty() {
        bail!("mcpload measured nothing:\n{lines}");
    }
    if let Some(one) = measured.iter().find(|one| one.errors != 0) {
        let first = one.first_error.as_deref().unwrap_or("not told");
        bail!("{}: {} calls failed, the first: {first}", one.label, one.errors);
    }
    Ok(measured)
}

/// The rows of one comparison; the first target is the direct call.
pub fn rows(setting: Setting, concurrency: usize, bytes: usize, measured: &[Measured]) -> Vec<Row> {
    let Some(direct) = measured.first() else { return Vec::new() };
    let hop = setting.hop().and_then(|name| measured.iter().find(|one| one.label == name));
    let row = |(index, one): (usize, &Measured)| Row {
        path: setting.path(),
        wire: setting.wire(),
        concurrency,
        bytes,
        target: one.label.clone(),
        p50_us: one.p50_us,
        p99_us: one.p99_us,
        calls_s: one.calls_per_s,
        cpu_us: one.cpu_us_per_call,
        added_p50_us: (index != 0)
            .then(|| median_of_pairs(one, direct, |one, direct| one.p50_us - direct.p50_us))
            .flatten(),
        ratio_hop: (index != 0).then(|| hop.and_then(|hop| added_ratio(one, hop, direct))).flatten(),
    };
    measured.iter().enumerate().map(row).collect()
}

/// Added latency as a multiple of the hop's. `None` when the hop added nothing that stands out of the noise.
pub fn added_ratio(one: &Measured, hop: &Measured, direct: &Measured) -> Option<f64> {
    let added = |of: &Measured| median_of_pairs(of, direct, |of, direct| of.p50_us - direct.p50_us);
    let (ours, hops) = (added(one)?, added(hop)?);
    (0.0 < hops).then(|| ours / hops)
}

/// The median of a figure taken from two targets in the same round, so that noise longer than a round falls on both.
pub fn median_of_pairs(a: &Measured, b: &Measured, figure: impl Fn(Round, Round) -> f64) -> Option<f64> {
    let mut figures: Vec<f64> = a.each.iter().zip(&b.each).map(|(a, b)| figure(*a, *b)).collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    let upper = figures.get(middle).copied()?;
    if figures.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(figures.get(middle - 1).copied()?, upper))
}

#[cfg(test)]
mod tests {
    use super::super::aims;
    use super::super::targets::LANDBRIDGE;
    use super::*;

    /// Three rounds; the middle one is what the median should show.
    fn measured(label: &str, p50: f64, speed: f64, cpu: f64) -> Measured {
        let each = [0.5, 1.0, 3.0].map(|f| Round { p50_us: p50 * f, calls_per_s: speed / f, cpu_us: cpu * f });
        let (errors, first_error) = (0, None);
        let label = label.to_owned();
        let (p50_us, p99_us, calls_per_s, cpu_us_per_call) = (p50, p50 * 2.0, speed, cpu);
        Measured { label, p50_us, p99_us, calls_per_s, cpu_us_per_call, errors, first_error, each: each.to_vec() }
    }

    #[test]
    fn rows_show_added_latency_and_its_ratio_to_the_hop() {
        let all = [
            measured("direct", 100.0, 9.0, 9.0),
            measured("route", 140.0, 5.0, 5.0),
            measured(LANDBRIDGE, 150.0, 4.0, 6.0),
        ];
        let rows = rows(Setting::HttpHttpLegacy, 1, 64, &all);
        let figures: Vec<_> = rows.iter().map(|row| (row.added_p50_us, row.ratio_hop)).collect();
        assert_eq!(figures, [(None, None), (Some(40.0), Some(1.0)), (Some(50.0), Some(1.25))]);
    }

    #[test]
    fn a_hop_lost_in_the_noise_gives_no_ratio() {
        let (direct, hop, ours) = (
            measured("direct", 100.0, 1.0, 1.0),
            measured("route", 99.0, 1.0, 1.0),
            measured(LANDBRIDGE, 150.0, 1.0, 1.0),
        );
        assert_eq!(added_ratio(&ours, &hop, &direct), None);
    }

    #[test]
    fn aims_are_judged_against_the_hop_of_the_same_path() {
        let check = |concurrency, ours: Measured, want: [bool; 2]| {
            let all = [measured("direct", 100.0, 900.0, 9.0), measured("route", 140.0, 500.0, 10.0), ours];
            let met = aims::of_calls(Setting::HttpHttpLegacy, concurrency, 64, &all)
                .iter()
                .map(|aim| aim.met)
                .collect::<Vec<_>>();
            assert_eq!(met, want.map(Some), "{concurrency} at once: {all:?}");
        };
        check(1, measured(LANDBRIDGE, 150.0, 400.0, 12.0), [true, true]);
        check(1, measured(LANDBRIDGE, 160.0, 400.0, 14.0), [false, false]);
        check(32, measured(LANDBRIDGE, 150.0, 430.0, 12.0), [true, true]);
        check(32, measured(LANDBRIDGE, 150.0, 400.0, 12.0), [false, true]);
    }

    #[test]
    fn a_failed_call_is_not_a_measurement() {
        let line = r#"{"label":"route","p50_us":1,"p99_us":1,"calls_per_s":1,"cpu_us_per_call":1,"errors":2,"first_error":"HTTP 502","each":[]}"#;
        let error = parse(line).unwrap_err().to_string();
        assert_eq!(error, "route: 2 calls failed, the first: HTTP 502");
        assert!(parse("no json here").is_err());
    }
}

//! What the figures are held against.

use serde::Serialize;

use super::load::{Measured, median_of_pairs};
use super::targets::{EXECUTE_TOOL, LANDBRIDGE, Setting, WRAP};

/// One figure with its bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aim {
    pub name: String,
    /// `None`: not measured.
    pub value: Option<f64>,
    /// The bound, as in `<= 1.3`.
    pub aim: String,
    pub met: Option<bool>,
}

impl Aim {
    /// A figure that should not exceed `bound`.
    pub fn at_most(name: impl Into<String>, value: Option<f64>, bound: f64) -> Self {
        Self { name: name.into(), value, aim: format!("<= {bound}"), met: value.map(|value| value <= bound) }
    }

    /// A figure that should reach `bound`.
    pub fn at_least(name: impl Into<String>, value: Option<f64>, bound: f64) -> Self {
        Self { name: name.into(), value, aim: format!(">= {bound}"), met: value.map(|value| bound <= value) }
    }
}

/// The aims that one load shows: small payloads, landbridge against the hop of the same path.
pub fn of_calls(setting: Setting, concurrency: usize, bytes: usize, measured: &[Measured]) -> Vec<Aim> {
    let by_name = |name: &str| measured.iter().find(|one| one.label == name);
    let (Some(ours), Some(direct)) = (by_name(LANDBRIDGE), measured.first()) else { return Vec::new() };
    if bytes != 64 {
        return Vec::new();
    }
    let what = format!("{} {}, {concurrency} at once", setting.path(), setting.wire());
    let tools = by_name(EXECUTE_TOOL).map(|tools| {
        let ratio = median_of_pairs(tools, direct, |tools, direct| tools.p50_us / direct.p50_us);
        Aim::at_most(format!("{what}: execute_tool, x direct call"), ratio, 3.0)
    });
    let Some(hop) = setting.hop().and_then(by_name) else {
        // No bare hop on this path: the bound is in microseconds over a direct call.
        if concurrency != 1 {
            return Vec::new();
        }
        let added = median_of_pairs(ours, direct, |ours, direct| ours.p50_us - direct.p50_us);
        let wrapped = by_name(WRAP).and_then(|wrap| {
            median_of_pairs(wrap, direct, |wrap, direct| (wrap.p50_us - direct.p50_us) / direct.p50_us)
        });
        return vec![
            Aim::at_most(format!("{what}: added p50, us"), added, 60.0),
            Aim::at_most(format!("{what}: wrap, added p50, x direct p50"), wrapped, 1.15),
        ];
    };
    let cpu = median_of_pairs(ours, hop, |ours, hop| ours.cpu_us / hop.cpu_us);
    let cpu = Aim::at_most(format!("{what}: CPU per call, x hop"), cpu.filter(|ratio| ratio.is_finite()), 1.3);
    let speed = if concurrency == 1 {
        let added = super::load::added_ratio(ours, hop, direct);
        Aim::at_most(format!("{what}: added p50, x hop"), added, setting.added_max())
    } else {
        let share = median_of_pairs(ours, hop, |ours, hop| ours.calls_per_s / hop.calls_per_s);
        Aim::at_least(format!("{what}: calls/s, share of hop"), share, 0.85)
    };
    [speed, cpu].into_iter().chain(tools).collect()
}

/// A list answered from our cache is no slower than asking the server itself.
pub fn of_lists(measured: &[Measured]) -> Vec<Aim> {
    let ours = measured.iter().find(|one| one.label == LANDBRIDGE);
    let (Some(ours), Some(direct)) = (ours, measured.first()) else { return Vec::new() };
    let added = median_of_pairs(ours, direct, |ours, direct| ours.p50_us - direct.p50_us);
    vec![Aim::at_most("tools/list from the cache: added p50, us", added, 0.0)]
}

//! What is measured at one moment, in the form that both ways out of here share.

use std::borrow::Cow;

use crate::measure::{Distribution, Histogram};

/// One name and all that is known under it.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name, in the alphabet of Prometheus.
    pub name: &'static str,
    /// What it tells.
    pub help: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// One number per set of labels.
    pub points: Vec<Point>,
}

/// What kind of number a family holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by class.
    Histogram,
}

/// Names and values, in the order in which they are written.
pub type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// One number and its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// What tells it from the others of its family.
    pub labels: Labels,
    /// The number.
    pub value: Value,
}

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole one.
    Whole(i64),
    /// Any other.
    Real(f64),
    /// Many at once.
    Many(Distribution),
}

impl Family {
    /// A family without points.
    pub fn new(name: &'static str, help: &'static str, kind: Kind) -> Self {
        Self { name, help, kind, points: Vec::new() }
    }

    /// A family of one number without labels.
    pub fn single(name: &'static str, help: &'static str, kind: Kind, value: i64) -> Self {
        let mut family = Self::new(name, help, kind);
        family.whole(Vec::new(), value);
        family
    }

    /// Adds a whole number.
    pub fn whole(&mut self, labels: Labels, value: i64) {
        self.points.push(Point { labels, value: Value::Whole(value) });
    }

    /// Adds a count.
    pub fn count(&mut self, labels: Labels, value: u64) {
        self.whole(labels, i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Adds what a histogram holds now.
    pub fn many(&mut self, labels: Labels, histogram: &Histogram) {
        self.points.push(Point { labels, value: Value::Many(histogram.distribution()) });
    }
}

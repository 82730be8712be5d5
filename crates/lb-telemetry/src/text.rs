//! The text that Prometheus reads, version 0.0.4.

use std::fmt::Write as _;

use crate::family::{Family, Kind, Labels, Point, Value};

/// What the text is, for HTTP.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All families as text.
pub fn exposition(families: &[Family]) -> String {
    let mut out = String::with_capacity(4096);
    for family in families {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        out.push_str("# HELP ");
        out.push_str(family.name);
        out.push(' ');
        escape(&mut out, family.help, Quoted::No);
        out.push_str("\n# TYPE ");
        out.push_str(family.name);
        out.push(' ');
        out.push_str(kind);
        out.push('\n');
        for point in &family.points {
            write_point(&mut out, family.name, point);
        }
    }
    out
}

fn write_point(out: &mut String, name: &str, point: &Point) {
    match &point.value {
        Value::Whole(number) => sample(out, name, "", &point.labels, None, *number),
        Value::Real(number) => sample(out, name, "", &point.labels, None, number),
        Value::Many(many) => {
            let mut so_far = 0_u64;
            for (class, count) in many.counts.iter().enumerate() {
                so_far += count;
                let bound = many.bounds.get(class).map_or_else(|| "+Inf".to_owned(), f64::to_string);
                sample(out, name, "_bucket", &point.labels, Some(&bound), so_far);
            }
            sample(out, name, "_sum", &point.labels, None, many.sum);
            sample(out, name, "_count", &point.labels, None, so_far);
        }
    }
}

fn sample(
    out: &mut String,
    name: &str,
    suffix: &str,
    labels: &Labels,
    bound: Option<&str>,
    value: impl std::fmt::Display,
) {
    out.push_str(name);
    out.push_str(suffix);
    let bound = bound.map(|bound| ("le", bound));
    let labels = labels.iter().map(|(name, value)| (*name, &**value)).chain(bound);
    let mut open = false;
    for (name, value) in labels {
        out.push(if open { ',' } else { '{' });
        open = true;
        out.push_str(name);
        out.push_str("=\"");
        escape(out, value, Quoted::Yes);
        out.push('"');
    }
    if open {
        out.push('}');
    }
    if writeln!(out, " {value}").is_err() {
        unreachable!("writing into a string does not fail");
    }
}

#[derive(PartialEq)]
enum Quoted {
    Yes,
    No,
}

fn escape(out: &mut String, text: &str, quoted: Quoted) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quoted == Quoted::Yes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::Histogram;

    #[test]
    fn families_are_written_with_help_type_and_escapes() {
        let mut counter = Family::new("a_total", "of a \\ b\nc \"d\"", Kind::Counter);
        counter.count(vec![("server", "x\"y\\z\n".into()), ("method", "ping".into())], 3);
        let gauge = Family::single("up", "whether", Kind::Gauge, -1);
        let want = "# HELP a_total of a \\\\ b\\nc \"d\"\n# TYPE a_total counter\n\
                    a_total{server=\"x\\\"y\\\\z\\n\",method=\"ping\"} 3\n\
                    # HELP up whether\n# TYPE up gauge\nup -1\n";
        assert_eq!(exposition(&[counter, gauge]), want);
    }

    #[test]
    fn classes_of_a_histogram_are_summed_up() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_millis(1));
        histogram.record(Duration::from_secs(1000));
        let mut family = Family::new("t_seconds", "times", Kind::Histogram);
        family.many(vec![("server", "a".into())], &histogram);
        let text = exposition(&[family]);
        for line in [
            "t_seconds_bucket{server=\"a\",le=\"0.0005\"} 0",
            "t_seconds_bucket{server=\"a\",le=\"0.001\"} 1",
            "t_seconds_bucket{server=\"a\",le=\"120\"} 1",
            "t_seconds_bucket{server=\"a\",le=\"+Inf\"} 2",
            "t_seconds_sum{server=\"a\"} 1000.001",
            "t_seconds_count{server=\"a\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
    }
}

//! Where traces and metrics go, from the variables that OpenTelemetry fixes.

use std::fmt;
use std::time::Duration;

use crate::context::TraceId;

/// What to export and how.
#[derive(Debug)]
pub struct Settings {
    /// Where spans go; `None` for nowhere.
    pub traces: Option<Destination>,
    /// Where metrics go; `None` for nowhere.
    pub metrics: Option<Destination>,
    /// Which traces are recorded.
    pub sampler: Sampler,
    /// What is said of this process.
    pub resource: Vec<(String, String)>,
    /// How often spans are sent.
    pub spans_every: Duration,
    /// How often metrics are sent.
    pub metrics_every: Duration,
    /// How long one export may take.
    pub timeout: Duration,
}

/// One collector.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination {
    /// The whole URL.
    pub url: String,
    /// Headers of every request; often secrets.
    pub headers: Vec<(String, String)>,
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Destination({} headers)", self.headers.len())
    }
}

/// Which traces are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampler {
    /// All.
    Always,
    /// None.
    Never,
    /// This share, whatever the parent says.
    Share(f64),
    /// As the parent says, and this share of those that begin here.
    ParentOr(f64),
}

/// A variable that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// Which one.
    pub variable: String,
    /// What is wrong with it, and what to write instead.
    pub why: String,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.variable, self.why)
    }
}

impl std::error::Error for SettingsError {}

impl Sampler {
    pub(crate) fn takes(self, trace: TraceId, parent: Option<bool>) -> bool {
        match (self, parent) {
            (Self::Always, _) => true,
            (Self::Never, _) => false,
            (Self::ParentOr(_), Some(sampled)) => sampled,
            (Self::Share(share) | Self::ParentOr(share), _) => {
                // 53 bits, as far as a float is exact.
                #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
                let place = (trace.low() >> 11) as f64 / (1_u64 << 53) as f64;
                place < share
            }
        }
    }
}

impl Settings {
    /// What this environment asks for; `None` when nothing is to be exported.
    ///
    /// # Errors
    /// A variable says something that cannot be done.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, SettingsError> {
        let variable =
            |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let traces = destination(&variable, "TRACES", "v1/traces")?;
        let metrics = destination(&variable, "METRICS", "v1/metrics")?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            traces,
            metrics,
            sampler: sampler(&variable)?,
            resource: resource(&variable)?,
            spans_every: millis(&variable, "OTEL_BSP_SCHEDULE_DELAY", 5_000)?,
            metrics_every: millis(&variable, "OTEL_METRIC_EXPORT_INTERVAL", 60_000)?,
            timeout: millis(&variable, "OTEL_EXPORTER_OTLP_TIMEOUT", 10_000)?,
        }))
    }
}

type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

fn refuse<T>(variable: &str, why: impl Into<String>) -> Result<T, SettingsError> {
    Err(SettingsError { variable: variable.to_owned(), why: why.into() })
}

fn destination(variable: Variable<'_>, signal: &str, path: &str) -> Result<Option<Destination>, SettingsError> {
    if variable(&format!("OTEL_{signal}_EXPORTER")).is_some_and(|exporter| exporter == "none") {
        return Ok(None);
    }
    let (own, common) = (format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"), "OTEL_EXPORTER_OTLP_ENDPOINT");
    let (name, url) = match (variable(&own), variable(common)) {
        (Some(url), _) => (own.as_str(), url),
        (None, Some(base)) => (common, format!("{}/{path}", base.trim_end_matches('/'))),
        (None, None) => return Ok(None),
    };
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return refuse(name, "must be a URL that begins with http:// or https://, such as http://127.0.0.1:4318");
    }
    for name in [format!("OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"), "OTEL_EXPORTER_OTLP_PROTOCOL".to_owned()] {
        if variable(&name).is_some_and(|protocol| protocol != "http/protobuf") {
            return refuse(&name, "only http/protobuf is spoken here; collectors take it on port 4318");
        }
    }
    let own = format!("OTEL_EXPORTER_OTLP_{signal}_HEADERS");
    let name = if variable(&own).is_some() { own.as_str() } else { "OTEL_EXPORTER_OTLP_HEADERS" };
    Ok(Some(Destination { url, headers: pairs(variable, name)? }))
}

fn resource(variable: Variable<'_>) -> Result<Vec<(String, String)>, SettingsError> {
    let mut resource = pairs(variable, "OTEL_RESOURCE_ATTRIBUTES")?;
    if let Some(name) = variable("OTEL_SERVICE_NAME") {
        resource.retain(|(key, _)| key != "service.name");
        resource.insert(0, ("service.name".to_owned(), name));
    } else if !resource.iter().any(|(key, _)| key == "service.name") {
        resource.insert(0, ("service.name".to_owned(), "landbridge".to_owned()));
    }
    if !resource.iter().any(|(key, _)| key == "service.version") {
        resource.push(("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    }
    Ok(resource)
}

fn sampler(variable: Variable<'_>) -> Result<Sampler, SettingsError> {
    let share = || match variable("OTEL_TRACES_SAMPLER_ARG").map(|text| text.parse::<f64>()) {
        None => Ok(1.0),
        Some(Ok(share)) if (0.0..=1.0).contains(&share) => Ok(share),
        Some(_) => refuse("OTEL_TRACES_SAMPLER_ARG", "must be a number from 0 to 1"),
    };
    Ok(match variable("OTEL_TRACES_SAMPLER").as_deref() {
        None | Some("parentbased_always_on") => Sampler::ParentOr(1.0),
        Some("always_on") => Sampler::Always,
        Some("always_off") => Sampler::Never,
        Some("traceidratio") => Sampler::Share(share()?),
        Some("parentbased_always_off") => Sampler::ParentOr(0.0),
        Some("parentbased_traceidratio") => Sampler::ParentOr(share()?),
        Some(_) => {
            return refuse(
                "OTEL_TRACES_SAMPLER",
                "must be always_on, always_off or traceidratio, or one of them after parentbased_",
            );
        }
    })
}

fn millis(variable: Variable<'_>, name: &str, default: u64) -> Result<Duration, SettingsError> {
    match variable(name).map(|text| text.parse::<u64>()) {
        None => Ok(Duration::from_millis(default)),
        Some(Ok(millis)) if 0 < millis => Ok(Duration::from_millis(millis)),
        Some(_) => refuse(name, "must be a number of milliseconds above 0"),
    }
}

/// `key=value` pairs between commas, values percent-encoded.
fn pairs(variable: Variable<'_>, name: &str) -> Result<Vec<(String, String)>, SettingsError> {
    let Some(text) = variable(name) else { return Ok(Vec::new()) };
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    pairs
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), decoded(value.trim()))),
            // The text may hold a secret, so that it is not repeated.
            _ => refuse(name, "must be pairs such as key=value, with commas between them"),
        })
        .collect()
}

/// What `%20` and the like stand for; what is no such thing stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let pair = tail.first_chunk::<2>().filter(|_| *first == b'%').and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, SettingsError> {
        Settings::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    fn urls(variables: &[(&str, &str)]) -> (Option<String>, Option<String>) {
        let settings = read(variables).unwrap().unwrap();
        (settings.traces.map(|to| to.url), settings.metrics.map(|to| to.url))
    }

    #[test]
    fn without_an_endpoint_nothing_is_exported() {
        assert!(read(&[]).unwrap().is_none());
        assert!(read(&[("OTEL_SERVICE_NAME", "x")]).unwrap().is_none());
        assert!(
            read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:1"), ("OTEL_SDK_DISABLED", "TRUE")]).unwrap().is_none()
        );
        assert!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap().is_none());
    }

    #[test]
    fn the_common_endpoint_gets_paths_and_own_ones_are_taken_as_they_are() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318/");
        let both = (Some("http://h:4318/v1/traces".to_owned()), Some("http://h:4318/v1/metrics".to_owned()));
        assert_eq!(urls(&[base]), both);
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/x");
        assert_eq!(urls(&[base, own]), (Some("https://t/x".to_owned()), both.1.clone()));
        assert_eq!(urls(&[own]), (Some("https://t/x".to_owned()), None));
        assert_eq!(urls(&[base, ("OTEL_METRICS_EXPORTER", "none")]), (both.0, None));
    }

    #[test]
    fn headers_and_resource_attributes_are_decoded() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20a%3Db, x=100%"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "y=1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,host.name=h"),
            ("OTEL_SERVICE_NAME", "b"),
        ]);
        let settings = settings.unwrap().unwrap();
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        };
        let traces = settings.traces.unwrap();
        assert_eq!(traces.headers, pairs(&[("authorization", "Bearer a=b"), ("x", "100%")]));
        assert_eq!(settings.metrics.unwrap().headers, pairs(&[("y", "1")]));
        let version = env!("CARGO_PKG_VERSION");
        let want = pairs(&[("service.name", "b"), ("host.name", "h"), ("service.version", version)]);
        assert_eq!(settings.resource, want);
        assert!(!format!("{traces:?}").contains("Bearer"), "headers are secrets");
    }

    #[test]
    fn what_cannot_be_done_is_refused_by_name() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:1");
        for (bad, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "h:4317"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://h"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ] {
            let error = read(&[(bad, value), base]).unwrap_err();
            assert_eq!(error.variable, bad);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let share = [base, ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")];
        assert_eq!(read(&share).unwrap_err().variable, "OTEL_TRACES_SAMPLER_ARG");
    }

    #[test]
    fn a_share_of_traces_is_taken_and_parents_decide_where_they_may() {
        let taken = |sampler: Sampler, parent| (0..2000).filter(|_| sampler.takes(TraceId::random(), parent)).count();
        let quarter = taken(Sampler::Share(0.25), Some(true));
        assert!((300..700).contains(&quarter), "{quarter} of 2000");
        assert_eq!(taken(Sampler::ParentOr(0.0), Some(true)), 2000);
        assert_eq!(taken(Sampler::ParentOr(1.0), Some(false)), 0);
        assert_eq!((taken(Sampler::ParentOr(0.0), None), taken(Sampler::ParentOr(1.0), None)), (0, 2000));
        assert_eq!((taken(Sampler::Never, Some(true)), taken(Sampler::Always, Some(false))), (0, 2000));
    }
}

//! What is counted and traced: meters, the Prometheus text, spans with W3C trace context, and OTLP over http/protobuf.
//!
//! Knows no MCP: methods and servers are labels that others give. Does no IO of its own: what is exported leaves through
//! a [`Courier`] that the binary supplies. Nothing here waits, locks or allocates on the way of a call that is not
//! traced.

mod context;
mod export;
mod family;
mod measure;
mod meter;
mod otlp;
mod protobuf;
mod settings;
mod span;
mod text;

pub use context::{Context, SpanId, TraceId};
pub use export::{Courier, Exporter, Sent, Signal};
pub use family::{Family, Kind, Labels, Point, Value};
pub use measure::{Counter, Distribution, Gauge, Histogram};
pub use meter::{Meter, Outcome, Watch};
pub use settings::{Destination, Sampler, Settings, SettingsError};
pub use span::{Attribute, Role, Span, Tracer, current, current_state};
pub use text::{CONTENT_TYPE, exposition};

//! `streaming`: points that come one after another, each told as progress on the caller's own token.

use std::f64::consts::TAU;
use std::time::Duration;

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, JsonObject};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::registry::{failed, said, within};
use crate::server::Demo;
use crate::system_time::now_iso;

const COUNT: (u32, u32, u32) = (5, 1, 50);
const INTERVAL_MS: (u32, u32, u32) = (1000, 100, 5000);
const LIMIT_MIN: Duration = Duration::from_secs(30);
/// What the points themselves may take on top of the waiting between them.
const LIMIT_SPARE: Duration = Duration::from_secs(5);

/// Arguments of `streaming`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Streaming {
    /// What the points are about [default: metrics]
    data_type: Option<DataType>,
    /// How many points [default: 5]
    #[schemars(range(min = 1, max = 50))]
    count: Option<u32>,
    /// Milliseconds between two points [default: 1000]
    #[schemars(range(min = 100, max = 5000))]
    interval_ms: Option<u32>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DataType {
    #[default]
    Metrics,
    StockPrices,
    SensorData,
    Custom,
}

/// Structured result of `streaming`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Streamed {
    data_type: DataType,
    count: u32,
    interval_ms: u32,
    points: Vec<Point>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Point {
    /// From 1 on
    index: u32,
    /// ISO 8601, UTC
    timestamp: String,
    /// The numbers of this point by name
    data: Value,
}

#[tool_router(router = streaming_tools, vis = "pub(crate)")]
impl Demo {
    #[tool(
        title = "Streaming",
        description = "Make up points of data one after another; each is told as progress when a progress token is \
                       given, and all of them are in the result",
        output_schema = schema_for_output::<Streamed>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn streaming(
        &self,
        Parameters(Streaming { data_type, count, interval_ms }): Parameters<Streaming>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let bounds = (
            within("count", count, COUNT.0, COUNT.1, COUNT.2),
            within("intervalMs", interval_ms, INTERVAL_MS.0, INTERVAL_MS.1, INTERVAL_MS.2),
        );
        let (count, interval_ms) = match bounds {
            (Ok(count), Ok(interval_ms)) => (count, interval_ms),
            (Err(why), _) | (_, Err(why)) => return failed(why),
        };
        let data_type = data_type.unwrap_or_default();
        let points = self.points(data_type, count, Duration::from_millis(interval_ms.into()), &context);
        match context.ct.run_until_cancelled(points).await {
            Some(points) => {
                let mut result = said(format!("{count} points, {interval_ms} ms apart"));
                result.structured_content = Some(json!(Streamed { data_type, count, interval_ms, points }));
                result
            }
            None => failed("cancelled"),
        }
    }
}

impl Demo {
    async fn points(
        &self,
        data_type: DataType,
        count: u32,
        interval: Duration,
        context: &RequestContext<RoleServer>,
    ) -> Vec<Point> {
        let mut points = Vec::new();
        for index in 1..=count {
            if 1 < index {
                sleep(interval).await;
            }
            let data = data(data_type, index);
            self.progress(context, index, count, data.to_string()).await;
            points.push(Point { index, timestamp: now_iso(), data });
        }
        points
    }
}

/// How long these arguments need; a call within its bounds never runs into it.
pub(crate) fn limit(arguments: &JsonObject) -> Duration {
    let number = |name: &str, (default, _, max): (u32, u32, u32)| {
        let given = arguments.get(name).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        given.unwrap_or(default).min(max)
    };
    let waits = number("count", COUNT) * number("intervalMs", INTERVAL_MS);
    LIMIT_MIN.max(Duration::from_millis(waits.into()) + LIMIT_SPARE)
}

/// Numbers that look alive and are the same every time.
fn data(data_type: DataType, index: u32) -> Value {
    let wave = |period: f64, middle: f64, swing: f64| {
        let value = middle + swing * (TAU * f64::from(index) / period).sin();
        (value * 100.0).round() / 100.0
    };
    match data_type {
        DataType::Metrics => json!({ "cpu": wave(7.0, 40.0, 25.0), "memory": wave(13.0, 60.0, 10.0) }),
        DataType::StockPrices => json!({ "symbol": "DEMO", "price": wave(11.0, 100.0, 8.0) }),
        DataType::SensorData => json!({ "temperature": wave(17.0, 21.0, 2.0), "humidity": wave(9.0, 45.0, 5.0) }),
        DataType::Custom => json!({ "value": index }),
    }
}

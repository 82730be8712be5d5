//! The waterfall: what was asked of the gateway lately, as a live page and as the JSON that the page reads.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lb_gateway::{Moment, Tracker};
use sha2::{Digest as _, Sha256};

use crate::page::Page;
use crate::report::report;

const HTML: &str = include_str!("waterfall/page.html");
const STYLE: &str = include_str!("waterfall/page.css");
const SCRIPT: &str = include_str!("waterfall/page.js");

/// Tells the time that a report was made.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// The pages at `/waterfall` and below.
#[derive(Clone)]
pub struct Waterfall {
    tracker: Tracker,
    clock: Clock,
    page: Page,
}

impl Waterfall {
    /// Where it is served.
    pub const PATH: &str = "/waterfall";

    /// Shows the rows of a tracker.
    pub fn new(tracker: Tracker, clock: Clock) -> Self {
        let body = HTML.replace("/*style*/", STYLE).replace("/*script*/", SCRIPT);
        let page = Page {
            status: 200,
            content_type: "text/html; charset=utf-8",
            body: Bytes::from(body),
            content_security_policy: policy(),
        };
        Self { tracker, clock, page }
    }

    /// What is at a path; `None` where nothing is.
    pub fn page(&self, path: &str, query: Option<&str>) -> Option<Page> {
        match path.strip_prefix(Self::PATH)? {
            "" | "/" => Some(self.page.clone()),
            "/json" => Some(self.json(query)),
            _ => None,
        }
    }

    fn json(&self, query: Option<&str>) -> Page {
        let session = session_of(query.unwrap_or_default());
        let rows = self.tracker.snapshot(session);
        Page {
            status: 200,
            content_type: "application/json",
            body: report(&rows, (self.clock)()),
            content_security_policy: "default-src 'none'; frame-ancestors 'none'".into(),
        }
    }
}

impl std::fmt::Debug for Waterfall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waterfall").finish_non_exhaustive()
    }
}

/// Nothing may run or be loaded but the one script and the one style that we wrote, and no text may become either.
fn policy() -> String {
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// The session that was asked for. Short hashes have nothing to decode.
fn session_of(query: &str) -> Option<&str> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("session="));
    value.filter(|session| !session.is_empty())
}

#[cfg(test)]
mod tests;

//! The one table that knows the protocol revisions: their names, order, era, and what each of them has.
//!
//! Error codes are in [`code`], methods in [`method`]. Nothing here looks at a message, and nothing elsewhere
//! compares a version string.

pub mod code;
pub mod method;

#[cfg(test)]
mod tests;

use std::fmt;

/// A published protocol revision, in order of publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Revision {
    /// First public revision; HTTP+SSE with two endpoints.
    V2024_11_05,
    /// Streamable HTTP, batches, tool annotations.
    V2025_03_26,
    /// Version header, elicitation, structured results; batches removed.
    V2025_06_18,
    /// Resumable polling, URL elicitation, core tasks; the last revision with sessions.
    V2025_11_25,
    /// Stateless: every request carries its own version and capabilities.
    V2026_07_28,
}

/// The two wire contracts. A peer speaks one of them at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Era {
    /// `initialize`, sessions, requests in both directions.
    Legacy,
    /// Self-contained client requests, input by repeated requests.
    Modern,
}

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// What `initialize` answers to a version it does not know.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// What we speak to a modern peer.
    pub const LATEST_MODERN: Self = Self::V2026_07_28;
    /// What a legacy HTTP request without a version header is taken to speak.
    pub const WITHOUT_HEADER: Self = Self::V2025_03_26;

    /// The revision with exactly this name.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        match name {
            b"2024-11-05" => Some(Self::V2024_11_05),
            b"2025-03-26" => Some(Self::V2025_03_26),
            b"2025-06-18" => Some(Self::V2025_06_18),
            b"2025-11-25" => Some(Self::V2025_11_25),
            b"2026-07-28" => Some(Self::V2026_07_28),
            _ => None,
        }
    }

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Which wire contract it belongs to.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }

    /// What `initialize` answers: the version asked for if it is a legacy one we speak, else the latest legacy one.
    ///
    /// `2024-10-07` is a draft that some clients still name; its wire is that of 2024-11-05.
    #[must_use]
    pub fn negotiate_legacy(requested: &str) -> Self {
        match Self::parse(requested.as_bytes()) {
            Some(revision) if revision.era() == Era::Legacy => revision,
            Some(_) => Self::LATEST_LEGACY,
            None if requested == "2024-10-07" => Self::V2024_11_05,
            None => Self::LATEST_LEGACY,
        }
    }

    /// Streamable HTTP exists; before it there is only HTTP+SSE.
    #[must_use]
    pub fn streamable_http(self) -> bool {
        Self::V2025_03_26 <= self
    }

    /// A body or line may be an array of messages.
    ///
    /// 2024-11-05 says nothing about it, so that its clients do not send any.
    #[must_use]
    pub fn batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Later requests must carry `MCP-Protocol-Version`.
    #[must_use]
    pub fn version_header_required(self) -> bool {
        Self::V2025_06_18 <= self
    }

    /// The client knows the priming event (an id with empty data) and reconnects after it.
    #[must_use]
    pub fn priming(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Sessions, event ids and resumption exist.
    #[must_use]
    pub fn sessions(self) -> bool {
        self.era() == Era::Legacy
    }

    /// Closing the response stream cancels the request.
    #[must_use]
    pub fn disconnect_cancels(self) -> bool {
        self.era() == Era::Modern
    }

    /// The server may send requests of its own.
    #[must_use]
    pub fn server_requests(self) -> bool {
        self.era() == Era::Legacy
    }

    /// Audio content blocks.
    #[must_use]
    pub fn audio(self) -> bool {
        Self::V2025_03_26 <= self
    }

    /// Tool annotations.
    #[must_use]
    pub fn tool_annotations(self) -> bool {
        Self::V2025_03_26 <= self
    }

    /// `message` in progress notifications.
    #[must_use]
    pub fn progress_message(self) -> bool {
        Self::V2025_03_26 <= self
    }

    /// The `completions` capability.
    #[must_use]
    pub fn completions_capability(self) -> bool {
        Self::V2025_03_26 <= self
    }

    /// `context` in `completion/complete`.
    #[must_use]
    pub fn completion_context(self) -> bool {
        Self::V2025_06_18 <= self
    }

    /// `structuredContent` and `outputSchema`.
    #[must_use]
    pub fn structured_content(self) -> bool {
        Self::V2025_06_18 <= self
    }

    /// `resource_link` content blocks.
    #[must_use]
    pub fn resource_link(self) -> bool {
        Self::V2025_06_18 <= self
    }

    /// `title` beside `name`.
    #[must_use]
    pub fn titles(self) -> bool {
        Self::V2025_06_18 <= self
    }

    /// Elicitation in form mode.
    #[must_use]
    pub fn elicitation(self) -> bool {
        Self::V2025_06_18 <= self
    }

    /// Elicitation in URL mode.
    #[must_use]
    pub fn url_elicitation(self) -> bool {
        Self::V2025_11_25 <= self
    }

    /// `elicitationId`, `notifications/elicitation/complete` and error -32042.
    #[must_use]
    pub fn elicitation_ids(self) -> bool {
        self == Self::V2025_11_25
    }

    /// `tools` and content arrays in sampling.
    #[must_use]
    pub fn sampling_tools(self) -> bool {
        Self::V2025_11_25 <= self
    }

    /// Icons of tools, prompts, resources and implementations.
    #[must_use]
    pub fn icons(self) -> bool {
        Self::V2025_11_25 <= self
    }

    /// Tasks as part of the core protocol (`params.task`, `tasks/result`, `tasks/list`).
    #[must_use]
    pub fn core_tasks(self) -> bool {
        self == Self::V2025_11_25
    }

    /// The tasks extension may be declared.
    #[must_use]
    pub fn tasks_extension(self) -> bool {
        self.era() == Era::Modern
    }

    /// `resultType`, and `ttlMs` and `cacheScope` on cacheable results.
    #[must_use]
    pub fn result_type(self) -> bool {
        self.era() == Era::Modern
    }

    /// `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` mirror the body and are checked against it.
    #[must_use]
    pub fn mirrored_headers(self) -> bool {
        self.era() == Era::Modern
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

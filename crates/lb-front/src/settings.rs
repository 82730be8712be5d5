//! Times that a front keeps to.

use std::time::Duration;

/// How long a front waits for what.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A reply that has nothing to say for this long begins as a stream.
    pub sse_after: Duration,
    /// A stream that has nothing to say for this long sends a comment.
    pub keep_alive_every: Duration,
    /// A call without any step for this long has failed.
    pub quiet_max: Duration,
    /// A call that takes longer than this has failed, whatever it says.
    pub call_max: Duration,
    /// The same for requests that only look something up.
    pub lookup_max: Duration,
    /// How long a client may think about an ask.
    pub ask_max: Duration,
    /// How long the handshake with a server may take while a client waits in `initialize`.
    pub initialize_max: Duration,
    /// How long a client shall wait before it reconnects.
    pub retry_after: Duration,
    /// A standalone stream that took nothing for this long gives way to a new one.
    pub stale_after: Duration,
    /// How long calls may go on after a connection that is the session has closed its input.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sse_after: Duration::from_secs(1),
            keep_alive_every: Duration::from_secs(15),
            quiet_max: Duration::from_secs(300),
            call_max: Duration::from_secs(3_600),
            lookup_max: Duration::from_secs(30),
            ask_max: Duration::from_secs(600),
            initialize_max: Duration::from_secs(60),
            retry_after: Duration::from_secs(3),
            stale_after: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        }
    }
}

//! Raw clients and recorders: they send exactly the bytes they are given and hand back exactly the bytes they saw.
//!
//! Nothing here re-serialises JSON, so a test can compare what went in with what came out. [`RawHttp`] and
//! [`RawStdio`] play the client, [`recorder`] plays a server that writes down every message it receives.
//!
//! The lower modules ([`http1`], [`message`], [`handshake`], [`endpoint`]) are the small common ground of the servers
//! in this crate that are written without an HTTP or MCP library.
//!
//! ```no_run
//! use lb_peers::raw::{RawHttp, http::modern_headers};
//!
//! # async fn demo() -> std::io::Result<()> {
//! let mut client = RawHttp::connect("127.0.0.1:8080".parse().expect("an address")).await?;
//! let session = client.initialize("/mcp", "2025-11-25").await?;
//! let body = br#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
//! let reply = client.post("/mcp", &session.headers(), body).await?;
//! assert_eq!(reply.head.status(), 200);
//! let modern = client.post("/mcp", &modern_headers("tools/list", None), body).await?;
//! # Ok(()) }
//! ```

pub mod endpoint;
pub mod handshake;
pub mod hex;
pub mod http;
pub mod http1;
pub mod message;
pub mod recorder;
pub mod sse;
pub mod stdio;

pub use http::RawHttp;
pub use stdio::RawStdio;

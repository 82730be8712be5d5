//! Drives the `fixture` server over stdio and HTTP with raw messages, in both eras.

mod driver;
mod http_legacy;
mod http_modern;
mod stdio_legacy;
mod stdio_modern;

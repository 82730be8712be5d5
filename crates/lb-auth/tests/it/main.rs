//! The crate through its public face, with a real provider and real stores.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod behind;
mod gateway;
mod peer_oidc_provider;
mod peer_valkey;

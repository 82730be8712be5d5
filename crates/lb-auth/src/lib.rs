//! Who gets in, and where we get in ourselves: both halves of OAuth.
//!
//! A resource server that checks every request ([`Grant`], [`Refusal`]), the authorization server that clients get
//! their tokens from, the login at the operator's provider, and the rules that decide who may do what ([`decide`]). Servers
//! behind us that want a login get it from [`behind`]. Opens no connections: others are asked through [`Fetch`], and
//! everything that outlives a request is in an `lb_store::Store`. Time is an argument.

mod answer;
mod apikey;
mod audit;
mod auth;
pub mod behind;
mod client;
mod clock;
mod endpoint;
mod family;
mod fetch;
mod form;
#[cfg(test)]
mod generated;
mod keys;
mod oidc;
mod pages;
mod policy;
mod rate;
pub mod redirect;
mod refusal;
mod resource;
mod rights;
mod scope;
mod secret;
mod settings;
mod shown;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod timing;
mod token;

pub use apikey::{ApiKey, ApiKeys, KeyFileError, new_key};
pub use auth::{Auth, Grant, Ports, SetupError};
pub use client::{CLIENTS_MAX, UNUSED_LIFE, USED_LIFE};
pub use family::{CACHED_FOR, CODE_LIFE, FAMILY_LIFE, LEEWAY, Login, REFRESH_LIFE};
pub use fetch::{Ask, Fetch, FetchError};
pub use keys::{KEY_BYTES_MIN, KeyError, Keys};
pub use policy::{Decision, People, Rule, Rules, Target, Who, decide};
pub use refusal::Refusal;
pub use scope::{Scope, Scopes};
pub use secret::{Hash, Secret};
pub use settings::{DocumentHosts, KnownClient, Lives, Provider, Settings};
pub use token::{ACCESS_LIFE, TokenError};

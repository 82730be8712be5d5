//! What a server is told for longer than a call: subscriptions and its log level, again after every restart.

use std::sync::Arc;
use std::time::Duration;

use lb_backend::Connection;
use lb_exchange::{BoxFuture, ErrorBody, Outcome};
use lb_session::Wishes;
use lb_session::backend::Status;
use lb_wire::revision::Era;
use lb_wire::{Raw, compose};

use super::backend::{Backend, JOIN_MAX};
use super::view::CallError;

/// How long a request that only tells the server something may take.
const TELL_MAX: Duration = Duration::from_secs(30);

impl Backend {
    /// Asks the server to tell when a resource changes, now and after every restart.
    pub fn subscribe(self: &Arc<Self>, uri: &str) -> BoxFuture<'static, Result<(), CallError>> {
        let (backend, uri) = (self.clone(), uri.to_owned());
        Box::pin(async move {
            let (connection, facts) = backend.connected(JOIN_MAX).await.map_err(CallError::Unavailable)?;
            if !facts.subscribes() {
                let message = format!("server '{}' does not tell when resources change", backend.name);
                return Err(CallError::NotSupported(message));
            }
            let full = {
                let told = backend.told.lock();
                SUBSCRIPTIONS_MAX <= told.subscriptions.len() && !told.subscriptions.contains(&uri)
            };
            if full {
                let message = format!("more than {SUBSCRIPTIONS_MAX} subscriptions of one server");
                return Err(CallError::NotSupported(message));
            }
            let remember = |backend: &Self| {
                let mut told = backend.told.lock();
                if !told.subscriptions.contains(&uri) {
                    told.subscriptions.push(uri.clone());
                    told.version += 1;
                }
                told.version
            };
            if connection.era() == Era::Modern {
                let version = remember(&backend);
                return backend.listening_for(version).await;
            }
            tell(&connection, "resources/subscribe", &uri_params(&uri)).await?;
            let _version = remember(&backend);
            Ok(())
        })
    }

    /// Takes that back.
    pub fn unsubscribe(self: &Arc<Self>, uri: &str) -> BoxFuture<'static, Result<(), CallError>> {
        let (backend, uri) = (self.clone(), uri.to_owned());
        Box::pin(async move {
            {
                let mut told = backend.told.lock();
                told.subscriptions.retain(|known| *known != uri);
                told.version += 1;
            }
            let (connection, facts) = backend.connected(JOIN_MAX).await.map_err(CallError::Unavailable)?;
            if connection.era() == Era::Modern {
                backend.order(|order| order.relisten = true);
                return Ok(());
            }
            if !facts.subscribes() {
                let message = format!("server '{}' does not tell when resources change", backend.name);
                return Err(CallError::NotSupported(message));
            }
            tell(&connection, "resources/unsubscribe", &uri_params(&uri)).await
        })
    }

    /// Has a modern server listened to for what is subscribed to now, and waits until it confirms that.
    async fn listening_for(self: &Arc<Self>, version: u64) -> Result<(), CallError> {
        let mut heard = self.heard.subscribe();
        if version <= *heard.borrow() {
            return Ok(());
        }
        self.order(|order| order.relisten = true);
        let confirmed = tokio::time::timeout(JOIN_MAX, heard.wait_for(|heard| version <= *heard)).await;
        if matches!(confirmed, Ok(Ok(_))) {
            return Ok(());
        }
        let data = Raw::from_static(r#"{"reason":"timeout"}"#);
        let message = format!("server '{}' does not confirm the subscription; it is tried again", self.name);
        let code = lb_wire::revision::code::INTERNAL_ERROR;
        Err(CallError::Refused(ErrorBody::new(code, &message, Some(&data))))
    }

    /// From which level on the server shall log, now and after every restart.
    pub fn set_log_level(self: &Arc<Self>, level: &str) -> BoxFuture<'static, Result<(), CallError>> {
        let (backend, level) = (self.clone(), level.to_owned());
        Box::pin(async move {
            let (connection, facts) = backend.connected(JOIN_MAX).await.map_err(CallError::Unavailable)?;
            if connection.era() == Era::Legacy {
                if !facts.has("logging") {
                    let message = format!("server '{}' does not log over the protocol", backend.name);
                    return Err(CallError::NotSupported(message));
                }
                let params = compose::object(&[("level", &Raw::string(&level))]);
                tell(&connection, "logging/setLevel", &params).await?;
            }
            backend.told.lock().log_level = Some(level);
            Ok(())
        })
    }

    /// A session told it this through a process before this one: it is told again when it is connected. A level that
    /// another session has said meanwhile counts.
    pub(super) fn was_told(self: &Arc<Self>, wishes: Wishes) {
        let fresh = self.state.lock().machine.status() == Status::NotConnected;
        let (new, level) = {
            let mut told = self.told.lock();
            let is_new = |uri: &String| !told.subscriptions.contains(uri);
            let new: Vec<String> = wishes.subscriptions.into_iter().filter(is_new).collect();
            let level = wishes.log_level.filter(|_| told.log_level.is_none());
            if fresh {
                told.version += u64::from(!new.is_empty());
                told.subscriptions.extend(new);
                told.log_level = told.log_level.take().or(level);
                return;
            }
            (new, level)
        };
        if new.is_empty() && level.is_none() {
            return;
        }
        // Others use it already: it is told now.
        let backend = self.clone();
        self.tasks.spawn(async move {
            if let Some(level) = level {
                heed(&backend, backend.set_log_level(&level).await);
            }
            for uri in new {
                heed(&backend, backend.subscribe(&uri).await);
            }
        });
    }

    /// What it was asked to watch.
    pub fn subscriptions(&self) -> Vec<String> {
        self.told.lock().subscriptions.clone()
    }
}

fn heed(backend: &Backend, told: Result<(), CallError>) {
    if let Err(error) = told {
        tracing::warn!(server = &*backend.name, ?error, "a server does not take what it was told before");
    }
}

/// Subscriptions of one server.
const SUBSCRIPTIONS_MAX: usize = 1000;

pub(super) fn uri_params(uri: &str) -> Raw {
    compose::object(&[("uri", &Raw::string(uri))])
}

/// A request that only tells the server something.
pub(super) async fn tell(connection: &Connection, method: &str, params: &Raw) -> Result<(), CallError> {
    let outcome = tokio::time::timeout(TELL_MAX, connection.request(method, Some(params))).await;
    match outcome {
        Ok(Outcome::Result(_)) => Ok(()),
        Ok(Outcome::Error(error)) => Err(CallError::Refused(error)),
        Ok(Outcome::Cancelled) | Err(_) => {
            let data = Raw::from_static(r#"{"reason":"timeout"}"#);
            let code = lb_wire::revision::code::INTERNAL_ERROR;
            Err(CallError::Refused(ErrorBody::new(code, "the server did not answer in time", Some(&data))))
        }
    }
}

//! Logins at servers behind us: who keeps them, and where browsers come back to.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::Response;
use lb_auth::behind::{Behind, Landing, Ports, Reach};
use lb_auth::{Ask, Auth, Fetch, FetchError};
use lb_backend::{Anchors, Trust};
use lb_config::settings::Settings;
use lb_exchange::{BoxFuture, Tasks};
use lb_store::Store;

use super::fetch::Outbound;
use super::landing;
use crate::run::Failure;

/// Those of a gateway that browsers find at a URL.
///
/// # Errors
/// What must be changed first.
pub fn at_gateway(
    settings: &Settings,
    base_url: &str,
    people: Option<Arc<Auth>>,
    store: Arc<dyn Store>,
) -> Result<Behind, Failure> {
    let landing = Landing::At(format!("{base_url}{}", Behind::CALLBACK));
    build(settings, Some(base_url.to_owned()), landing, people, store)
}

/// Those of whoever sits at this machine, where nothing listens: a place to come back to is opened for each login.
///
/// # Errors
/// What must be changed first.
pub fn on_demand(settings: &Settings, store: Arc<dyn Store>, tasks: &Tasks) -> Result<Behind, Failure> {
    let made = Arc::new(OnceLock::new());
    let landing = Landing::Opened(landing::opener(made.clone(), tasks.clone()));
    let behind = build(settings, None, landing, None, store)?;
    // It is the first: the cell is new.
    Ok(made.get_or_init(|| behind).clone())
}

fn build(
    settings: &Settings,
    public_url: Option<String>,
    landing: Landing,
    people: Option<Arc<Auth>>,
    store: Arc<dyn Store>,
) -> Result<Behind, Failure> {
    let reach: Reach = match settings.login.as_ref().and_then(|login| login.outbound_ca.clone()) {
        Some(also) => {
            let anchors = Anchors::read(&Trust::Also(also));
            let anchors = anchors.map_err(|error| Failure::usage(format!("--outbound-ca: {error}")))?;
            Arc::new(move |bounds| Arc::new(Outbound::within(anchors.clone(), bounds)))
        }
        // Read once somebody is asked: most servers want no login.
        None => Arc::new(|bounds| match Anchors::read(&Trust::Usual) {
            Ok(anchors) => Arc::new(Outbound::within(anchors, bounds)),
            Err(error) => Arc::new(Nobody(error.to_string())),
        }),
    };
    let name = settings.name.clone().unwrap_or_else(|| "landbridge".to_owned());
    Ok(Behind::new(lb_auth::behind::Settings { name, public_url, landing }, Ports { store, reach, people }))
}

/// Asks nobody, because nobody could be believed.
struct Nobody(String);

impl Fetch for Nobody {
    fn fetch(&self, _: Ask) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        Box::pin(std::future::ready(Err(FetchError::Failed(self.0.clone()))))
    }
}

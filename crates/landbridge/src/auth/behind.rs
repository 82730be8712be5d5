//! Logins at servers behind us: who keeps them, and where browsers come back to.

use std::sync::{Arc, OnceLock};

use lb_auth::behind::{Behind, Landing, Ports, Reach};
use lb_auth::{Auth, Fetch};
use lb_backend::{Anchors, Trust};
use lb_config::settings::Settings;
use lb_exchange::Tasks;
use lb_store::Store;

use super::fetch::Outbound;
use super::landing;
use crate::run::Failure;
use crate::state;

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
pub async fn on_demand(settings: &Settings, tasks: &Tasks) -> Result<Behind, Failure> {
    let store = state::logins(&settings.state).await.map_err(Failure::runtime)?;
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
    let also = settings.login.as_ref().and_then(|login| login.outbound_ca.clone());
    let anchors = Anchors::read(&also.map_or(Trust::Usual, Trust::Also))
        .map_err(|error| Failure::usage(format!("--outbound-ca: {error}")))?;
    let reach: Reach =
        Arc::new(move |bounds| -> Arc<dyn Fetch> { Arc::new(Outbound::within(anchors.clone(), bounds)) });
    let name = settings.name.clone().unwrap_or_else(|| "landbridge".to_owned());
    Ok(Behind::new(lb_auth::behind::Settings { name, public_url, landing }, Ports { store, reach, people }))
}

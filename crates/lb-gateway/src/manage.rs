//! Servers that an operator adds and removes while it runs: for everybody, and kept like those that clients add.

use lb_exchange::{Bounds, Principal, ServerName, ServerSpec, Target};

use crate::gateway::{Gateway, Shared};
use crate::live::{AddError, packages};
use crate::reach;
use crate::registry::Scope;
use crate::reload::Change;

/// A defined server, as an operator sees it; nothing of it is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defined {
    /// Its name.
    pub name: ServerName,
    /// `http` or `stdio`.
    pub transport: &'static str,
    /// Where it is, without its query.
    pub address: String,
    /// Who defined it.
    pub by: DefinedBy,
}

/// Who defined a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinedBy {
    /// The config file or the command line.
    Config,
    /// An operator, while it ran.
    Operator,
    /// This principal, for itself.
    Principal(Principal),
}

/// Why a server was not defined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefineError {
    /// Such a server may not be defined from there.
    #[error("{0}")]
    Forbidden(String),
    /// The definition cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// Somebody else has a server of this name.
    #[error("{0}")]
    Taken(String),
}

impl Gateway {
    /// All servers, in the order in which they were defined.
    #[must_use]
    pub fn defined(&self) -> Vec<Defined> {
        let entries = self.shared().registry().all();
        let defined = |entry: &std::sync::Arc<crate::registry::Entry>| Defined {
            name: entry.name().clone(),
            transport: entry.transport(),
            address: entry.spec().target.address(),
            by: match &entry.scope {
                Scope::All => DefinedBy::Config,
                Scope::Operator => DefinedBy::Operator,
                Scope::Principal(owner) => DefinedBy::Principal(owner.clone()),
            },
        };
        entries.iter().map(defined).collect()
    }

    /// Defines a server for everybody. It is connected to when somebody uses it.
    ///
    /// Cancel safe: no; what was begun is left where it was.
    ///
    /// # Errors
    /// Why it was not.
    pub async fn define_for_all(&self, spec: ServerSpec) -> Result<Change, DefineError> {
        let shared = self.shared();
        let spec = ServerSpec { bounds: shared.bounds(), ..spec };
        shared.may_define(&spec).await.map_err(|error| match error {
            AddError::Forbidden(why) => DefineError::Forbidden(why),
            AddError::Invalid(why) => DefineError::Invalid(why),
            AddError::Failed(why) => DefineError::Invalid(why.message),
        })?;
        if let Some(before) = shared.registry().find_folded(&spec.name) {
            let whose = match &before.scope {
                Scope::Operator if before.name() == &spec.name => None,
                Scope::Operator => Some("another spelling of it is defined"),
                Scope::All => Some("it is in the config file: change it there"),
                Scope::Principal(_) => Some("a client has added one: remove that first"),
            };
            if let Some(whose) = whose {
                return Err(DefineError::Taken(format!("the name '{}' is taken: {whose}", spec.name)));
            }
        }
        let Some(_claim) = shared.claim(&spec, &Scope::Operator, None).await else {
            return Err(DefineError::Taken(format!("the name '{}' is taken: it was just added elsewhere", spec.name)));
        };
        match shared.define(spec, Scope::Operator, None).await {
            Change::Refused => Err(DefineError::Invalid("it can never be reached, or there are too many".to_owned())),
            change => Ok(change),
        }
    }

    /// Removes a server of whomever, from every session; false when there is none. One of the config file is there again
    /// after the next start.
    ///
    /// Cancel safe: no; what was begun is left where it was.
    pub async fn remove_for_all(&self, name: &ServerName) -> bool {
        let exact = self.shared().registry().find_folded(name).is_some_and(|entry| entry.name() == name);
        exact && self.shared().drop_server(name, |_| true).await
    }
}

impl Shared {
    /// How far a server may be that was added while it ran.
    pub(crate) fn bounds(&self) -> Bounds {
        if self.policy().from_afar { Bounds::Public } else { Bounds::Near }
    }

    /// Whether such a server may be defined while it runs.
    pub(crate) async fn may_define(&self, spec: &ServerSpec) -> Result<(), AddError> {
        let policy = self.policy();
        match &spec.target {
            target @ Target::Child { command, args, .. } => {
                policy.may_start(target).map_err(|why| AddError::Forbidden(why.to_owned()))?;
                if policy.pinned_packages { packages::check(command, args).map_err(AddError::Invalid) } else { Ok(()) }
            }
            Target::Http { url, .. } => {
                reach::check(url, spec.bounds, &self.environment().names).await.map_err(AddError::Forbidden)
            }
            Target::Embedded(_) => Err(AddError::Invalid("no such kind of server".to_owned())),
        }
    }
}

//! What we say of ourselves.

use serde_json::{Value, json};

use super::missing;
use crate::answer::{self, Answer};
use crate::auth::Auth;
use crate::scope::Scopes;
use crate::settings::DocumentHosts;

impl Auth {
    /// What clients must know of us as an authorization server (RFC 8414).
    pub(super) fn server_metadata(&self) -> Answer {
        let at = |path: &str| format!("{}{path}", self.settings.public_url);
        let methods = json!(["none", "client_secret_basic", "client_secret_post"]);
        let mut document = json!({
            "issuer": self.settings.public_url,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"),
            "revocation_endpoint": at("/revoke"),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_methods_supported": methods,
            "scopes_supported": ["mcp:read", "mcp:call", "mcp:admin", "offline_access"],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": self.settings.documents != DocumentHosts::None,
        });
        if let Value::Object(document) = &mut document
            && !self.settings.registration
        {
            document.shift_remove("registration_endpoint");
        }
        answer::public(&document)
    }

    /// What clients must know of one resource (RFC 9728). Without a path it is the whole gateway.
    pub(super) fn resource_metadata(&self, path: &str) -> Answer {
        let resource = if path.is_empty() || path == "/" {
            Some(self.resources.root())
        } else {
            self.resources.ours(&format!("{}{path}", self.settings.public_url))
        };
        let Some(resource) = resource else { return missing() };
        let scopes: Vec<String> = Scopes::usual().iter().map(ToString::to_string).collect();
        answer::public(&json!({
            "resource": resource,
            "authorization_servers": [self.settings.public_url],
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": self.settings.name,
        }))
    }

    /// Where that document is, for a request to this path.
    pub(crate) fn resource_metadata_address(&self, path: &str) -> String {
        let resource = self.resources.of_path(path);
        let path = resource.strip_prefix(&self.settings.public_url).unwrap_or_default();
        format!("{}/.well-known/oauth-protected-resource{path}", self.settings.public_url)
    }
}

//! TLS towards other nodes.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// Trusts the authorities in this file of PEM alone or, without one, those of the system.
pub(super) fn connector(authorities: Option<&Path>) -> Result<TlsConnector, String> {
    let found = match authorities {
        Some(file) => rustls_native_certs::load_certs_from_paths(Some(file), None),
        None => rustls_native_certs::load_native_certs(),
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let whose = authorities.map_or_else(|| "the system".to_owned(), |file| file.display().to_string());
        let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(format!("{whose} has no certificate of an authority in PEM: {}", why.join(", ")));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

//! TLS towards servers: one configuration for the process, built when the first `https` server is met.
//!
//! Trusted are the authorities that the system trusts, and the public ones that are built in. With `SSL_CERT_FILE` or
//! `SSL_CERT_DIR` it is those certificates instead, as with most programs.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;
use tokio_rustls::TlsConnector;

use super::conn::chain;

static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Nobody is to be trusted.
    #[error("SSL_CERT_FILE or SSL_CERT_DIR is set, but holds no certificate: {0}")]
    NoRoots(String),
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] rustls::Error),
}

/// The connector for all servers.
pub fn connector() -> Result<TlsConnector, TlsError> {
    if let Some(config) = CONFIG.get() {
        return Ok(TlsConnector::from(config.clone()));
    }
    let config = Arc::new(config(roots(|name| std::env::var_os(name))?)?);
    Ok(TlsConnector::from(CONFIG.get_or_init(|| config).clone()))
}

/// Whom to trust in this environment.
pub fn roots(variable: impl Fn(&str) -> Option<OsString>) -> Result<RootCertStore, TlsError> {
    let variable = |name| variable(name).filter(|value| !value.is_empty());
    let mut roots = RootCertStore::empty();
    match (variable("SSL_CERT_FILE"), variable("SSL_CERT_DIR")) {
        (None, None) => {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            add(&mut roots, rustls_native_certs::load_native_certs());
        }
        (file, folders) => {
            let mut why = Vec::new();
            if let Some(file) = file {
                let found = rustls_native_certs::load_certs_from_paths(Some(Path::new(&file)), None);
                why.extend(add(&mut roots, found));
            }
            for folder in folders.iter().flat_map(std::env::split_paths) {
                why.extend(add(&mut roots, rustls_native_certs::load_certs_from_paths(None, Some(&folder))));
            }
            if roots.is_empty() {
                return Err(TlsError::NoRoots(why.join(", ")));
            }
        }
    }
    Ok(roots)
}

/// Adds what was found, and gives what went wrong. Some certificates that cannot be read are common in large stores.
fn add(roots: &mut RootCertStore, found: CertificateResult) -> Vec<String> {
    let total = found.certs.len();
    let (added, ignored) = roots.add_parsable_certificates(found.certs);
    let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    tracing::debug!(total, added, ignored, ?why, "certificates read");
    why
}

/// A configuration that trusts these roots. The provider is named, so that no process-wide default is needed.
pub fn config(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Why a handshake failed, and what can be done about it.
pub fn explain(error: &io::Error) -> String {
    let text = chain(error);
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            format!("{text} (set SSL_CERT_FILE to the certificate of its authority, if you trust it)")
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            format!("{text} (the server does not speak TLS there; try http://)")
        }
        _ => text,
    }
}

/// Trusts only these, from now on and in the whole process.
#[cfg(test)]
pub fn trust(roots: RootCertStore) {
    drop(CONFIG.set(Arc::new(config(roots).unwrap())));
}

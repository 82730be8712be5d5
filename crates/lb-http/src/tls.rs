//! TLS for clients: one certificate with its key, read again when the files change.
//!
//! HTTP/1.1 is the only protocol offered; HTTP/2 belongs to a proxy in front.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file holds not what it should.
    #[error("{} holds no {what} in PEM: {why}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The two do not belong together, or cannot be used.
    #[error("the certificate in {} and the key in {} cannot be used together: {error}", cert.display(), key.display())]
    Pair {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        error: rustls::Error,
    },
}

/// A certificate and its key, from two files. Cheap to clone; clones share what is read again.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    cert: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    resolver: Arc<Resolver>,
    config: Arc<ServerConfig>,
    /// The files as they were when they were last read, well or badly.
    seen: Mutex<Stamps>,
}

/// What tells a file from an earlier one at the same path.
type Stamp = Option<(i64, i64, u64, u64)>;
type Stamps = (Stamp, Stamp);

/// Gives every handshake the newest certificate.
#[derive(Debug)]
struct Resolver(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Tls {
    /// Reads a certificate, with those that lead to its authority, and its private key, both PEM.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let seen = stamps(cert, key);
        let pair = read(cert, key, &provider)?;
        let resolver = Arc::new(Resolver(RwLock::new(Arc::new(pair))));
        let broken = |error| TlsError::Pair { cert: cert.to_owned(), key: key.to_owned(), error };
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(broken)?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (cert, key, config, seen) = (cert.to_owned(), key.to_owned(), Arc::new(config), Mutex::new(seen));
        Ok(Self(Arc::new(Shared { cert, key, provider, resolver, config, seen })))
    }

    /// Reads the files again; new connections get what they hold.
    ///
    /// # Errors
    /// What is wrong with which file; the old certificate stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let shared = &self.0;
        *shared.seen.lock().unwrap_or_else(PoisonError::into_inner) = stamps(&shared.cert, &shared.key);
        let pair = read(&shared.cert, &shared.key, &shared.provider)?;
        *shared.resolver.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
        Ok(())
    }

    /// Reads the files again if they have changed; whether they had.
    ///
    /// # Errors
    /// As [`Self::reload`], once for each change.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let now = stamps(&self.0.cert, &self.0.key);
        if *self.0.seen.lock().unwrap_or_else(PoisonError::into_inner) == now {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.config.clone())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("cert", &self.0.cert).field("key", &self.0.key).finish_non_exhaustive()
    }
}

fn stamps(cert: &Path, key: &Path) -> Stamps {
    let stamp = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.mtime(), found.mtime_nsec(), found.len(), found.ino()))
    };
    (stamp(cert), stamp(key))
}

fn read(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let bytes = |path: &Path| std::fs::read(path).map_err(|error| TlsError::Read { path: path.to_owned(), error });
    let odd = |path: &Path, what, why: String| TlsError::Pem { path: path.to_owned(), what, why };
    let chain = CertificateDer::pem_slice_iter(&bytes(cert)?).collect::<Result<Vec<_>, pem::Error>>();
    let chain = chain.map_err(|error| odd(cert, "certificate", error.to_string()))?;
    if chain.is_empty() {
        return Err(odd(cert, "certificate", "nothing begins with -----BEGIN CERTIFICATE-----".to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_slice(&bytes(key)?).map_err(|error| match error {
        pem::Error::NoItemsFound => odd(key, "private key", "nothing begins with -----BEGIN PRIVATE KEY-----".into()),
        error => odd(key, "private key", error.to_string()),
    })?;
    CertifiedKey::from_der(chain, secret, provider).map_err(|error| TlsError::Pair {
        cert: cert.to_owned(),
        key: key.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Files {
        _folder: tempfile::TempDir,
        cert: PathBuf,
        key: PathBuf,
    }

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    impl Files {
        fn new(cert: &str, key: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let files =
                Self { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem"), _folder: folder };
            std::fs::write(&files.cert, cert).unwrap();
            std::fs::write(&files.key, key).unwrap();
            files
        }

        fn load(&self) -> Result<Tls, TlsError> {
            Tls::load(&self.cert, &self.key)
        }
    }

    fn in_use(tls: &Tls) -> Vec<u8> {
        tls.0.resolver.0.read().unwrap().cert[0].to_vec()
    }

    #[test]
    fn what_is_wrong_with_a_pair_is_said_with_the_file() {
        let ((cert, key), (other, _)) = (pair(), pair());
        for (files, want) in [
            (Files::new("", &key), "cert.pem holds no certificate in PEM"),
            (Files::new(&key, &key), "cert.pem holds no certificate in PEM"),
            (Files::new(&cert, &cert), "key.pem holds no private key in PEM"),
            (Files::new(&cert, "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n"), "key.pem holds no"),
            (Files::new(&other, &key), "cannot be used together"),
        ] {
            let told = files.load().unwrap_err().to_string();
            assert!(told.contains(want), "{told}");
        }
        let files = Files::new(&cert, &key);
        std::fs::remove_file(&files.key).unwrap();
        assert!(files.load().unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn a_new_pair_is_used_and_a_broken_one_is_not() {
        let ((cert, key), (new_cert, new_key)) = (pair(), pair());
        let files = Files::new(&cert, &key);
        let tls = files.load().unwrap();
        let old = in_use(&tls);
        assert!(!tls.reload_if_changed().unwrap(), "nothing has changed");

        std::fs::write(&files.cert, &new_cert).unwrap();
        assert!(matches!(tls.reload_if_changed(), Err(TlsError::Pair { .. })), "the key is still the old one");
        assert_eq!(in_use(&tls), old);
        assert!(!tls.reload_if_changed().unwrap(), "said once");

        std::fs::write(&files.key, &new_key).unwrap();
        assert!(tls.reload_if_changed().unwrap());
        assert_ne!(in_use(&tls), old);
    }
}

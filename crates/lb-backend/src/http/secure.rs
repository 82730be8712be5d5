//! TLS for whoever brings a connection of his own, and says whom to trust: what a person tries out.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::tls;

/// Whose certificates are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that servers of a config need: of the system, built in, or named by `SSL_CERT_FILE`.
    #[default]
    Usual,
    /// Those of the authorities in a file of PEM, and of nobody else.
    File(PathBuf),
    /// Those of the usual authorities, and of those in a file of PEM.
    Also(PathBuf),
    /// Everybody's.
    Anybody,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    /// The host is none.
    #[error("{0:?} is no name that a certificate can have")]
    Name(String),
    /// The authorities cannot be had.
    #[error("{0}")]
    Roots(String),
    /// The certificate is of an authority that is not trusted.
    #[error("its certificate is of nobody that is trusted here")]
    Untrusted,
    /// The two do not come together.
    #[error("{0}")]
    Handshake(String),
}

/// TLS to one host.
#[derive(Clone)]
pub struct Secure {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// Whom to believe, read once for any number of hosts.
#[derive(Clone)]
pub struct Anchors(TlsConnector);

impl Anchors {
    /// Reads the file of authorities.
    ///
    /// # Errors
    /// There is nobody to trust.
    pub fn read(trust: &Trust) -> Result<Self, SecureError> {
        let failed = |error: tls::TlsError| SecureError::Roots(error.to_string());
        let config = |roots: RootCertStore| tls::config(roots).map_err(|error| failed(error.into()));
        let config = match trust {
            Trust::Usual => return tls::connector().map(Self).map_err(failed),
            Trust::File(path) => config(authorities(path)?)?,
            Trust::Also(path) => {
                let mut roots = tls::roots(|name| std::env::var_os(name)).map_err(failed)?;
                roots.roots.extend(authorities(path)?.roots);
                config(roots)?
            }
            Trust::Anybody => {
                let mut config = config(RootCertStore::empty())?;
                let provider = config.crypto_provider().clone();
                config.dangerous().set_certificate_verifier(Arc::new(Anybody(provider)));
                config
            }
        };
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

impl fmt::Debug for Anchors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anchors").finish_non_exhaustive()
    }
}

impl Secure {
    /// To this host, which may be an address, in brackets or not. Reads the file of authorities.
    ///
    /// # Errors
    /// The host is none, or there is nobody to trust.
    pub fn new(host: &str, trust: &Trust) -> Result<Self, SecureError> {
        let name = named(host)?;
        Ok(Self { connector: Anchors::read(trust)?.0, name })
    }

    /// The same with whom to believe read before.
    ///
    /// # Errors
    /// The host is none.
    pub fn with(host: &str, anchors: &Anchors) -> Result<Self, SecureError> {
        Ok(Self { connector: anchors.0.clone(), name: named(host)? })
    }

    /// Shakes hands over a connection.
    ///
    /// Cancel safe: yes, the connection is dropped.
    ///
    /// # Errors
    /// The other side is not trusted, or speaks no TLS.
    pub async fn connect<S>(
        &self,
        stream: S,
    ) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<S>, SecureError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.connector.connect(self.name.clone(), stream).await.map_err(|error| failed(&error))
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secure").field("name", &self.name).finish_non_exhaustive()
    }
}

fn named(host: &str) -> Result<ServerName<'static>, SecureError> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => Ok(ServerName::IpAddress(address.into())),
        Err(_) => ServerName::try_from(bare.to_owned()).map_err(|_| SecureError::Name(bare.to_owned())),
    }
}

fn failed(error: &io::Error) -> SecureError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => SecureError::Untrusted,
        _ => SecureError::Handshake(tls::explain(error)),
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, SecureError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_certs_from_paths(Some(path), None);
    let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why =
            if why.is_empty() { "nothing begins with -----BEGIN CERTIFICATE-----".to_owned() } else { why.join(", ") };
        return Err(SecureError::Roots(format!("{} holds no certificate in PEM: {why}", path.display())));
    }
    Ok(roots)
}

/// Believes every certificate, and still wants signatures that fit it.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

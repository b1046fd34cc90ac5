//! TLS 1.3 (RFC 8446) below the handshake of ranks: certificates, and which of them are trusted.
//!
//! Both sides show a certificate. It has to be issued by the authority that the job names, and be
//! made out for the job's [`name`](Files::name): an authority that has issued others besides lets
//! none of those in. Which rank it is, the handshake within says and proves.

use core::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aldis_sys::file::read_all;
use aldis_sys::socket::TcpStream;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, DistinguishedName, Error,
    RootCertStore, ServerConfig, ServerConnection, SignatureScheme, version,
};

use serde::{Deserialize, Serialize};

use super::session::Session;

/// The name that certificates are made out for unless the job says another.
pub const NAME: &str = "aldis";

/// The files, in PEM (RFC 7468), of a rank's certificate and of those that it trusts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Files {
    /// The certificate of this side, with those between it and the authority, in this order.
    pub certificate: PathBuf,
    /// Its private key, not encrypted.
    pub key: PathBuf,
    /// The certificates of the authorities that issue those of the ranks.
    pub authority: PathBuf,
    /// The name that every rank's certificate has to be made out for, as a DNS name among its
    /// alternative names.
    pub name: String,
}

impl Files {
    /// These files, and certificates that are made out for [`NAME`].
    pub fn new(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        authority: impl Into<PathBuf>,
    ) -> Self {
        let (certificate, key, authority) = (certificate.into(), key.into(), authority.into());
        Self { certificate, key, authority, name: NAME.into() }
    }
}

/// The fault in a file, and which file it is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// The file cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The kind of the error.
        kind: ErrorKind,
    },
    /// The file has nothing of the kind that is looked for.
    Empty {
        /// The file.
        path: PathBuf,
        /// The kind of content that it should have.
        what: &'static str,
    },
    /// Its key is encrypted.
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// The content of the file cannot be used.
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The key is not that of the certificate.
    Mismatch {
        /// The file with the certificate.
        certificate: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },
    /// This side's own certificate would be refused by the others.
    Refused {
        /// The file with the certificate.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// No name that a certificate can be made out for.
    Name {
        /// The name.
        name: String,
    },
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, kind } => write!(f, "{} cannot be read: {kind}", path.display()),
            Self::Empty { path, what } => write!(f, "{} has no {what} in PEM", path.display()),
            Self::Encrypted { path } => {
                write!(f, "the key in {} is encrypted: give one without a passphrase", path.display())
            }
            Self::Unusable { path, why } => write!(f, "{} cannot be used: {why}", path.display()),
            Self::Mismatch { certificate, key } => {
                write!(
                    f,
                    "the key in {} is not that of the certificate in {}",
                    key.display(),
                    certificate.display()
                )
            }
            Self::Refused { path, why } => {
                write!(f, "the certificate in {} would be refused by the other ranks: {why}", path.display())
            }
            Self::Name { name } => write!(f, "`{name}` is no name that a certificate can be made out for"),
        }
    }
}

impl core::error::Error for TlsError {}

/// Certificates and keys, checked and ready to be used for any number of connections.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    dials: Arc<ClientConfig>,
    accepts: Arc<ServerConfig>,
    name: ServerName<'static>,
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    read_all(path).map_err(|error| TlsError::Read { path: path.into(), kind: error.kind() })
}

fn unusable(path: &Path) -> impl Fn(Error) -> TlsError {
    move |error| TlsError::Unusable { path: path.into(), why: error.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| TlsError::Unusable { path: path.into(), why: error.to_string() })?;
    if all.is_empty() { Err(TlsError::Empty { path: path.into(), what: "certificate" }) } else { Ok(all) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read(path)?;
    let is_encrypted = bytes.windows(9).any(|text| text == b"ENCRYPTED");
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| match is_encrypted {
        true => TlsError::Encrypted { path: path.into() },
        false => TlsError::Empty { path: path.into(), what: "private key" },
    })
}

fn authorities(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(unusable(path))?;
    }
    Ok(Arc::new(roots))
}

impl Tls {
    /// Reads the files and checks that the others will accept what is in them.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub(super) fn load(files: &Files) -> Result<Self, TlsError> {
        let name = ServerName::try_from(files.name.clone());
        let name = name.map_err(|_| TlsError::Name { name: files.name.clone() })?;
        let (chain, key) = (certificates(&files.certificate)?, private_key(&files.key)?);
        let roots = authorities(&files.authority)?;
        let provider = Arc::new(ring::default_provider());
        let builder = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let servers = builder.map_err(|error| untrusting(&files.authority, &error))?;
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
        let inner = builder.map_err(|error| untrusting(&files.authority, &error))?;
        let clients = Arc::new(NamedVerifier { inner, name: name.clone() });
        if let Some((own, between)) = chain.split_first() {
            let refused = |error: Error| refused(&files.certificate, &error);
            servers.verify_server_cert(own, between, &name, &[], UnixTime::now()).map_err(refused)?;
            clients.verify_client_cert(own, between, UnixTime::now()).map_err(refused)?;
        }

        let failed = |error| match error {
            Error::InconsistentKeys(_) => {
                TlsError::Mismatch { certificate: files.certificate.clone(), key: files.key.clone() }
            }
            error => unusable(&files.key)(error),
        };
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder =
            builder.with_protocol_versions(&[&version::TLS13]).map_err(unusable(&files.certificate))?;
        let mut dials = builder
            .with_webpki_verifier(servers)
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(failed)?;
        dials.resumption = Resumption::disabled();
        let builder = ServerConfig::builder_with_provider(provider);
        let builder =
            builder.with_protocol_versions(&[&version::TLS13]).map_err(unusable(&files.certificate))?;
        let mut accepts =
            builder.with_client_cert_verifier(clients).with_single_cert(chain, key).map_err(failed)?;
        accepts.send_tls13_tickets = 0;
        Ok(Self { dials: Arc::new(dials), accepts: Arc::new(accepts), name })
    }

    /// A new connection that this side has made, or accepted. `None`: the library refuses, and
    /// nothing may be sent.
    pub(super) fn session(&self, socket: TcpStream, dialled: bool) -> Option<Session> {
        let connection = match dialled {
            true => Connection::from(ClientConnection::new(self.dials.clone(), self.name.clone()).ok()?),
            false => Connection::from(ServerConnection::new(self.accepts.clone()).ok()?),
        };
        Some(Session::new(socket, connection))
    }
}

fn untrusting(path: &Path, why: &dyn fmt::Display) -> TlsError {
    TlsError::Unusable { path: path.into(), why: why.to_string() }
}

fn refused(path: &Path, error: &Error) -> TlsError {
    TlsError::Refused { path: path.into(), why: error.to_string() }
}

/// A verifier by which the side that dials has to show a certificate for the name too, which the
/// library checks of the accepting side alone.
#[derive(Debug)]
struct NamedVerifier {
    inner: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl ClientCertVerifier for NamedVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.inner.verify_client_cert(own, between, now)?;
        verify_server_name(&ParsedCertificate::try_from(own)?, &self.name)?;
        Ok(verified)
    }

    /// Never needed: no older version than 1.3 is spoken.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

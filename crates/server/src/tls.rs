//! TLS: a certificate and its key from files, which are read again when they change; or made once, and kept.
//!
//! TLS 1.2 and 1.3, HTTP/2 by ALPN. With the certificates of authorities for clients, a connection without a certificate of
//! one of theirs is not served.
//!
//! A connection keeps what was in force when it was opened.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// Where what TLS needs is, all of it PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's own, then those that lead to an authority.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Authorities, one of which a client's certificate must come from.
    pub clients: Option<PathBuf>,
}

/// What is wrong with one of the files.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", path.display())]
pub struct TlsError {
    path: PathBuf,
    cause: String,
}

impl TlsError {
    fn new(path: &Path, cause: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), cause: cause.to_string() }
    }

    fn pem(path: &Path, cause: &pem::Error) -> Self {
        match cause {
            pem::Error::Io(cause) => Self::new(path, cause),
            pem::Error::NoItemsFound => Self::new(path, "there is nothing of the kind in it, as PEM"),
            cause => Self::new(path, format!("it is not PEM: {cause}")),
        }
    }
}

/// What connections are opened with, now.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let current = RwLock::new(Arc::new(files.read()?));
        Ok(Arc::new(Self { files, current }))
    }

    /// Reads the files again. If one is wrong, what was in force stays so.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = Arc::new(self.files.read()?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

impl TlsFiles {
    /// A certificate for these names that nobody but its maker vouches for, in this directory: the one that is there, or a new one
    /// if there is none or it lacks a name.
    ///
    /// A new one has the names of the one before, for other servers use it too, and its key: clients that trust by the name and
    /// key of whoever signed, as rustls does, need not be told again.
    pub fn self_signed(directory: &Path, names: &[String]) -> Result<Self, TlsError> {
        let files =
            Self { certificate: directory.join(CERTIFICATE), key: directory.join(KEY), clients: None };
        let known = directory.join("names");
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |cause: io::Error| TlsError::new(&path, cause)
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        // Until this ends, so that of two servers that start at once the second sees the names of the first.
        let lock = File::open(directory).map_err(failed(directory))?;
        lock.lock().map_err(failed(directory))?;
        let is_kept = files.certificate.exists() && files.key.exists();
        let kept = fs::read_to_string(&known).ok().filter(|_| is_kept).unwrap_or_default();
        let mut all: Vec<String> = kept.lines().map(str::to_owned).collect();
        all.extend(names.iter().filter(|name| !kept.lines().any(|other| other == *name)).cloned());
        let listed = all.join("\n");
        if is_kept && kept == listed {
            return Ok(files);
        }
        let made = |cause: rcgen::Error| TlsError::new(&files.certificate, cause);
        let mut params = CertificateParams::new(all).map_err(made)?;
        params.distinguished_name.push(DnType::CommonName, "larder");
        let before = fs::read_to_string(&files.key).ok().and_then(|text| KeyPair::from_pem(&text).ok());
        let key = before.map_or_else(KeyPair::generate, Ok).map_err(made)?;
        let certificate = params.self_signed(&key).map_err(made)?;
        write(&files.key, &key.serialize_pem()).map_err(failed(&files.key))?;
        write(&files.certificate, &certificate.pem()).map_err(failed(&files.certificate))?;
        write(&known, &listed).map_err(failed(&known))?;
        Ok(files)
    }

    fn read(&self) -> Result<ServerConfig, TlsError> {
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|cause| TlsError::pem(&self.key, &cause))?;
        let certificates = certificates(&self.certificate)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|cause| TlsError::new(&self.certificate, cause))?;
        let builder = match &self.clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in self::certificates(path)? {
                    roots.add(certificate).map_err(|cause| TlsError::new(path, cause))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder
                    .with_client_cert_verifier(verifier.build().map_err(|cause| TlsError::new(path, cause))?)
            }
        };
        let mut config = builder.with_single_cert(certificates, key).map_err(|cause| match cause {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::new(&self.key, format!("it is not the key of {}", self.certificate.display()))
            }
            cause => TlsError::new(&self.certificate, cause),
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all {
        Ok(found) if found.is_empty() => Err(TlsError::pem(path, &pem::Error::NoItemsFound)),
        Ok(found) => Ok(found),
        Err(cause) => Err(TlsError::pem(path, &cause)),
    }
}

/// For its owner alone, whole or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let aside = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&aside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(aside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_certificate_is_kept_until_it_lacks_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let make = |all: &[&str]| {
            let files = TlsFiles::self_signed(&dir.path().join("tls"), &names(all)).unwrap();
            Tls::load(files.clone()).unwrap();
            fs::read_to_string(&files.certificate).unwrap()
        };
        let first = make(&["localhost", "127.0.0.1"]);
        assert_eq!(make(&["localhost", "127.0.0.1"]), first);
        let larger = make(&["localhost", "127.0.0.1", "larder"]);
        assert_ne!(larger, first);
        // Another server of the same user lacks that name, and takes nothing from the first.
        assert_eq!(make(&["localhost", "127.0.0.1"]), larger);
        make(&["localhost", "other"]);
        let names = fs::read_to_string(dir.path().join("tls/names")).unwrap();
        assert_eq!(names, "localhost\n127.0.0.1\nlarder\nother");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let key = fs::metadata(dir.path().join("tls").join(KEY)).unwrap();
            assert_eq!(key.permissions().mode() & 0o777, 0o600);
        }
    }

    /// Whether a client that trusts this certificate agrees with a server that has these files.
    fn is_trusted(trusted: &[u8], files: &TlsFiles, name: &'static str) -> Result<(), rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = rustls::pki_types::ServerName::try_from(name).unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut server = rustls::ServerConnection::new(Arc::new(files.read().unwrap())).unwrap();
        while client.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            server.read_tls(&mut wire.as_slice()).unwrap();
            server.process_new_packets().unwrap();
            let mut wire = Vec::new();
            server.write_tls(&mut wire).unwrap();
            let mut left = wire.as_slice();
            while !left.is_empty() {
                client.read_tls(&mut left).unwrap();
                client.process_new_packets()?;
            }
        }
        Ok(())
    }

    #[test]
    fn who_trusts_a_certificate_trusts_the_next_one_of_the_same_key() {
        let dir = tempfile::tempdir().unwrap();
        let files = TlsFiles::self_signed(dir.path(), &names(&["localhost"])).unwrap();
        let trusted = fs::read(&files.certificate).unwrap();
        assert_eq!(is_trusted(&trusted, &files, "localhost"), Ok(()));
        assert!(is_trusted(&trusted, &files, "larder").is_err());
        let files = TlsFiles::self_signed(dir.path(), &names(&["larder"])).unwrap();
        assert_ne!(fs::read(&files.certificate).unwrap(), trusted);
        assert_eq!(is_trusted(&trusted, &files, "localhost"), Ok(()));
        assert_eq!(is_trusted(&trusted, &files, "larder"), Ok(()));
        let stranger = TlsFiles::self_signed(&dir.path().join("other"), &names(&["localhost"])).unwrap();
        assert!(is_trusted(&trusted, &stranger, "localhost").is_err());
    }

    #[test]
    fn a_file_that_is_wrong_is_named_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let one = TlsFiles::self_signed(&dir.path().join("one"), &names(&["localhost"])).unwrap();
        let other = TlsFiles::self_signed(&dir.path().join("other"), &names(&["localhost"])).unwrap();
        let refused = |files: TlsFiles| Tls::load(files).unwrap_err().to_string();
        let mixed = TlsFiles { key: other.key, ..one.clone() };
        assert!(refused(mixed).contains("it is not the key of"));
        let swapped = TlsFiles { certificate: one.key.clone(), ..one.clone() };
        assert!(refused(swapped).contains("nothing of the kind"));
        let clients = Some(dir.path().join("none.pem"));
        assert!(refused(TlsFiles { clients, ..one.clone() }).contains("none.pem: "));

        let tls = Tls::load(one.clone()).unwrap();
        fs::write(&one.certificate, "gone").unwrap();
        assert!(tls.reload().unwrap_err().to_string().contains("nothing of the kind"));
        tls.acceptor();
    }
}

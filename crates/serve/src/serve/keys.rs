//! Who may come in, and the certificates that connections are opened with: from files that are read again when they change.
//!
//! What is wrong at the start ends it; what is wrong later is logged, and what was in force stays so.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use larder_server::{Principals, Tls, TlsFiles};

use super::follow::{Followed, Seen, look};
use crate::access_file;
use crate::count;

/// The access file, and who was in it when it was read last.
#[derive(Debug)]
pub(super) struct AccessFile {
    path: PathBuf,
    principals: Arc<Principals>,
}

impl AccessFile {
    /// And what it was like before it was read.
    pub(super) fn read(path: &Path) -> Result<(Self, Seen), String> {
        let seen = look([path.to_owned()]);
        let principals = Principals::new(access_file::read(path)?);
        Ok((Self { path: path.to_owned(), principals }, seen))
    }

    pub(super) fn principals(&self) -> Arc<Principals> {
        Arc::clone(&self.principals)
    }
}

impl Followed for AccessFile {
    fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn read_again(&self) {
        match access_file::read(&self.path) {
            Ok(access) => {
                let known = count(access.principals().len(), "principal");
                self.principals.replace(access);
                tracing::warn!(path = %self.path.display(), "read again: {known}, in force from the next request");
            }
            Err(wrong) => {
                tracing::error!(
                    "the access file in force stays as it was, because the new one is wrong: {wrong}"
                );
            }
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct TlsArguments {
    /// Speak TLS, with a certificate that is made once and kept, in ~/.local/share/larder/tls
    #[arg(long, value_enum, value_name = "self-signed", conflicts_with = "tls_cert")]
    tls: Option<Made>,
    /// Speak TLS, with this certificate and those that lead to its authority, as PEM. Read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve only clients with a certificate of one of these authorities, as PEM
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Made {
    SelfSigned,
}

/// The certificates in force, and where they are from.
#[derive(Debug)]
pub(super) struct Certificates(Arc<Tls>);

impl TlsArguments {
    /// What TLS needs, if it is asked for; and the files as they were before they were read.
    pub(super) fn read(&self, names: &[String]) -> Result<Option<(Certificates, Seen)>, String> {
        let clients = self.tls_client_ca.clone();
        let files = match (&self.tls_cert, &self.tls_key, self.tls) {
            (Some(certificate), Some(key), _) => {
                TlsFiles { certificate: certificate.clone(), key: key.clone(), clients }
            }
            (_, _, Some(Made::SelfSigned)) => {
                let directory = kept_in()?;
                let mut all: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
                all.extend(names.iter().filter(|name| !all.contains(name)).cloned().collect::<Vec<_>>());
                let files = TlsFiles::self_signed(&directory, &all).map_err(|error| error.to_string())?;
                tell_how_to_trust(&files.certificate);
                TlsFiles { clients, ..files }
            }
            _ if clients.is_some() => {
                return Err(
                    "--tls-client-ca is about TLS: give --tls-cert and --tls-key, or --tls self-signed"
                        .to_owned(),
                );
            }
            _ => return Ok(None),
        };
        let seen = look(all_files(&files));
        let tls = Tls::load(files).map_err(|error| format!("cannot speak TLS: {error}"))?;
        Ok(Some((Certificates(tls), seen)))
    }
}

impl Certificates {
    pub(super) fn tls(&self) -> Arc<Tls> {
        Arc::clone(&self.0)
    }
}

impl Followed for Certificates {
    fn files(&self) -> Vec<PathBuf> {
        all_files(self.0.files())
    }

    fn read_again(&self) {
        match self.0.reload() {
            Ok(()) => tracing::warn!("certificates are read again, and in force from the next connection"),
            Err(error) => tracing::error!(%error, "certificates stay as they were, because a file is wrong"),
        }
    }
}

fn all_files(files: &TlsFiles) -> Vec<PathBuf> {
    [&files.certificate, &files.key].into_iter().chain(&files.clients).cloned().collect()
}

/// One certificate for all servers of a user, so that it is trusted once.
fn kept_in() -> Result<PathBuf, String> {
    let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = named("XDG_DATA_HOME").or_else(|| Some(named("HOME")?.join(".local/share")));
    let data =
        data.ok_or("there is no home to keep a certificate in: set HOME, or give --tls-cert and --tls-key")?;
    Ok(data.join("larder/tls"))
}

fn tell_how_to_trust(certificate: &Path) {
    let path = certificate.display();
    eprintln!(
        "Nobody vouches for the certificate of this server. To trust it:\n\
         boto3, AWS CLI   export AWS_CA_BUNDLE={path}\n\
         Node             export NODE_EXTRA_CA_CERTS={path}\n\
         larder, Rust     export SSL_CERT_FILE={path}"
    );
}

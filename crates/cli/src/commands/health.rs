//! `larder health`: whether a server is ready, as an exit code, for whatever restarts one that is not.

use std::process::ExitCode;

use clap::Args;

use crate::{http, terminal};

/// Say whether a server takes requests; exits with 1 when it does not
///
/// It asks for /readyz, which needs no key. An image without a shell has nothing else to ask with.
#[derive(Debug, Args)]
pub(crate) struct Health {
    /// The server; with https its certificate has to be trusted here, as by SSL_CERT_FILE
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:8000")]
    endpoint: String,
}

impl Health {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let endpoint = &self.endpoint;
        let (status, text) = http::get(endpoint, "/readyz").map_err(|cause| {
            format!("{endpoint} does not answer: {cause}; check that `larder serve` runs there")
        })?;
        match (status, text.trim()) {
            (200, "ok") => terminal::print("ready\n").map(|()| ExitCode::SUCCESS),
            (503, reason) => Err(format!(
                "{endpoint} is not ready: {reason}; its log tells more, and a restart reads the store anew"
            )),
            (status, _) => Err(format!(
                "{endpoint} is no server of Larder: it answers {status} where `larder serve` tells how it is; check the address"
            )),
        }
    }
}

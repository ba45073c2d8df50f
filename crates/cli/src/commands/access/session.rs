//! `larder access session`: a key for a while, made of somebody's own.
//!
//! The server keeps nothing of it: it ends by itself, or with the key that it was made of.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use larder_auth::{Secret, Session};
use larder_model::Clock;
use serde_json::json;

use super::file;
use crate::terminal;

/// As long as AWS gives one to a user.
const LONGEST: Duration = Duration::from_secs(36 * 60 * 60);

/// Print a key that is good for a while, with a session token
///
/// Whoever has it may do what they may whose it is. Removing the key that it was made of ends it.
#[derive(Debug, Args)]
pub(super) struct SessionCommand {
    /// A name, or the id of a key
    who: String,
    /// The account, where several have somebody of that name
    #[arg(long, value_name = "DIGITS")]
    account: Option<String>,
    /// How long it is good, as in 15m or 12h; 36 hours at most
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = humantime::parse_duration)]
    lasting: Duration,
    /// As JSON, as `credential_process` of AWS's tools takes it
    #[arg(long)]
    json: bool,
}

impl SessionCommand {
    pub(super) fn run(self, path: &Path) -> Result<ExitCode, String> {
        if self.lasting.as_secs() == 0 || self.lasting > LONGEST {
            return Err("--for is from one second to 36 hours".to_owned());
        }
        let access = file::read(path)?;
        let principal = super::whoever(&access, &self.who, self.account.as_deref(), path)?;
        let named = principal.keys.iter().find(|key| key.id == self.who);
        let parent = named.or(principal.keys.first()).ok_or_else(|| {
            format!("{} has no key; give them one with `larder access rotate {}`", self.who, principal.name)
        })?;
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| format!("there is no randomness for a session: {error}"))?;
        let session = Session::open(parent, Clock::system().now().plus(self.lasting), &random);
        let (id, secret, token) =
            (&session.key.id, Secret::reveal(&session.key.secret), Secret::reveal(&session.token));
        let ends = format!("{}Z", session.expires.to_label());
        let text = if self.json {
            let credentials = json!({
                "Version": 1, "AccessKeyId": id, "SecretAccessKey": secret, "SessionToken": token, "Expiration": ends
            });
            format!("{credentials:#}\n")
        } else {
            format!(
                "export AWS_ACCESS_KEY_ID={id}\nexport AWS_SECRET_ACCESS_KEY={secret}\nexport AWS_SESSION_TOKEN={token}\n\
                 # of {}, until {ends}\n",
                principal.name
            )
        };
        terminal::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

//! `larder access explain`: what somebody may do, and which statement says so.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use larder_auth::Principal;
use larder_auth::actions::kinds_of;
use larder_auth::policy::{Facts, Question, decide};
use larder_model::Arn;

use super::file;
use crate::terminal;

/// Say whether somebody may do something, and which statement decides
///
/// Conditions see who it is and what is said with --fact, and nothing else. Exits with 1 when they may not.
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// A name, or the id of a key
    who: String,
    /// Such as dynamodb:GetItem
    action: String,
    /// An ARN, or the name of a table, or * for what is about no one table
    resource: String,
    /// The region of a table that is given by its name
    #[arg(long, default_value = Arn::REGION)]
    region: String,
    /// The account, where several have somebody of that name
    #[arg(long, value_name = "DIGITS")]
    account: Option<String>,
    /// What conditions are to see, as in dynamodb:LeadingKeys=alice; may be repeated, for several values too
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::tag)]
    fact: Vec<(String, String)>,
}

impl Explain {
    pub(super) fn run(self, path: &Path) -> Result<ExitCode, String> {
        let access = file::read(path)?;
        let principal = super::whoever(&access, &self.who, self.account.as_deref(), path)?;
        let action =
            if self.action.contains(':') { self.action } else { format!("dynamodb:{}", self.action) };
        if kinds_of(&action).is_none() && !action.starts_with("larder:") {
            return Err(format!("DynamoDB has no action {action}; give one such as dynamodb:GetItem"));
        }
        let resource = match self.resource.as_str() {
            "*" => "*".to_owned(),
            arn if arn.starts_with("arn:") => arn.to_owned(),
            table => format!("arn:aws:dynamodb:{}:{}:table/{table}", self.region, principal.account),
        };
        let resource_account = resource.split(':').nth(4).unwrap_or(&principal.account).to_owned();
        let question = Question {
            principal,
            action: &action,
            resource: &resource,
            resource_account: &resource_account,
            resource_policy: None,
            facts: &Said { principal, said: &self.fact },
        };
        let decision = decide(&question);
        terminal::print(&format!("{} {action} on {resource}: {decision}\n", principal.name))?;
        Ok(if decision.allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

struct Said<'a> {
    principal: &'a Principal,
    said: &'a [(String, String)],
}

impl Facts for Said<'_> {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        let said = self.said.iter().filter(|(name, _)| name.eq_ignore_ascii_case(key));
        let values: Vec<String> = said.map(|(_, value)| value.clone()).collect();
        if values.is_empty() { self.principal.fact(key) } else { Some(values) }
    }
}

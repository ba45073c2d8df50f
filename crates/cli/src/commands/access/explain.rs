//! `larder access explain`: what somebody may do, and which statement says so.
//!
//! The policy of the resource is looked at too, where it is told: from a file, or as a store has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aws_sdk_dynamodb::operation::get_resource_policy::GetResourcePolicyError;
use clap::Args;
use larder::Address;
use larder_auth::actions::{kinds_of, of_no_table};
use larder_auth::policy::{Facts, Question, decide};
use larder_auth::{Place, Policy, Principal, is_rescue};
use larder_model::Arn;

use super::file;
use crate::commands::{backup, plan};
use crate::{held, terminal};

/// Say whether somebody may do something, and which statement decides
///
/// Conditions see who it is and what is said with --fact, and nothing else. The policy of the resource counts where it is told,
/// with --store or --resource-policy. Exits with 1 when they may not.
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
    /// Ask this store for the policy of the resource: the directory of a server that is not running, or dynamodb:URL
    #[arg(long, value_name = "STORE", conflicts_with = "resource_policy")]
    store: Option<Address>,
    /// The policy of the resource, as PutResourcePolicy takes it
    #[arg(long, value_name = "FILE")]
    resource_policy: Option<PathBuf>,
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
            "*" => of_no_table(&action).arn(Place { region: &self.region, account: &principal.account }),
            arn if arn.starts_with("arn:") => arn.to_owned(),
            table => format!("arn:aws:dynamodb:{}:{}:table/{table}", self.region, principal.account),
        };
        let resource_account = resource.split(':').nth(4).unwrap_or(&principal.account).to_owned();
        let of_resource = match (&self.resource_policy, &self.store) {
            (Some(path), _) => Some(of_file(path)?),
            (None, Some(store)) => of_store(store, &resource)?,
            (None, None) => None,
        };
        let of_resource = of_resource.filter(|_| !is_rescue(principal, &action, &resource_account));
        let question = Question {
            principal,
            action: &action,
            resource: &resource,
            resource_account: &resource_account,
            resource_policy: of_resource.as_ref(),
            facts: &Said { principal, said: &self.fact },
        };
        let decision = decide(&question);
        terminal::print(&format!("{} {action} on {resource}: {decision}\n", principal.name))?;
        Ok(if decision.allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn of_file(path: &Path) -> Result<Policy, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    Policy::resource(&text).map_err(|error| failed(&error))
}

/// What a store has for a table, which is for its indexes too, or for a stream. Nothing else has a policy.
fn of_store(store: &Address, resource: &str) -> Result<Option<Policy>, String> {
    let governed = resource.split_once("/index/").map_or(resource, |(table, _)| table);
    if !governed.contains(":table/") || governed.contains("/backup/") || governed.ends_with('*') {
        return Ok(None);
    }
    let text = plan::runtime()?.block_on(async {
        let opened = held::look(store).await.map_err(|error| plan::advise(store, &error))?;
        let client = opened.sdk_client().await.map_err(|error| plan::advise(store, &error))?;
        match client.get_resource_policy().resource_arn(governed).send().await {
            Ok(answer) => Ok(answer.policy),
            Err(error)
                if error
                    .as_service_error()
                    .is_some_and(GetResourcePolicyError::is_policy_not_found_exception) =>
            {
                Ok(None)
            }
            Err(error) => Err(format!("{store}, the policy of {governed}: {}", backup::failed(&error))),
        }
    })?;
    let read = |text: String| {
        Policy::resource(&text).map_err(|error| {
            format!("{store}, the policy of {governed}: {error}. A server denies everything meanwhile")
        })
    };
    text.map(read).transpose()
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

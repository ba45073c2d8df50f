//! `larder export`: a system as others take it: infrastructure code, policies, alarms, dashboards, a runbook.
//!
//! Nothing is asked of a store, and nothing is changed: what is written follows from the schema and the environment
//! alone, and is the same each time.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use larder_schema::emit::{self, Stack};
use larder_schema::{Environment, EnvironmentError, Schema, SourceFile};

use crate::{project, terminal};

/// Where dashboards look for tables that name no region.
const REGION: &str = "us-east-1";

/// Write a system out as infrastructure code, a policy, alarms, dashboards or a runbook
///
/// Params in names become parameters of the template, and take their defaults from --stage and the environment. What
/// is for one environment (dashboards, rules, the runbook) has the names of that one.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// What to write
    #[arg(value_name = "WHAT")]
    format: Format,
    /// The system, or the file of its schema; `-` is stdin [default: the only one in schemas/ or here]
    #[arg(value_name = "SYSTEM")]
    system: Option<String>,
    /// The value of the schema's param `stage`, whatever the environment says
    #[arg(long, value_name = "STAGE")]
    stage: Option<String>,
    /// The region: of several in which the schema has tables, or for a dashboard if it names none
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// The grant whose policy is meant, if there are several
    #[arg(long, value_name = "GRANT")]
    grant: Option<String>,
    /// Write to this file instead of to stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A template: tables, policies, alarms, budget
    Cloudformation,
    /// HCL: tables, policies, alarms, budget
    Terraform,
    /// A stack in TypeScript: tables, policies, alarms, budget
    Cdk,
    /// The policy of a grant, or the least that the access patterns need
    Iam,
    /// A CloudFormation template of the CloudWatch alarms alone
    Alarms,
    /// A CloudWatch dashboard
    Dashboard,
    /// A CloudFormation template of the budget alone
    Budgets,
    /// Operating procedures in Markdown, with the commands to type
    Runbook,
    /// Alerting rules for Prometheus, on the metrics of `larder serve` and the data layer
    Prometheus,
    /// A Grafana dashboard on the same metrics
    Grafana,
}

impl Export {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let path = self.system.as_deref().map_or_else(project::only, project::named)?;
        let loaded = project::load(&path)?;
        let files = loaded.files.clone();
        let Some(schema) = terminal::sound(loaded) else { return Ok(ExitCode::FAILURE) };
        let mut environment = project::environment();
        if let Some(stage) = &self.stage {
            environment.insert(stage_variable(&schema)?.to_owned(), stage.clone());
        }
        let text = self.text(&schema, &files, &environment)?;
        match &self.out {
            None => terminal::print(&text)?,
            Some(file) => {
                project::replace(file, &text)
                    .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
                terminal::print(&format!("wrote {}\n", file.display()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn text(
        &self,
        schema: &Schema,
        files: &[SourceFile],
        environment: &Environment,
    ) -> Result<String, String> {
        let unfit = |errors: Vec<EnvironmentError>| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            format!("{}: {}", files[0].name, errors.join("; "))
        };
        let system = &schema.system;
        match self.format {
            Format::Cloudformation => {
                self.template(system, emit::cloudformation(schema, files, environment).map_err(unfit)?)
            }
            Format::Terraform => emit::terraform(schema, files, environment).map_err(unfit),
            Format::Cdk => emit::cdk(schema, files, environment).map_err(unfit),
            Format::Iam => self.policy(system, emit::iam(schema, files, environment).map_err(unfit)?),
            Format::Alarms => {
                declared(!schema.alarms.is_empty(), system, "alarms", "alarms { throttles > 0 }", files)?;
                let stacks = emit::alarms(schema, files, environment).map_err(unfit)?;
                if stacks.is_empty() {
                    return Err(format!("CloudWatch has no metric for any alarm of {system}"));
                }
                self.template(system, stacks)
            }
            Format::Dashboard => {
                let region = self.region.as_deref().unwrap_or(REGION);
                Ok(pretty(&emit::dashboard(schema, files, environment, region).map_err(unfit)?))
            }
            Format::Budgets => {
                declared(!schema.budgets.is_empty(), system, "budget", "budget $10 per month", files)?;
                let stack = emit::budgets(schema, files, environment).map_err(unfit)?;
                self.template(system, stack.into_iter().collect())
            }
            Format::Runbook => emit::runbook(schema, files, environment).map_err(unfit),
            Format::Prometheus => {
                declared(!schema.alarms.is_empty(), system, "alarms", "alarms { throttles > 0 }", files)?;
                let rules = emit::prometheus(schema, files, environment).map_err(unfit)?;
                let rules = rules.ok_or_else(|| format!("no metric tells any alarm of {system}"))?;
                tell(&rules.left_out);
                Ok(rules.yaml)
            }
            Format::Grafana => Ok(pretty(&emit::grafana(schema, files, environment).map_err(unfit)?)),
        }
    }

    /// The template that is meant, of as many as there are regions.
    fn template(&self, system: &str, mut stacks: Vec<Stack>) -> Result<String, String> {
        let regions: Vec<&str> = stacks.iter().filter_map(|stack| stack.region.as_deref()).collect();
        let regions = regions.join(", ");
        let found = match &self.region {
            None => (stacks.len() == 1).then_some(0),
            // What names no region can be in any.
            Some(region) => {
                let named = stacks.iter().position(|stack| stack.region.as_ref() == Some(region));
                named.or_else(|| stacks.iter().position(|stack| stack.region.is_none()))
            }
        };
        let found = found.ok_or_else(|| match &self.region {
            Some(region) => format!("{system} has no tables in {region}, but in {regions}"),
            None => format!(
                "{system} has tables in several regions, and a template is for one: name it with --region: {regions}"
            ),
        })?;
        let stack = stacks.swap_remove(found);
        tell(&stack.left_out);
        Ok(pretty(&stack.template))
    }

    /// The policy that is meant, of as many as there are grants.
    fn policy(&self, system: &str, policies: Vec<emit::Policy>) -> Result<String, String> {
        let grants: Vec<String> = policies.iter().filter_map(|policy| policy.grant.clone()).collect();
        let grants = if grants.is_empty() { "none".to_owned() } else { grants.join(", ") };
        let several = policies.len() > 1;
        let found = policies.into_iter().find(|policy| match &self.grant {
            Some(grant) => policy.grant.as_ref() == Some(grant),
            None => !several,
        });
        let policy = found.ok_or_else(|| match &self.grant {
            Some(grant) => format!("{system} grants nothing to `{grant}`; its grants: {grants}"),
            None if several => format!("{system} has several grants: name one with --grant: {grants}"),
            None => format!("{system} has no entities, and so nothing to allow"),
        })?;
        Ok(pretty(&policy.document))
    }
}

/// The variable that says which stage it is.
fn stage_variable(schema: &Schema) -> Result<&str, String> {
    let stage = schema.param("stage").and_then(|param| param.variable.as_deref());
    stage.ok_or_else(|| {
        let system = &schema.system;
        let variables: Vec<&str> =
            schema.params.iter().filter_map(|param| param.variable.as_deref()).collect();
        if variables.is_empty() {
            format!("{system} has no param `stage` that is read from the environment, and so one stage alone")
        } else {
            format!(
                "{system} has no param `stage` that is read from the environment; set {} instead",
                variables.join(", ")
            )
        }
    })
}

fn declared(is: bool, system: &str, what: &str, example: &str, files: &[SourceFile]) -> Result<(), String> {
    if is {
        return Ok(());
    }
    Err(format!("{system} declares no {what}: add such as `{example}` to {}", files[0].name))
}

/// What was asked for and is not in the output, on stderr.
fn tell(left_out: &[String]) {
    for line in left_out {
        eprintln!("larder: left out: {line}");
    }
}

fn pretty(json: &serde_json::Value) -> String {
    format!("{json:#}\n")
}

//! `larder export`: a system as others take it: infrastructure code, policies, alarms, dashboards, a runbook, types.
//!
//! Nothing is asked of a store, and nothing is changed: what is written follows from the schema and the environment
//! alone, and is the same each time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use larder_schema::emit::{self, Kept, Stack};
use larder_schema::{Environment, EnvironmentError, Schema, SourceFile};

use crate::history::{self, Past};
use crate::{project, terminal};

/// Where dashboards look for tables that name no region.
const REGION: &str = "us-east-1";

/// Write a system out as infrastructure code, a policy, alarms, dashboards, a runbook or types
///
/// Params in names become parameters of the template, and take their defaults from --stage and the environment. What
/// is for one environment (dashboards, rules, the runbook) has the names of that one.
///
/// After a breaking change, --keep names the schema as it was before: its tables stay, unchanged, beside the new ones,
/// and policies allow both. `larder migrate finish` removes them; then export without it.
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
    /// An older version whose tables are still there: a file, or a git revision such as HEAD~1; may be repeated
    #[arg(long, value_name = "FILE|GIT_REV")]
    keep: Vec<String>,
    /// No table of an older version is left: `larder migrate finish` has removed them, or they never were
    #[arg(long, conflicts_with = "keep")]
    finished: bool,
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
    /// A module for programs in Python: records, keys and calls with types
    Python,
    /// JSON Schema of each entity: a record as it is read, and its item as it is stored
    Jsonschema,
    /// The types of a system, for programs in TypeScript
    Typescript,
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
        let kept = self.kept(&path, &schema)?;
        let kept: Vec<Kept<'_>> = kept.iter().map(|(schema, files)| Kept { schema, files }).collect();
        let text = self.text(&schema, &files, &kept, &environment)?;
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

    /// The older versions whose tables are still there.
    fn kept(&self, path: &Path, schema: &Schema) -> Result<Vec<(Schema, Vec<SourceFile>)>, String> {
        let system = &schema.system;
        let number = |schema: &Schema| schema.version.map_or(1, |version| version.number);
        let has_tables = matches!(self.format, Format::Cloudformation | Format::Terraform | Format::Cdk);
        if !self.keep.is_empty() && !has_tables && !matches!(self.format, Format::Iam) {
            return Err(
                "--keep is for what has tables in it, or names them: cloudformation, terraform, cdk, iam"
                    .into(),
            );
        }
        // Terraform can be told to forget a table, a stack cannot.
        let is_stack = matches!(self.format, Format::Cloudformation | Format::Cdk);
        if is_stack && number(schema) > 1 && self.keep.is_empty() && !self.finished {
            return Err(format!(
                "{system} is version {}, and a stack that has tables of an older one would delete them: name that schema \
                 with --keep FILE|GIT_REV; when `larder migrate finish` has removed them, or if they never were, say \
                 --finished",
                number(schema)
            ));
        }
        let mut kept: Vec<(Schema, Vec<SourceFile>)> = Vec::new();
        for from in &self.keep {
            let Some(Past { name, loaded }) = history::load(path, from)? else {
                return Err(format!("there was no {} in {from}: there is nothing to keep", path.display()));
            };
            let files = loaded.files.clone();
            let old =
                terminal::sound(loaded).ok_or_else(|| format!("{name} has errors: nothing was written"))?;
            if old.system != *system {
                return Err(format!("{name} is of {}, not of {system}", old.system));
            }
            let is_older = number(&old) < number(schema);
            if !is_older || kept.iter().any(|(known, _)| number(known) == number(&old)) {
                return Err(format!(
                    "{name} is version {}: --keep is for versions before {}, each once",
                    number(&old),
                    number(schema)
                ));
            }
            kept.push((old, files));
        }
        Ok(kept)
    }

    fn text(
        &self,
        schema: &Schema,
        files: &[SourceFile],
        kept: &[Kept<'_>],
        environment: &Environment,
    ) -> Result<String, String> {
        let unfit = |errors: Vec<EnvironmentError>| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            format!("{}: {}", files[0].name, errors.join("; "))
        };
        let system = &schema.system;
        match self.format {
            Format::Cloudformation => {
                self.template(system, emit::cloudformation(schema, files, kept, environment).map_err(unfit)?)
            }
            Format::Terraform => emit::terraform(schema, files, kept, environment).map_err(unfit),
            Format::Cdk => emit::cdk(schema, files, kept, environment).map_err(unfit),
            Format::Iam => self.policy(system, emit::iam(schema, files, kept, environment).map_err(unfit)?),
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
            Format::Python => Ok(emit::python(schema, files)),
            Format::Jsonschema => Ok(pretty(&emit::jsonschema(schema))),
            Format::Typescript => Ok(emit::typescript(schema)),
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

//! `larder plan`: what the schemas say against what is deployed.
//!
//! It looks and changes nothing: not even a store's directory is made.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;

use clap::Args;
use larder::Address;
use larder::provision::{self, Desired, Plan as Planned};
use larder::store::{Error, STORE_VARIABLE};
use larder_schema::EnvironmentError;
use tokio::runtime;

use crate::{held, project, terminal};

/// Show what `larder apply` would do, and do nothing
///
/// Marks: + create, ~ change, - destroy, ! cannot be, = is left alone. Nothing is destroyed without
/// --allow-destroy, and what is to be retained not even then.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    target: Target,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
}

/// Which schemas, and which store.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The schemas [default: those in schemas/ or here]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the tables are: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    store: Address,
}

impl Plan {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        show(&self.target, self.json)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Plans and prints the plan.
pub(crate) fn show(target: &Target, json: bool) -> Result<Planned, String> {
    let plan = planned(target)?;
    let text = if json { format!("{:#}\n", plan.to_json()) } else { plan.to_string() };
    terminal::print(&text)?;
    Ok(plan)
}

pub(crate) fn planned(target: &Target) -> Result<Planned, String> {
    let desired = target.desired()?;
    let plan = runtime()?.block_on(async {
        let store = held::look(&target.store).await?;
        provision::plan(&desired, &store).await
    });
    plan.map_err(|error| target.advise(&error))
}

pub(crate) fn runtime() -> Result<Runtime, String> {
    let built = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map(Runtime).map_err(|error| format!("cannot start its threads: {error}"))
}

/// What a command is run by.
pub(crate) struct Runtime(runtime::Runtime);

impl Runtime {
    /// Runs it to its end. It is boxed, so that what waits for it is compiled once, and not for each command.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let work: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(work);
        self.0.block_on(work)
    }
}

impl Target {
    pub(crate) fn store(&self) -> &Address {
        &self.store
    }

    /// What the schemas ask for in the environment of this process.
    pub(crate) fn desired(&self) -> Result<Vec<Desired>, String> {
        let environment = project::environment();
        let mut desired: Vec<Desired> = Vec::new();
        for path in project::schemas(&self.files)? {
            let broken = || format!("{} has errors: nothing was planned", path.display());
            let schema = terminal::sound(project::load(&path)?).ok_or_else(broken)?;
            let system = Desired::of(&schema, &environment).map_err(|errors| listed(&path, &errors))?;
            for setup in &system.setups {
                let name = &setup.definition.name;
                let mut others = desired.iter().flat_map(|other| {
                    other.setups.iter().map(move |setup| (&other.system, &setup.definition.name))
                });
                if let Some((other, _)) = others.find(|(_, other)| *other == name) {
                    return Err(format!(
                        "systems {other} and {} both call a table `{name}`: rename one",
                        system.system
                    ));
                }
            }
            desired.push(system);
        }
        Ok(desired)
    }

    /// The error and the next step.
    pub(crate) fn advise(&self, error: &Error) -> String {
        advise(&self.store, error)
    }
}

/// What AWS says when it does not take the credentials.
const CREDENTIALS: [&str; 6] = [
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignatureException",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
];

/// What a store says, and the next step.
pub(crate) fn advise(store: &Address, error: &Error) -> String {
    let step = match (store, error) {
        (Address::DynamoDb { endpoint: Some(_) }, Error::Unreachable { .. }) => {
            "; start it with `larder serve`, or name another with --store"
        }
        (Address::DynamoDb { endpoint: None }, Error::Unreachable { .. }) => {
            "; see to the network, AWS_REGION and the credentials: `larder doctor` looks at them"
        }
        (_, Error::Refused { code, .. }) if CREDENTIALS.contains(&code.as_str()) => {
            "; renew the credentials, or what they may do: `larder doctor` says which are used"
        }
        _ => "",
    };
    format!("{error}{step}")
}

fn listed(path: &std::path::Path, errors: &[EnvironmentError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    format!("{}: {}", path.display(), errors.join("; "))
}

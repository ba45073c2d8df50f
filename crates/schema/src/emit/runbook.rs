//! An operating runbook in Markdown: what to type, and when, for one system in one environment.
//!
//! Every procedure is there only if the schema has a use for it: no recovery without `pitr`, no sweep without a TTL.
//! Names are those the tables have in this environment, so that a line can be copied into a shell as it is. What
//! only the reader knows stands in capitals.

mod alerts;
mod recovery;

use std::fmt::Write as _;

use super::alarms::{cached, hits_and_misses, metric_name};
use crate::equation::duration_source;
use crate::origin::Origins;
use crate::schema::*;
use crate::span::SourceFile;
use crate::symbols::{key_example, ttl_text};
use crate::value::Value;

/// The runbook of a system in this environment.
pub fn runbook(
    schema: &Schema,
    files: &[SourceFile],
    environment: &Environment,
) -> Result<String, Vec<EnvironmentError>> {
    let setups = schema.tables(environment)?;
    let origins = Origins::new(files);
    let file = word(files.first().map_or("schema.larder", |file| file.name.as_str()));
    let book = Book { schema, origins: &origins, environment, setups: &setups, file: &file };
    let mut out = String::new();
    book.head(&mut out);
    book.set_up(&mut out);
    book.health(&mut out);
    recovery::recovery(&book, &mut out);
    book.backup(&mut out);
    book.migration(&mut out);
    book.removal(&mut out);
    book.lifecycles(&mut out);
    alerts::alarms(&book, &mut out);
    alerts::logs(schema, &mut out);
    alerts::costs(&book, &mut out);
    while out.ends_with("\n\n") {
        out.pop();
    }
    Ok(out)
}

struct Book<'a> {
    schema: &'a Schema,
    origins: &'a Origins<'a>,
    environment: &'a Environment,
    setups: &'a [TableSetup],
    file: &'a str,
}

/// A value as one word of a shell.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Lines for a shell. Comments stand under each other.
fn shell(out: &mut String, lines: &[String]) {
    let parted = || {
        lines.iter().map(|line| {
            // Within quotes, the sign belongs to a value.
            let is_open = |text: &str| text.replace(r"\'", "").matches('\'').count() % 2 == 1;
            let at = line.match_indices(" # ").map(|(at, _)| at).find(|at| !is_open(&line[..*at]))?;
            Some((&line[..at], &line[at + 3..]))
        })
    };
    let width = parted().flatten().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    out.push_str("```sh\n");
    for (line, parted) in lines.iter().zip(parted()) {
        let _ = match parted {
            Some((command, comment)) => writeln!(out, "{command:width$}   # {comment}"),
            None => writeln!(out, "{line}"),
        };
    }
    out.push_str("```\n\n");
}

impl Book<'_> {
    /// Entities and their tables, in the schema's order.
    fn entities(&self) -> impl Iterator<Item = (&Table, &Entity)> {
        self.schema.tables.iter().flat_map(|table| table.entities.iter().map(move |entity| (table, entity)))
    }

    /// ` --region eu-west-1`, where the schema says so.
    fn region(setup: &TableSetup) -> String {
        setup.region.as_ref().map(|region| format!(" --region {region}")).unwrap_or_default()
    }

    /// The line behind a part, in brackets.
    fn from(place: Option<String>) -> String {
        place.map(|place| format!(" ({place})")).unwrap_or_default()
    }

    fn head(&self, out: &mut String) {
        let system = &self.schema.system;
        let _ = writeln!(
            out,
            "<!-- Written by `larder export runbook {system}`. Change the schema instead. -->\n\n\
             # Runbook of {system}\n"
        );
        if !self.schema.docs.is_empty() {
            let _ = writeln!(out, "{}\n", self.schema.docs.join("\n").trim());
        }
        out.push_str("| table | region | holds | expires | recovery | protected | from |\n|---|---|---|---|---|---|---|\n");
        for (table, setup) in self.schema.tables.iter().zip(self.setups) {
            let entities: Vec<&str> = table.entities.iter().map(|entity| entity.name.as_str()).collect();
            let expires = setup.ttl_attribute.as_ref().map_or("-".to_owned(), |name| format!("by `{name}`"));
            let pitr = setup.pitr.map_or("-".to_owned(), |pitr| format!("{} days", pitr.days));
            let protected = match setup.on_delete {
                OnDelete::Retain => "yes",
                OnDelete::Delete => "no",
            };
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {expires} | {pitr} | {protected} | {} |",
                setup.definition.name,
                setup.region.as_deref().unwrap_or("-"),
                entities.join(", "),
                self.origins.table(&table.name).unwrap_or_default(),
            );
        }
        out.push_str(
            "\nThe lines below are for this environment. For a store of `larder serve`, `LARDER_STORE` is \
             `dynamodb:http://HOST:PORT`, and `aws dynamodb` takes `--endpoint-url http://HOST:PORT`.\n\n",
        );
        let mut lines = vec!["export LARDER_STORE=dynamodb:".to_owned()];
        let first = self.setups.iter().find_map(|setup| setup.region.as_ref());
        lines.push(format!("export AWS_REGION={}", first.map_or("REGION", String::as_str)));
        for param in &self.schema.params {
            let Some(variable) = &param.variable else { continue };
            let value = match param.value(self.environment) {
                Ok(Value::Duration(life)) => {
                    duration_source(i64::try_from(life.as_millis()).unwrap_or(i64::MAX))
                }
                _ => super::names::value(self.schema, param, self.environment).unwrap_or_default(),
            };
            lines.push(format!("export {variable}={}", word(&value)));
        }
        shell(out, &lines);
    }

    fn set_up(&self, out: &mut String) {
        let (system, file) = (&self.schema.system, self.file);
        out.push_str("## Set up\n\nIdempotent: what is there already stays as it is.\n\n");
        let entity = self.entities().next().map(|(_, entity)| format!("{system}.{}", entity.name));
        let mut lines = vec![
            format!("larder check {file}"),
            format!("larder plan {file} # shows what would be done"),
            format!(
                "larder apply {file} --probe # tables, TTL, indexes, recovery; then a put, a get and a delete"
            ),
        ];
        if let Some(entity) = entity {
            lines.push(format!("larder seed {entity} --count 1 --print # what a valid record looks like"));
        }
        shell(out, &lines);
        out.push_str("Or by CloudFormation, with the policies");
        out.push_str(if self.schema.alarms.is_empty() { ":\n\n" } else { " and alarms:\n\n" });
        let topic = !self.schema.alarms.is_empty() || !self.schema.budgets.is_empty();
        let overrides =
            if topic { " \\\n  --parameter-overrides NotificationTopicArn=TOPIC_ARN" } else { "" };
        let regions = super::names::regions(&self.schema.tables);
        let mut lines = Vec::new();
        for region in &regions {
            let region = region.unwrap_or("REGION");
            let (flag, end) = if regions.len() > 1 {
                (format!(" --region {region}"), format!("-{region}"))
            } else {
                (String::new(), String::new())
            };
            // A stack has to be told what is left of the version before.
            let last = if super::names::number(self.schema) > 1 { " --keep main" } else { "" };
            lines.push(format!("larder export cloudformation {system}{flag}{last} --out {system}{end}.json"));
            lines.push(format!(
                "aws cloudformation deploy{flag} --template-file {system}{end}.json --stack-name {} \\\n  \
                 --capabilities CAPABILITY_IAM{overrides}",
                self.stack_name()
            ));
        }
        shell(out, &lines);
        out.push_str("Then the dashboard:\n\n");
        shell(
            out,
            &[
                format!("larder export dashboard {system} --out {system}-dashboard.json"),
                format!(
                    "aws cloudwatch put-dashboard --dashboard-name {} --dashboard-body file://{system}-dashboard.json",
                    self.stack_name()
                ),
            ],
        );
    }

    /// One for each environment: the system and its stage, if it has one.
    fn stack_name(&self) -> String {
        let stage = self.schema.param("stage");
        let stage = stage.and_then(|param| super::names::value(self.schema, param, self.environment).ok());
        match stage {
            Some(stage) => word(&format!("{}-{stage}", self.schema.system)),
            None => self.schema.system.clone(),
        }
    }

    fn health(&self, out: &mut String) {
        let (system, file) = (&self.schema.system, self.file);
        out.push_str("## Health check\n\n");
        let mut lines = vec![
            format!("larder doctor {system} # from credentials to a probe put, get and delete, with timings"),
            format!("larder drift {file} # exit code 3: what is deployed is not what the schema says"),
            format!("larder stats {system}"),
        ];
        for setup in self.setups {
            let (name, region) = (&setup.definition.name, Self::region(setup));
            lines.push(format!(
                "aws dynamodb describe-table --table-name {name}{region} --query 'Table.[TableStatus,ItemCount,TableSizeBytes]'"
            ));
            if setup.ttl_attribute.is_some() {
                lines.push(format!("aws dynamodb describe-time-to-live --table-name {name}{region}"));
            }
            if setup.pitr.is_some() {
                lines.push(format!("aws dynamodb describe-continuous-backups --table-name {name}{region}"));
            }
        }
        shell(out, &lines);
    }

    fn backup(&self, out: &mut String) {
        let system = &self.schema.system;
        out.push_str("## Back up\n\nBefore anything risky. A backup stays when its table goes.\n\n");
        let mut lines: Vec<String> = Vec::new();
        for setup in self.setups {
            let name = &setup.definition.name;
            lines.push(format!("larder backup {name} --name {name}-before-CHANGE"));
        }
        let first = self.setups.first().map_or(String::new(), |setup| setup.definition.name.to_string());
        lines.push(format!("larder backup {first} --list"));
        lines.push(format!("larder restore --backup BACKUP_ARN --to {first}-restored"));
        lines.push(format!(
            "larder dump {system} --out {system}.jsonl.gz # a copy outside AWS; `larder load` takes it back"
        ));
        shell(out, &lines);
    }

    fn migration(&self, out: &mut String) {
        let (system, file) = (&self.schema.system, self.file);
        out.push_str("## Change the schema, and go back\n\n");
        shell(
            out,
            &[format!(
                "larder check {file} --against main # exit code 1: a breaking change without a new version"
            )],
        );
        let _ = writeln!(
            out,
            "- Compatible, such as a new optional attribute: `larder plan {file}`, then `larder apply {file}`.\n\
             - Breaking: raise `version`{}, which gives the tables new names, and migrate. Records are copied while \
             programs write, what they write is carried over, and both sides are compared. Programs of the new schema use \
             the new tables: deploying them is the switch.",
            Self::from(self.origins.top("version")),
        );
        let keep = self.schema.version.and_then(|version| version.keep_millis);
        let kept = match keep {
            Some(millis) => format!("stay {}", duration_source(millis)),
            None => "stay until they are removed".to_owned(),
        };
        let _ = writeln!(
            out,
            "- Rollback: the old tables {kept}. What was written since the switch is carried back, and programs of the \
             old schema go on.\n"
        );
        shell(
            out,
            &[
                format!("larder migrate {system} --from main # the plan and its price, and then it asks"),
                "larder migrate status".to_owned(),
                format!("larder migrate rollback {system} --from main"),
                format!(
                    "larder migrate finish {system} --from main --allow-destroy TABLE # once nobody wants to go back"
                ),
            ],
        );
    }

    fn removal(&self, out: &mut String) {
        let system = &self.schema.system;
        let expiring: Vec<&Entity> =
            self.entities().filter(|(_, entity)| entity.ttl.is_some()).map(|(_, entity)| entity).collect();
        if !expiring.is_empty() {
            out.push_str(
                "## Sweep what has expired\n\nDynamoDB removes expired items by itself, within about two days; readers never get them. \
                 Sweep when the space matters sooner. The cost is shown first.\n\n",
            );
            for entity in &expiring {
                if let Some(ttl) = &entity.ttl {
                    let _ = writeln!(out, "- {} lives {}", entity.name, ttl_text(ttl));
                }
            }
            let may = |entity: &&&Entity| entity.policy.scan != Scan::Deny;
            let lines: Vec<String> = expiring
                .iter()
                .filter(may)
                .map(|entity| format!("larder sweep {system}.{} # --yes removes them", entity.name))
                .collect();
            out.push('\n');
            if lines.is_empty() {
                out.push_str(
                    "The schema permits no scan (`scan ask` would), so DynamoDB alone removes them.\n\n",
                );
            } else {
                shell(out, &lines);
            }
        }
        out.push_str("## Invalidate\n\nOne record by its key, or all that have fields in common. `invalidate` shows its cost first.\n\n");
        let mut lines = Vec::new();
        for (_, entity) in self.entities() {
            lines.push(format!("larder rm {system}.{} {}", entity.name, key_flags(entity)));
        }
        for (_, entity) in self.entities().filter(|(_, entity)| entity.policy.scan != Scan::Deny) {
            lines
                .push(format!("larder invalidate {system}.{} FIELD=VALUE # --yes removes them", entity.name));
        }
        shell(out, &lines);
    }

    fn lifecycles(&self, out: &mut String) {
        let system = &self.schema.system;
        let mut lines = Vec::new();
        for (table, entity) in self.entities() {
            for lifecycle in &entity.lifecycles {
                if lifecycle.lease.is_none() {
                    continue;
                }
                let index = table.indexes.iter().find(|index| {
                    index
                        .sort
                        .iter()
                        .chain(&index.partition)
                        .any(|part| part.attribute == lifecycle.attribute)
                });
                let access = index.and_then(|index| entity.access(table, Some(index)));
                let arguments = access.map_or(Vec::new(), |access| access.arguments);
                let group: String = arguments
                    .iter()
                    .filter(|argument| argument.lifecycle.is_none())
                    .map(|argument| format!(" {}={}", argument.name, argument.name.to_uppercase()))
                    .collect();
                let (name, key) = (format!("{system}.{} {}", entity.name, lifecycle.name), key_flags(entity));
                lines.push(format!("larder due {name}{group}"));
                lines.push(format!("larder stuck {name}{group}"));
                lines.push(format!("larder release {name} {key}"));
            }
        }
        if !lines.is_empty() {
            out.push_str(
                "## Work that is due, and work that is stuck\n\nA worker that dies loses its lease, and its work is due again by itself. \
                 What was tried as often as the schema allows stays stuck until it is released.\n\n",
            );
            shell(out, &lines);
        }
    }
}

/// A key for commands that take one: as it is stored, or the fields that are it.
fn key_flags(entity: &Entity) -> String {
    let sources = std::iter::once(&entity.partition).chain(&entity.sort);
    let fields: Vec<String> = sources
        .filter_map(|source| match source {
            KeySource::Field(name) => Some(format!("{name}={}", name.to_uppercase())),
            KeySource::Template(_) => None,
        })
        .collect();
    if !fields.is_empty() {
        return fields.join(" ");
    }
    let partition = format!("--key {}", quoted(&key_example(entity, &entity.partition)));
    match &entity.sort {
        // Without a hole in it, the sort key follows from the entity.
        Some(KeySource::Template(sort)) if sort.holes().next().is_none() => partition,
        Some(sort) => format!("{partition} --sort {}", quoted(&key_example(entity, sort))),
        None => partition,
    }
}

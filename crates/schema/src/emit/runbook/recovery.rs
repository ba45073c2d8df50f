//! The part of a runbook for going back to a moment.
//!
//! A restored table has a name of its own. Where a param stands in the names of all tables that can be restored,
//! the names are those of another value of that param, and every command speaks of the restored tables when it is
//! given that value.

use std::fmt::Write as _;

use super::{Book, key_flags, shell, word};
use crate::schema::*;

/// A value of a variable under which the tables have other names.
struct Beside {
    said: String,
    setups: Vec<TableSetup>,
}

pub(super) fn recovery(book: &Book<'_>, out: &mut String) {
    let kept: Vec<usize> = (0..book.setups.len()).filter(|at| book.setups[*at].pitr.is_some()).collect();
    if kept.is_empty() {
        return;
    }
    out.push_str(
        "## Restore to a moment\n\nAfter an accidental delete or a bad write. A restore makes a new table and changes \
         nothing in the old one.\n\n",
    );
    for at in &kept {
        let (table, setup) = (&book.schema.tables[*at], &book.setups[*at]);
        let days = setup.pitr.map_or(0, |pitr| pitr.days);
        let place = Book::from(book.origins.setting(&table.name, "pitr"));
        let _ = writeln!(out, "- `{}`: any second of the last {days} days{place}", setup.definition.name);
    }
    let beside = beside(book, &kept);
    let name = |at: usize| match &beside {
        Some(beside) => beside.setups[at].definition.name.to_string(),
        None => format!("{}-restored", book.setups[at].definition.name),
    };
    out.push_str(
        "\n1. Stop what writes wrongly, and note a moment before the damage, in UTC.\n\
         2. Make the table of that moment. It takes minutes to hours; progress is shown.\n\n",
    );
    let of_each = |line: &dyn Fn(usize) -> String| kept.iter().map(|at| line(*at)).collect::<Vec<_>>();
    let restore = |at: usize| {
        format!(
            "larder restore {} --to {} --at 2026-01-31T14:05:00Z",
            book.setups[at].definition.name,
            name(at)
        )
    };
    shell(out, &of_each(&restore));
    match &beside {
        Some(beside) => bring_back(book, out, &kept, &beside.said),
        None => {
            out.push_str(
                "3. Look at it, and copy back what is missing. With a param in its name, such as `name \"…-{stage}\"`, \
                 every `larder` command could speak of it.\n\n",
            );
            let look = |at: usize| {
                format!(
                    "aws dynamodb scan --table-name {}{} --select COUNT",
                    name(at),
                    Book::region(&book.setups[at])
                )
            };
            shell(out, &of_each(&look));
        }
    }
    let _ = writeln!(
        out,
        "{}. Look at the result, then delete what was restored.\n",
        if beside.is_some() { 5 } else { 4 }
    );
    let delete = |at: usize| {
        format!("aws dynamodb delete-table --table-name {}{}", name(at), Book::region(&book.setups[at]))
    };
    let mut lines = vec![format!("larder doctor {}", book.schema.system)];
    lines.extend(of_each(&delete));
    shell(out, &lines);
    out.push_str("A restored table has no TTL, no recovery, no alarms and no tags.");
    out.push_str(match beside {
        Some(_) => " To keep it, run `larder apply` in its environment.\n\n",
        None => "\n\n",
    });
}

/// Steps 3 and 4.
fn bring_back(book: &Book<'_>, out: &mut String, kept: &[usize], said: &str) {
    let system = &book.schema.system;
    let entities: Vec<&Entity> = kept.iter().flat_map(|at| &book.schema.tables[*at].entities).collect();
    let names: Vec<String> = entities.iter().map(|entity| format!("{system}.{}", entity.name)).collect();
    let all = if kept.len() == book.setups.len() { system.clone() } else { names.join(" ") };
    let _ = writeln!(out, "3. `{said}` makes every command speak of the restored tables. Look:\n");
    let mut look = vec![format!("{said} larder stats {system}")];
    let mut back = vec![
        format!("{said} larder dump {all} --out {system}-restored.jsonl.gz"),
        format!("larder load {system}-restored.jsonl.gz"),
    ];
    if let (Some(entity), Some(name)) = (entities.first(), names.first()) {
        let key = key_flags(entity);
        look.push(format!("{said} larder get {name} {key}"));
        back.insert(
            0,
            format!("{said} larder get {name} {key} --json --show-secrets | larder put {name} --file -"),
        );
    }
    shell(out, &look);
    out.push_str(
        "4. Bring back one record, or all of them. All means: as they were, over what was written since.\n\n",
    );
    shell(out, &back);
}

fn beside(book: &Book<'_>, tables: &[usize]) -> Option<Beside> {
    let in_every_name = |param: &&Param| {
        let named = ParamPart::Param(param.name.clone());
        param.kind == ParamKind::String
            && tables.iter().all(|at| book.schema.tables[*at].stored_name.0.contains(&named))
    };
    let param = book.schema.params.iter().find(in_every_name)?;
    let variable = param.variable.as_ref()?;
    let value = super::super::names::value(book.schema, param, book.environment).ok()?;
    let mut environment = book.environment.clone();
    environment.insert(variable.clone(), format!("{value}-restored"));
    let setups = book.schema.tables(&environment).ok()?;
    Some(Beside { said: format!("{variable}={}", word(&format!("{value}-restored"))), setups })
}

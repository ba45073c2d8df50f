//! `larder explain`: why a diagnostic is one, or why something went wrong at run time, and what to do; and what a PartiQL
//! statement would do, as `larder sql --explain` tells it.

mod faults;

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use larder::Address;
use larder::store::STORE_VARIABLE;
use larder_schema::{RULES, Severity, closest, explain};

use super::sql::Sql;
use crate::terminal;
use faults::{FAULTS, fault};

/// Tell more about a diagnostic, such as L0107, or an error at run time; without a name, list all
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The code in brackets after `error` or `warning`; the code, variant or class of an error of a program; or a PartiQL
    /// statement, to be told what it would do, and its price
    name: Option<String>,
    /// Where the tables of a statement are: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    store: Address,
    /// The value of a `?` in a statement, as `larder sql` takes it
    #[arg(long = "parameter", value_name = "VALUE", allow_hyphen_values = true)]
    parameters: Vec<String>,
}

impl Explain {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        // No name has white space, and every statement does.
        let is_statement = |name: &&String| name.trim().contains(char::is_whitespace);
        if let Some(statement) = self.name.as_ref().filter(is_statement).cloned() {
            return Sql::explaining(statement, self.store, self.parameters).run();
        }
        terminal::print(&self.text()?)?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn text(&self) -> Result<String, String> {
        let Some(name) = &self.name else { return Ok(list()) };
        explain(name).or_else(|| fault(name).map(faults::Fault::text)).ok_or_else(|| unknown(name))
    }
}

fn list() -> String {
    let mut text = String::new();
    for rule in RULES {
        let kind = match rule.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let _ = writeln!(text, "{}  {kind:7}  {}", rule.code, rule.title);
    }
    let _ = writeln!(text, "\nAt run time:");
    for fault in FAULTS {
        let _ = writeln!(text, "{}  {}", fault.names.join(", "), fault.title);
    }
    text
}

fn unknown(name: &str) -> String {
    match near(name) {
        Some(close) => format!("there is no error `{name}`; did you mean {close}?"),
        None => format!("there is no error `{name}`; `larder explain` lists all"),
    }
}

/// The code or name a slip of the pen away.
fn near(name: &str) -> Option<&'static str> {
    let codes = RULES.iter().map(|rule| (differing(name, rule.code), rule.code));
    if let Some((0..=1, close)) = codes.min() {
        return Some(close);
    }
    let names: Vec<&str> = FAULTS.iter().flat_map(|fault| fault.names.iter().copied()).collect();
    closest(name, &names)
}

/// How many characters differ, digits and `L` alike; a missing one counts.
fn differing(written: &str, code: &str) -> usize {
    // `107` and `L107` mean L0107.
    let digits = written.trim_start_matches(['L', 'l']);
    let written = format!("L{digits:0>4}");
    let length = written.chars().count().abs_diff(code.chars().count());
    let others = written.chars().zip(code.chars()).filter(|(a, b)| a != b).count();
    length + others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_is_nearly_one_is_recognised() {
        let slips = [
            ("107", "L0107"),
            ("L107", "L0107"),
            ("L0117", "L0107"),
            ("ThrotlingException", "ThrottlingException"),
            ("l0999", ""),
        ];
        for (written, close) in slips {
            let message = unknown(written);
            assert!(message.contains(written) && message.contains(close), "{message}");
            assert_eq!(message.contains("did you mean"), !close.is_empty(), "{message}");
        }
    }
}

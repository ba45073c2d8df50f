//! `larder explain`: why a diagnostic is one, and what to do; and what a PartiQL statement would do, as `larder sql
//! --explain` tells it.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use larder::Address;
use larder::store::STORE_VARIABLE;
use larder_schema::{RULES, Severity, explain};

use super::sql::Sql;
use crate::terminal;

/// Tell more about a diagnostic, such as L0107; without a code, list all
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The code in brackets after `error` or `warning`; or a PartiQL statement, to be told what it would do, and its price
    code: Option<String>,
    /// Where the tables of a statement are: a directory, memory:, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    store: Address,
    /// The value of a `?` in a statement, as `larder sql` takes it
    #[arg(long = "parameter", value_name = "VALUE", allow_hyphen_values = true)]
    parameters: Vec<String>,
}

impl Explain {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        // No code has white space, and every statement does.
        let is_statement = |code: &&String| code.trim().contains(char::is_whitespace);
        if let Some(statement) = self.code.as_ref().filter(is_statement).cloned() {
            return Sql::explaining(statement, self.store, self.parameters).run();
        }
        terminal::print(&self.text()?)?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn text(&self) -> Result<String, String> {
        match &self.code {
            None => Ok(list()),
            Some(code) => explain(code).ok_or_else(|| unknown(code)),
        }
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
    text
}

fn unknown(code: &str) -> String {
    let close = RULES.iter().map(|rule| (differing(code, rule.code), rule.code)).min();
    match close {
        Some((0..=1, close)) => format!("there is no diagnostic `{code}`; did you mean {close}?"),
        _ => format!("there is no diagnostic `{code}`; `larder explain` lists all, from {}", RULES[0].code),
    }
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
        for (written, close) in [("107", "L0107"), ("L107", "L0107"), ("L0117", "L0107"), ("l0999", "")] {
            let message = unknown(written);
            assert!(message.contains(written) && message.contains(close), "{message}");
            assert_eq!(message.contains("did you mean"), !close.is_empty(), "{message}");
        }
    }
}

//! A PartiQL statement and its parameters, as the three operations that take them have them.

use larder_engine::ops::Statement;
use larder_model::limits::STATEMENT_CHARS_MAX;
use larder_model::{ApiError, AttributeValue};

use crate::constraints::Constraints;
use crate::echo::Echo;
use crate::json::Reader;
use crate::members::{ON_FAILURE, Text};
use crate::refusal::{Read, Rules};
use crate::shape;
use crate::value::{self, Flaws};

/// The members of a statement.
#[derive(Debug, Default)]
pub(super) struct Written<'a> {
    pub(super) text: Text<'a>,
    pub(super) parameters: Option<Vec<AttributeValue>>,
    flaws: Flaws,
    pub(super) consistent: Option<bool>,
    pub(super) on_failure: Text<'a>,
}

impl<'a> Written<'a> {
    /// Reads a list of them, each of which is called `kind`. `None` if there is no list.
    pub(super) fn list(reader: &mut Reader<'a>, kind: &'static str, rules: Rules) -> Read<Option<Vec<Self>>> {
        let mut found = Vec::new();
        let present = shape::list(reader, |reader| {
            let mut written = Self::default();
            shape::element(reader, kind, |reader, member| written.read(reader, &member, rules))?;
            found.push(written);
            Ok(())
        })?;
        Ok(present.then_some(found))
    }

    /// Reads the member `name`, or passes over it if it is none of these.
    pub(super) fn read(&mut self, reader: &mut Reader<'a>, name: &str, rules: Rules) -> Read<()> {
        match name {
            "Statement" => self.text = shape::text(reader)?,
            "ConsistentRead" => self.consistent = shape::boolean(reader)?,
            "ReturnValuesOnConditionCheckFailure" => self.on_failure = shape::text(reader)?,
            "Parameters" => {
                let mut found = Vec::new();
                let present = shape::values(reader, |reader| {
                    reader.charge(2 * size_of::<AttributeValue>())?;
                    found.push(value::value(reader, &mut self.flaws)?);
                    Ok(())
                })?;
                self.flaws.check_read(rules)?;
                self.parameters = present.then_some(found);
            }
            _ => drop(reader.skip()?),
        }
        Ok(())
    }

    /// The constraints on its members, which stand below `path`.
    pub(super) fn constrain(&self, constraints: &mut Constraints, path: &str) {
        let at = |member: &str| format!("{path}{member}");
        match self.text.as_deref() {
            None => constraints.null(&at("statement")),
            Some("") => {
                let rule = "Member must have length greater than or equal to 1";
                constraints.broken("", &at("statement"), rule);
            }
            Some(text) if text.chars().count() > STATEMENT_CHARS_MAX => {
                let rule = format!("Member must have length less than or equal to {STATEMENT_CHARS_MAX}");
                constraints.broken(text, &at("statement"), &rule);
            }
            Some(_) => {}
        }
        if self.parameters.as_ref().is_some_and(Vec::is_empty) {
            let rule = "Member must have length greater than or equal to 1";
            constraints.broken("[]", &at("parameters"), rule);
        }
        let on_failure = at("returnValuesOnConditionCheckFailure");
        constraints.one_of(self.on_failure.as_deref(), &on_failure, &ON_FAILURE);
    }

    pub(super) fn returns_old_on_failure(&self) -> bool {
        self.on_failure.as_deref() == Some("ALL_OLD")
    }

    pub(super) fn parameters(&self) -> &[AttributeValue] {
        self.parameters.as_deref().unwrap_or_default()
    }

    /// Refuses parameters that no item could hold.
    pub(super) fn check_parameters(&self, rules: Rules) -> Read<()> {
        self.flaws.check_deep()?;
        self.flaws.check_names()?;
        self.flaws.check_sets(rules)?;
        self.flaws.check_depth()
    }

    /// What it says. `EXISTS` belongs in a transaction.
    pub(super) fn statement(&self, in_transaction: bool) -> Result<Statement, ApiError> {
        let text = self.text.as_deref().unwrap_or_default();
        match larder_partiql::read(text, self.parameters())? {
            Statement::Exists(_) if !in_transaction => Err(larder_partiql::Error::ExistsAlone.into()),
            statement => Ok(statement),
        }
    }

    /// As Java prints it, without what comes after the parameters.
    pub(super) fn echo(&self, echo: &mut Echo, class: &str) {
        echo.text(&format!("{class}(statement="));
        echo.option(self.text.as_deref());
        echo.text(", parameters=");
        match &self.parameters {
            Some(parameters) => echo.list(parameters, Echo::value),
            None => echo.text("null"),
        }
    }
}

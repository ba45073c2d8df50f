//! Constraints on members, gathered: DynamoDB reports all that a request breaks in one message.
//!
//! A path names a member as its Java model does: `keySchema.1.member.attributeName`. At most ten broken
//! constraints are listed, and a value that is very long is shown only in part.

use std::borrow::Cow;

use larder_model::limits::{KEY_NAME_BYTES_MAX, TABLE_NAME_MAX, TABLE_NAME_MIN};
use larder_model::{Arn, IndexName, TableName};

use crate::echo::Echo;
use crate::refusal::{Read, Refusal};

pub(crate) const LISTED_MAX: usize = 10;
pub(crate) const NAME_PATTERN: &str = "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+";

#[derive(Debug, Default)]
pub(crate) struct Constraints(Vec<String>);

impl Constraints {
    /// Reports all that was gathered.
    pub(crate) fn finish(self) -> Read<()> {
        match self.0.as_slice() {
            [] => Ok(()),
            [one] => Err(Refusal::Plain(crate::refusal::envelope(one))),
            many => {
                Err(Refusal::Plain(format!("{} validation errors detected: {}", many.len(), many.join("; "))))
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, message: String) {
        if self.0.len() < LISTED_MAX {
            self.0.push(message);
        }
    }

    /// A message that is already whole.
    pub(crate) fn add(&mut self, message: impl Into<String>) {
        self.push(message.into());
    }

    pub(crate) fn extend(&mut self, messages: impl IntoIterator<Item = String>) {
        messages.into_iter().for_each(|message| self.push(message));
    }

    pub(crate) fn broken(&mut self, value: &str, path: &str, rule: &str) {
        self.push(broken(value, path, rule));
    }

    pub(crate) fn null(&mut self, path: &str) {
        self.push(format!("Value null at '{path}' failed to satisfy constraint: Member must not be null"));
    }

    pub(crate) fn present<T>(&mut self, member: &Option<T>, path: &str) {
        if member.is_none() {
            self.null(path);
        }
    }

    pub(crate) fn at_least(&mut self, value: i64, least: i64, path: &str) {
        if value < least {
            let rule = format!("Member must have value greater than or equal to {least}");
            self.broken(&value.to_string(), path, &rule);
        }
    }

    pub(crate) fn at_most(&mut self, value: i64, most: i64, path: &str) {
        if value > most {
            let rule = format!("Member must have value less than or equal to {most}");
            self.broken(&value.to_string(), path, &rule);
        }
    }

    pub(crate) fn one_of(&mut self, value: Option<&str>, path: &str, values: &[&str]) {
        self.extend(outside(value, path, values));
    }

    /// The pattern, then the length: every rule for names that `name` breaks.
    pub(crate) fn name(&mut self, name: &str, path: &str) {
        if !fits_pattern(name) {
            self.broken(name, path, NAME_PATTERN);
        }
        if let Some(rule) = length_rule(name) {
            self.broken(name, path, &rule);
        }
    }

    /// The length of a name that a table knows: of a key, of what expires.
    pub(crate) fn key_name(&mut self, name: Option<&str>, path: &str) {
        let Some(name) = name else { return };
        match name.len() {
            0 => self.broken(name, path, "Member must have length greater than or equal to 1"),
            1..=KEY_NAME_BYTES_MAX => {}
            _ => {
                let rule = format!("Member must have length less than or equal to {KEY_NAME_BYTES_MAX}");
                self.broken(name, path, &rule);
            }
        }
    }

    /// The length of every member of a list of texts.
    pub(crate) fn members(
        &mut self,
        texts: &[String],
        path: &str,
        [least, most]: [usize; 2],
        length: impl Fn(&str) -> usize,
    ) {
        if texts.iter().all(|text| (least..=most).contains(&length(text))) {
            return;
        }
        let rule = format!(
            "Member must satisfy constraint: [Member must have length less than or equal to {most}, Member must \
             have length greater than or equal to {least}]"
        );
        self.broken(&format!("[{}]", texts.join(", ")), path, &rule);
    }

    /// The length, then the pattern.
    pub(crate) fn name_in_transaction(&mut self, name: &str, path: &str) {
        if Arn::table_said(name).is_some() {
            return;
        }
        if let Some(rule) = length_rule(name) {
            self.broken(name, path, &rule);
        }
        if !fits_pattern(name) {
            self.broken(name, path, NAME_PATTERN);
        }
    }
}

pub(crate) fn broken(value: &str, path: &str, rule: &str) -> String {
    let mut shown = Echo::default();
    shown.text(value);
    format!("Value '{}' at '{path}' failed to satisfy constraint: {rule}", shown.finish())
}

/// What is said of a value that is none of `values`.
pub(crate) fn outside(value: Option<&str>, path: &str, values: &[&str]) -> Option<String> {
    let value = value.filter(|value| !values.contains(value))?;
    Some(broken(value, path, &format!("Member must satisfy enum value set: [{}]", values.join(", "))))
}

fn fits_pattern(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

fn length_rule(name: &str) -> Option<String> {
    match name.chars().count() {
        length if length < TABLE_NAME_MIN => {
            Some(format!("Member must have length greater than or equal to {TABLE_NAME_MIN}"))
        }
        length if length > TABLE_NAME_MAX => {
            Some(format!("Member must have length less than or equal to {TABLE_NAME_MAX}"))
        }
        _ => None,
    }
}

/// What is said of an empty table name by the operations on items: alone, ahead of all else.
pub(crate) const EMPTY_TABLE_NAME: &str =
    "Value at 'TableName' failed to satisfy constraint: Member must have length greater than or equal to 1";

/// The first rule that a table name breaks: it is missing, too short or long, or of other letters.
pub(crate) fn first_table_error(name: Option<&str>) -> Option<String> {
    let Some(name) = name else {
        return Some(
            "Value null at 'tableName' failed to satisfy constraint: Member must not be null".into(),
        );
    };
    if Arn::table_said(name).is_some() {
        return None;
    }
    let rule = length_rule(name).or_else(|| (!fits_pattern(name)).then(|| NAME_PATTERN.to_owned()));
    rule.map(|rule| broken(name, "tableName", &rule))
}

/// Refuses an empty table name by itself.
pub(crate) fn check_empty_table_name(name: Option<&str>) -> Read<()> {
    if name == Some("") {
        return Err(Refusal::Plain(crate::refusal::envelope(EMPTY_TABLE_NAME)));
    }
    Ok(())
}

/// The table that a name, or the ARN of a table, stands for, once its constraints have been checked.
pub(crate) fn table_name(name: Option<Cow<'_, str>>) -> Read<TableName> {
    let name = name.unwrap_or_default();
    if let Some(table) = Arn::table_said(&name) {
        return Ok(table);
    }
    TableName::new(name.as_ref())
        .map_err(|_| Refusal::Plain(crate::refusal::envelope(&broken(&name, "tableName", NAME_PATTERN))))
}

pub(crate) fn is_table_name(name: &str) -> bool {
    Arn::table_said(name).is_some() || TableName::new(name).is_ok()
}

/// The table an operation on tables names. These have words of their own for what is wrong with it.
pub(crate) fn described_table(name: Option<Cow<'_, str>>) -> Read<TableName> {
    let name = name.ok_or_else(|| {
        Refusal::plain("The parameter 'TableName' is required but was not present in the request")
    })?;
    if Arn::table_said(&name).is_none() && length_rule(&name).is_some() {
        return Err(Refusal::plain(
            "TableName must be at least 3 characters long and at most 255 characters long",
        ));
    }
    table_name(Some(name))
}

/// The index a Query or Scan names. One that could not exist is told so only once its table is known.
pub(crate) fn index_name(name: Option<Cow<'_, str>>) -> Read<Option<IndexName>> {
    let Some(name) = name else { return Ok(None) };
    match IndexName::new(name.as_ref()) {
        Ok(index) => Ok(Some(index)),
        Err(_) => {
            let mut constraints = Constraints::default();
            constraints.name(&name, "indexName");
            constraints.finish().map(|()| None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: Option<&str>, expected: Option<&str>) {
        assert_eq!(first_table_error(name).as_deref(), expected, "{name:?}");
    }

    #[test]
    fn one_rule_is_reported_for_a_table_name() {
        check(Some("abc"), None);
        check(Some("arn:aws:dynamodb:eu-west-1:1:table/abc"), None);
        check(None, Some("Value null at 'tableName' failed to satisfy constraint: Member must not be null"));
        check(
            Some("a!"),
            Some(
                "Value 'a!' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 3",
            ),
        );
        check(
            Some("ab!"),
            Some(
                "Value 'ab!' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
            ),
        );
    }

    #[test]
    fn broken_constraints_are_gathered_up_to_ten() {
        let mut two = Constraints::default();
        two.null("tableName");
        two.at_least(0, 1, "limit");
        insta::assert_snapshot!(
            format!("{:?}", two.finish().unwrap_err()),
            @r#"Plain("2 validation errors detected: Value null at 'tableName' failed to satisfy constraint: Member must not be null; Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1")"#
        );
        let mut many = Constraints::default();
        (0..12).for_each(|at| many.null(&format!("m{at}")));
        let Err(Refusal::Plain(message)) = many.finish() else { panic!("twelve are broken") };
        assert!(message.starts_with("10 validation errors detected: ") && !message.contains("m10"));
    }
}

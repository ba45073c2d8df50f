//! TransactWriteItems.

use larder_engine::ops::{
    Request, TransactAction, TransactWrite, TransactWriteItems, TransactWriteItemsOutput,
};
use larder_expr::Scope;
use larder_model::limits::TRANSACTION_ITEMS_MAX;

use crate::constraints::{self, Constraints};
use crate::echo::Echo;
use crate::expressions::{Naming, Placeholders, check_not_empty, check_size_told};
use crate::json::{Reader, object};
use crate::members::{
    Attributes, ON_FAILURE, Text, capacity, capacity_error, check_size, collection_metrics_error, request,
};
use crate::refusal::{Read, Refusal, Rules};
use crate::shape;

use super::consumed::{put_all_collection_metrics, put_all_consumed};

const TOKEN_MAX: usize = 36;

/// The four things a transaction can do to an item, in the order they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Put,
    Update,
    Delete,
    Check,
}

const VERBS: [Verb; 4] = [Verb::Put, Verb::Update, Verb::Delete, Verb::Check];

impl Verb {
    fn member(self) -> &'static str {
        match self {
            Self::Put => "Put",
            Self::Update => "Update",
            Self::Delete => "Delete",
            Self::Check => "ConditionCheck",
        }
    }

    /// As it stands in the path of a constraint.
    fn path(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Check => "conditionCheck",
        }
    }

    fn attributes_path(self) -> &'static str {
        if self == Self::Put { "item" } else { "key" }
    }
}

/// One action, whatever its verb.
#[derive(Debug, Default)]
struct Action<'a> {
    table: Text<'a>,
    /// The item of a put, the key of the others.
    attributes: Attributes,
    update: Text<'a>,
    condition: Text<'a>,
    on_failure: Text<'a>,
    placeholders: Placeholders,
}

/// One element of `TransactItems`: by right a single action, in the place of its verb.
type Element<'a> = [Option<Action<'a>>; 4];

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut elements: Option<Vec<Element<'_>>> = None;
    let (mut token, mut units, mut metrics) = (None, None, None);
    request(reader, |reader, name| {
        match &*name {
            "TransactItems" => {
                let mut found = Vec::new();
                let present = shape::list(reader, |reader| {
                    let mut element = Element::default();
                    shape::element(reader, "TransactWriteItem", |reader, member| {
                        match VERBS.into_iter().position(|verb| verb.member() == member) {
                            Some(at) => element[at] = action(reader, VERBS[at], rules)?,
                            None => drop(reader.skip()?),
                        }
                        Ok(())
                    })?;
                    found.push(element);
                    Ok(())
                })?;
                elements = present.then_some(found);
            }
            "ClientRequestToken" => token = shape::owned_text(reader)?,
            "ReturnConsumedCapacity" => units = shape::text(reader)?,
            "ReturnItemCollectionMetrics" => metrics = shape::text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let actions = check_members(elements, token.as_deref(), &units, &metrics)?;

    for (_, action) in &actions {
        action.attributes.flaws.check_deep()?;
        action.placeholders.check_deep()?;
    }
    for (_, action) in &actions {
        action.attributes.flaws.check_names()?;
        action.placeholders.check_names(true)?;
    }
    let mut writes = Vec::with_capacity(actions.len());
    let mut deep_key = Ok(());
    for (verb, action) in actions {
        if deep_key.is_ok() && verb != Verb::Put {
            deep_key = action.attributes.flaws.check_depth();
        }
        writes.push(action.into_write(verb, rules)?);
    }
    // Keys are looked at after all expressions.
    deep_key?;
    Ok(Request::TransactWriteItems(TransactWriteItems {
        writes,
        token,
        capacity: capacity(&units),
        collection_metrics: metrics.as_deref() == Some("SIZE"),
    }))
}

fn action<'a>(reader: &mut Reader<'a>, verb: Verb, rules: Rules) -> Read<Option<Action<'a>>> {
    let mut action = Action::default();
    let attributes = if verb == Verb::Put { "Item" } else { "Key" };
    let present = shape::structure(reader, verb.member(), |reader, member| {
        match &*member {
            "TableName" => action.table = shape::text(reader)?,
            "ConditionExpression" => action.condition = shape::text(reader)?,
            "UpdateExpression" if verb == Verb::Update => action.update = shape::text(reader)?,
            "ReturnValuesOnConditionCheckFailure" => action.on_failure = shape::text(reader)?,
            name if name == attributes => action.attributes = Attributes::read(reader, rules)?,
            name => {
                if !action.placeholders.read(reader, name)? {
                    reader.skip()?;
                }
                action.placeholders.check_read(rules, Naming::Numbers)?;
            }
        }
        Ok(())
    })?;
    Ok(present.then_some(action))
}

fn check_members<'a>(
    elements: Option<Vec<Element<'a>>>,
    token: Option<&str>,
    units: &Text<'_>,
    metrics: &Text<'_>,
) -> Read<Vec<(Verb, Action<'a>)>> {
    let mut constraints = Constraints::default();
    constraints.present(&elements, "transactItems");
    constraints.finish()?;
    let elements = elements.unwrap_or_default();
    check_count(&elements)?;

    let mut constraints = Constraints::default();
    for (at, element) in elements.iter().enumerate() {
        for (verb, action) in VERBS.iter().zip(element) {
            let Some(action) = action else { continue };
            action.check_members(
                &mut constraints,
                *verb,
                &format!("transactItems.{}.member.{}", at + 1, verb.path()),
            );
        }
    }
    check_token(&mut constraints, token);
    constraints.extend(capacity_error(units));
    constraints.extend(collection_metrics_error(metrics));
    constraints.finish()?;

    let mut actions = Vec::with_capacity(elements.len());
    for element in elements {
        let mut given = VERBS.into_iter().zip(element).filter_map(|(verb, action)| Some((verb, action?)));
        match (given.next(), given.next()) {
            (Some(only), None) => actions.push(only),
            (Some(_), Some(_)) => {
                return Err(Refusal::plain(
                    "TransactItems can only contain one of Check, Put, Update or Delete",
                ));
            }
            (None, _) => {
                return Err(Refusal::plain(
                    "Invalid Request: TransactWriteRequest should contain Delete or Put or Update request",
                ));
            }
        }
    }
    let mut constraints = Constraints::default();
    for (at, (verb, action)) in actions.iter().enumerate() {
        let path = format!("transactItems.{}.member.{}.tableName", at + 1, verb.path());
        constraints.name_in_transaction(action.table.as_deref().unwrap_or_default(), &path);
    }
    constraints.finish()?;
    Ok(actions)
}

pub(super) fn check_token(constraints: &mut Constraints, token: Option<&str>) {
    if let Some(token) = token.filter(|token| token.chars().count() > TOKEN_MAX) {
        let rule = format!("Member must have length less than or equal to {TOKEN_MAX}");
        constraints.broken(token, "clientRequestToken", &rule);
    }
    if let Some(token) = token.filter(|token| token.is_empty()) {
        constraints.broken(token, "clientRequestToken", "Member must have length greater than or equal to 1");
    }
}

fn check_count(elements: &[Element<'_>]) -> Read<()> {
    let mut constraints = Constraints::default();
    if elements.is_empty() {
        constraints.broken("[]", "transactItems", "Member must have length greater than or equal to 1");
    } else if elements.len() > TRANSACTION_ITEMS_MAX {
        let rule = "Member must have length less than or equal to 100";
        constraints.broken(&echo(elements), "transactItems", rule);
    }
    constraints.finish()
}

fn echo(elements: &[Element<'_>]) -> String {
    let mut echo = Echo::default();
    let action = |echo: &mut Echo, action: &Option<Action<'_>>, verb: Verb| {
        let Some(action) = action else { return echo.text("null") };
        echo.text(&format!("{}({}=", verb.member(), verb.attributes_path()));
        action.attributes.item.iter().for_each(|item| echo.item(item));
        if verb == Verb::Update {
            echo.text(", updateExpression=");
            echo.option(action.update.as_deref());
        }
        echo.text(", tableName=");
        echo.option(action.table.as_deref());
        echo.text(", conditionExpression=");
        echo.option(action.condition.as_deref());
        echo.text(", expressionAttributeNames=");
        echo.names(action.placeholders.names.as_ref());
        echo.text(", expressionAttributeValues=");
        echo.values(action.placeholders.values.as_ref());
        echo.text(", returnValuesOnConditionCheckFailure=");
        echo.option(action.on_failure.as_deref());
        echo.text(", workloadProfileName=null)");
    };
    echo.list(elements, |echo, [put, update, delete, check]| {
        echo.text("TransactWriteItem(conditionCheck=");
        action(echo, check, Verb::Check);
        echo.text(", put=");
        action(echo, put, Verb::Put);
        echo.text(", delete=");
        action(echo, delete, Verb::Delete);
        echo.text(", update=");
        action(echo, update, Verb::Update);
        echo.text(")");
    });
    echo.finish()
}

impl Action<'_> {
    fn check_members(&self, constraints: &mut Constraints, verb: Verb, path: &str) {
        constraints.present(&self.attributes.item, &format!("{path}.{}", verb.attributes_path()));
        constraints.present(&self.table, &format!("{path}.tableName"));
        if verb == Verb::Update {
            constraints.present(&self.update, &format!("{path}.updateExpression"));
        }
        if verb == Verb::Check {
            constraints.present(&self.condition, &format!("{path}.conditionExpression"));
        }
        let on_failure = format!("{path}.returnValuesOnConditionCheckFailure");
        constraints.one_of(self.on_failure.as_deref(), &on_failure, &ON_FAILURE);
    }

    fn into_write(mut self, verb: Verb, rules: Rules) -> Read<TransactWrite> {
        self.attributes.flaws.check_sets(rules)?;
        self.placeholders.check_sets_in_transaction(rules)?;
        self.placeholders.check_depth_in_transaction()?;
        let attributes = self.attributes.item.unwrap_or_default();
        if verb == Verb::Put {
            self.attributes.flaws.check_depth()?;
            check_size_told("ConditionExpression", &self.condition)?;
            check_size(&attributes)?;
        }
        check_not_empty("UpdateExpression", &self.update)?;
        check_not_empty("ConditionExpression", &self.condition)?;
        // Placeholders that no expression could use are let be.
        let is_used = self.update.is_some() || self.condition.is_some();
        let mut scope = if is_used { self.placeholders.take_scope()? } else { Scope::default() };
        let update = self.update.map(|text| scope.update(&text)).transpose()?;
        check_size_told("ConditionExpression", &self.condition)?;
        let condition = self.condition.map(|text| scope.condition(&text)).transpose()?;
        scope.finish()?;
        let action = match verb {
            Verb::Put => TransactAction::Put { item: attributes },
            Verb::Update => TransactAction::Update { key: attributes, update: update.unwrap_or_default() },
            Verb::Delete => TransactAction::Delete { key: attributes },
            Verb::Check => TransactAction::Check { key: attributes },
        };
        Ok(TransactWrite {
            table: constraints::table_name(self.table)?,
            action,
            condition,
            return_old_on_failure: self.on_failure.as_deref() == Some("ALL_OLD"),
        })
    }
}

pub(super) fn encode(out: &mut Vec<u8>, output: &TransactWriteItemsOutput) {
    object(out, |answer| {
        put_all_consumed(answer, &output.consumed);
        put_all_collection_metrics(answer, &output.collection_metrics);
    });
}

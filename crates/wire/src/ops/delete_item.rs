//! DeleteItem.

use larder_engine::ops::{DeleteItem, Request};

use crate::expressions::Naming;
use crate::json::Reader;
use crate::members::{Attributes, OLD_OR_NONE, SingleWrite, request};
use crate::refusal::{Read, Rules};

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut write = SingleWrite::default();
    let mut key = Attributes::default();
    request(reader, |reader, name| match &*name {
        "Key" => {
            key = Attributes::read(reader, rules)?;
            Ok(())
        }
        _ => write.read(reader, &name),
    })?;
    let mut constraints = write.constraints(&key, "key")?;
    // Alone of the three it refuses this as a constraint, and only beside a key.
    if key.item.is_some() && write.return_values_error().is_none() && !write.returns_old_or_nothing() {
        constraints.add(OLD_OR_NONE);
    }
    constraints.finish()?;

    write.check_names(&key.flaws, None)?;
    write.placeholders.check_use(&write.parameters(false, false))?;
    let mut scope = std::mem::take(&mut write.placeholders).scope(rules, Naming::All)?;
    write.check_conditional_operator()?;
    key.check_key(rules)?;
    let condition = write.condition(&mut scope)?;
    let expected = write.expected(rules)?;
    scope.finish()?;

    let (table, options) = write.into_options(condition.or(expected))?;
    Ok(Request::DeleteItem(DeleteItem { table, key: key.item.unwrap_or_default(), options }))
}

//! PutItem.

use larder_engine::ops::{PutItem, Request};

use crate::expressions::Naming;
use crate::json::Reader;
use crate::members::{Attributes, OLD_OR_NONE, SingleWrite, check_size, request};
use crate::refusal::{Read, Refusal, Rules};

pub(super) fn decode(reader: &mut Reader<'_>, rules: Rules) -> Read<Request> {
    let mut write = SingleWrite::default();
    let mut item = Attributes::default();
    request(reader, |reader, name| match &*name {
        "Item" => {
            item = Attributes::read(reader, rules)?;
            Ok(())
        }
        _ => {
            write.read(reader, &name)?;
            write.placeholders.check_read(rules, Naming::Never)
        }
    })?;
    write.constraints(&item, "item")?.finish()?;

    write.check_names(&item.flaws, None)?;
    item.flaws.check_sets(rules)?;
    item.flaws.check_depth()?;
    write.placeholders.check_use(&write.parameters(false, false))?;
    let mut scope = std::mem::take(&mut write.placeholders).scope(rules, Naming::Never)?;
    write.check_conditional_operator()?;
    let expected = write.expected(rules)?;
    let condition = write.condition(&mut scope)?;
    if !write.returns_old_or_nothing() {
        return Err(Refusal::enveloped(OLD_OR_NONE));
    }
    let item = item.item.unwrap_or_default();
    check_size(&item)?;
    scope.finish()?;

    let (table, options) = write.into_options(condition.or(expected))?;
    Ok(Request::PutItem(PutItem { table, item, options }))
}

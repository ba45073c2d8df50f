//! UpdateTimeToLive, and both answers about expiry.

use larder_engine::ops::{Request, TimeToLive, UpdateTimeToLive};

use crate::constraints::{Constraints, described_table};
use crate::json::{Object, Reader, object};
use crate::members::request;
use crate::refusal::Read;
use crate::shape;

pub(super) fn decode(reader: &mut Reader<'_>) -> Read<Request> {
    let mut table = None;
    let mut is_specified = false;
    let (mut attribute, mut enabled) = (None, None);
    request(reader, |reader, name| {
        match &*name {
            "TableName" => table = shape::text(reader)?,
            "TimeToLiveSpecification" => {
                is_specified = shape::structure(reader, "TimeToLiveSpecification", |reader, member| {
                    match &*member {
                        "AttributeName" => attribute = shape::owned_text(reader)?,
                        "Enabled" => enabled = shape::boolean(reader)?,
                        _ => drop(reader.skip()?),
                    }
                    Ok(())
                })?;
            }
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let table = described_table(table)?;
    let mut constraints = Constraints::default();
    if is_specified {
        constraints.present(&enabled, "timeToLiveSpecification.enabled");
        constraints.present(&attribute, "timeToLiveSpecification.attributeName");
        constraints.key_name(attribute.as_deref(), "timeToLiveSpecification.attributeName");
    } else {
        constraints.null("timeToLiveSpecification");
    }
    constraints.finish()?;
    Ok(Request::UpdateTimeToLive(UpdateTimeToLive {
        table,
        attribute: attribute.unwrap_or_default(),
        enabled: enabled.unwrap_or(false),
    }))
}

pub(super) fn encode_update(out: &mut Vec<u8>, set: &UpdateTimeToLive) {
    object(out, |answer| {
        answer.object("TimeToLiveSpecification", |specification| {
            specification.boolean("Enabled", set.enabled);
            specification.string("AttributeName", &set.attribute);
        });
    });
}

pub(super) fn encode(out: &mut Vec<u8>, state: &TimeToLive) {
    object(out, |answer| put_time_to_live(answer, state));
}

pub(super) fn put_time_to_live(answer: &mut Object<'_>, state: &TimeToLive) {
    answer.object("TimeToLiveDescription", |description| match state {
        TimeToLive::Enabled(attribute) => {
            description.string("AttributeName", attribute);
            description.string("TimeToLiveStatus", "ENABLED");
        }
        TimeToLive::Disabled => description.string("TimeToLiveStatus", "DISABLED"),
    });
}

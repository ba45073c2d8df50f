//! TagResource, UntagResource and ListTagsOfResource.

use larder_engine::ops::{ListTagsOfResource, Request, TagResource, UntagResource};
use larder_model::{Arn, TableName, Tags};

use crate::json::{Reader, list, object};
use crate::members::{Text, request};
use crate::refusal::{Read, Refusal};
use crate::shape;

const KEY_MAX: usize = 128;
const VALUE_MAX: usize = 256;

/// A tag as it was given.
#[derive(Debug, Default)]
pub(super) struct Tag {
    key: Option<String>,
    value: Option<String>,
}

pub(super) fn decode(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut arn, mut found) = (None, None);
    request(reader, |reader, name| {
        match &*name {
            "ResourceArn" => arn = shape::text(reader)?,
            "Tags" => found = tags(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let table = tagged(&arn)?;
    if found.as_ref().is_none_or(Vec::is_empty) {
        return Err(Refusal::plain("Atleast one Tag needs to be provided as Input."));
    }
    check_tags(found.as_deref().unwrap_or_default())?;
    Ok(Request::TagResource(TagResource { table, tags: pairs(found) }))
}

pub(super) fn decode_untag(reader: &mut Reader<'_>) -> Read<Request> {
    let (mut arn, mut keys) = (None, None);
    request(reader, |reader, name| {
        match &*name {
            "ResourceArn" => arn = shape::text(reader)?,
            "TagKeys" => keys = shape::texts(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let table = tagged(&arn)?;
    let keys = keys.unwrap_or_default();
    if keys.is_empty() {
        return Err(Refusal::plain("Atleast one Tag Key needs to be provided as Input."));
    }
    Ok(Request::UntagResource(UntagResource { table, keys }))
}

pub(super) fn decode_list(reader: &mut Reader<'_>) -> Read<Request> {
    let mut arn = None;
    request(reader, |reader, name| {
        match &*name {
            "ResourceArn" => arn = shape::text(reader)?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    Ok(Request::ListTagsOfResource(ListTagsOfResource { table: tagged(&arn)? }))
}

/// The table an ARN names.
fn tagged(arn: &Text<'_>) -> Read<TableName> {
    match arn.as_deref() {
        None | Some("") => Err(Refusal::plain("Invalid TableArn")),
        Some(arn) => Arn::table_said(arn).ok_or_else(|| {
            Refusal::Plain(format!("Invalid TableArn: Invalid ResourceArn provided as input {arn}"))
        }),
    }
}

pub(super) fn tags(reader: &mut Reader<'_>) -> Read<Option<Vec<Tag>>> {
    let mut found = Vec::new();
    let present = shape::list(reader, |reader| {
        let mut tag = Tag::default();
        shape::element(reader, "Tag", |reader, member| {
            match &*member {
                "Key" => tag.key = shape::owned_text(reader)?,
                "Value" => tag.value = shape::owned_text(reader)?,
                _ => drop(reader.skip()?),
            }
            Ok(())
        })?;
        found.push(tag);
        Ok(())
    })?;
    Ok(present.then_some(found))
}

pub(super) fn check_tags(tags: &[Tag]) -> Read<()> {
    for tag in tags {
        let length = |text: &Option<String>| text.as_ref().map_or(0, |text| text.chars().count());
        if !(1..=KEY_MAX).contains(&length(&tag.key)) {
            return Err(invalid("Tag key must be between 1 and 128 characters"));
        }
        if length(&tag.value) > VALUE_MAX {
            return Err(invalid("Tag value must be between 0 and 256 characters"));
        }
    }
    Ok(())
}

fn invalid(cause: &str) -> Refusal {
    Refusal::Plain(format!("One or more parameter values were invalid: {cause}"))
}

pub(super) fn pairs(tags: Option<Vec<Tag>>) -> Vec<(String, String)> {
    let pair = |tag: Tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default());
    tags.into_iter().flatten().map(pair).collect()
}

pub(super) fn encode_list(out: &mut Vec<u8>, tags: &Tags) {
    object(out, |answer| {
        list(answer.member("Tags"), tags, |out, (key, value)| {
            object(out, |tag| {
                tag.string("Key", key);
                tag.string("Value", value);
            });
        });
    });
}

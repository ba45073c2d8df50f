//! TagResource, UntagResource and ListTagsOfResource.

use std::borrow::Cow;

use larder_engine::ops::{ListTagsOfResource, Request, TagResource, UntagResource};
use larder_model::{Arn, TableName, Tags};

use crate::constraints::Constraints;
use crate::json::{Reader, list, object};
use crate::members::{Text, request};
use crate::refusal::{Read, Refusal};
use crate::shape;

use super::streams::check_length;

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
    let arn = resource(&arn, "TagResource")?;
    let mut constraints = Constraints::default();
    constraints.present(&found, "tags");
    check_tags(&mut constraints, found.as_deref().unwrap_or_default());
    constraints.finish()?;
    let table = tagged(arn)?;
    if found.as_ref().is_none_or(Vec::is_empty) {
        return Err(Refusal::plain("Atleast one Tag needs to be provided as Input."));
    }
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
    let arn = resource(&arn, "UntagResource")?;
    let mut constraints = Constraints::default();
    constraints.present(&keys, "tagKeys");
    let given = keys.as_deref().unwrap_or_default();
    constraints.members(given, "tagKeys", [1, KEY_MAX], |key| key.chars().count());
    constraints.finish()?;
    let table = tagged(arn)?;
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
    let table = tagged(resource(&arn, "ListTagsOfResource")?)?;
    Ok(Request::ListTagsOfResource(ListTagsOfResource { table }))
}

/// The resource that is meant. What could be no ARN, or is one of another service's, nobody is told of: they may not.
fn resource<'a>(arn: &'a Text<'_>, operation: &'static str) -> Read<&'a str> {
    let arn =
        arn.as_deref().filter(|arn| !arn.is_empty()).ok_or_else(|| Refusal::plain("Invalid TableArn"))?;
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let is_one = match parts.as_slice() {
        ["arn", _, service, _, _, _] if *service != "dynamodb" => false,
        [head @ .., resource] if head.len() == 5 => {
            let named =
                resource.split_once('/').is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty());
            named && head.iter().all(|part| !part.is_empty())
        }
        _ => false,
    };
    if is_one { Ok(arn) } else { Err(Refusal::Concealed(operation, arn.to_owned())) }
}

/// The table an ARN names.
fn tagged(arn: &str) -> Read<TableName> {
    Arn::table_said(arn).ok_or_else(|| {
        Refusal::Plain(format!("Invalid TableArn: Invalid ResourceArn provided as input {arn}"))
    })
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

/// A tag has a key and a value, if perhaps an empty one.
pub(super) fn check_tags(constraints: &mut Constraints, tags: &[Tag]) {
    for (at, tag) in tags.iter().enumerate() {
        for (text, member, least, most) in
            [(&tag.key, "key", 1, KEY_MAX), (&tag.value, "value", 0, VALUE_MAX)]
        {
            let path = format!("tags.{}.member.{member}", at + 1);
            constraints.present(text, &path);
            check_length(constraints, &text.as_deref().map(Cow::from), &path, [least, most]);
        }
    }
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

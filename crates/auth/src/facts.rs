//! What is known of a request, by the names that policies use: `aws:…` of whoever asks and how, `dynamodb:…` of what is
//! asked for.
//!
//! Nothing is worked out before a policy asks for it: most ask for little, and a batch has many keys.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use larder_expr::SortTest;
use larder_model::{AttributeValue, KeySchema, TableDefinition, TableName, UnixTime};
use larder_ops::StreamId;
use larder_partiql::{Access, leading_values};

use crate::actions::Need;
use crate::policy::{Facts, Policy};
use crate::resource::{Place, Resource};
use crate::time::to_extended;
use crate::{Caller, Principal};

/// How a request reached us.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    pub now: UnixTime,
    pub source_ip: Option<IpAddr>,
    /// Over TLS.
    pub secure: bool,
    pub user_agent: Option<&'a str>,
}

/// What is known of tables: their keys and tags, and the policies they have.
pub trait Tables {
    fn definition(&self, table: &TableName) -> Option<Arc<TableDefinition>>;
    fn table_policy(&self, table: &TableName) -> Option<Arc<Policy>>;
    fn stream_policy(&self, stream: &StreamId) -> Option<Arc<Policy>>;
}

/// Where nothing is asked about tables.
pub(crate) struct NoTables;

impl Tables for NoTables {
    fn definition(&self, _: &TableName) -> Option<Arc<TableDefinition>> {
        None
    }

    fn table_policy(&self, _: &TableName) -> Option<Arc<Policy>> {
        None
    }

    fn stream_policy(&self, _: &StreamId) -> Option<Arc<Policy>> {
        None
    }
}

/// The facts of one permission that a request needs.
pub(crate) struct Known<'a> {
    pub(crate) caller: &'a Caller<'a>,
    pub(crate) circumstances: &'a Circumstances<'a>,
    pub(crate) need: &'a Need<'a>,
    pub(crate) place: Place<'a>,
    pub(crate) tables: &'a dyn Tables,
}

/// What policies see of a user agent at most: a client can send any, and policies are asked for each item of a request.
const USER_AGENT_BYTES_MAX: usize = 512;

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(USER_AGENT_BYTES_MAX)]
}

impl Facts for Known<'_> {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        let one = |text: &str| Some(vec![text.to_owned()]);
        let touched = &self.need.touched;
        let circumstances = self.circumstances;
        if let Some(known) = self.caller.principal.fact(key) {
            return Some(known);
        }
        match key {
            "aws:requestedregion" => one(&self.caller.region),
            "aws:resourceaccount" => one(self.need.resource.account(self.place)),
            "aws:currenttime" => Some(vec![to_extended(circumstances.now)]),
            "aws:epochtime" => Some(vec![circumstances.now.seconds().to_string()]),
            "aws:securetransport" => Some(vec![circumstances.secure.to_string()]),
            "aws:sourceip" => circumstances.source_ip.map(|address| vec![address.to_canonical().to_string()]),
            "aws:useragent" => circumstances.user_agent.map(beginning).and_then(one),
            "aws:tagkeys" => {
                let keys = touched.tags.iter().map(|(key, _)| key).chain(touched.tag_keys);
                some(keys.cloned().collect())
            }
            "dynamodb:leadingkeys" | "dynamodb:firstpartitionkeyvalues" => self.partition_values(0),
            "dynamodb:secondpartitionkeyvalues" => self.partition_values(1),
            "dynamodb:thirdpartitionkeyvalues" => self.partition_values(2),
            "dynamodb:fourthpartitionkeyvalues" => self.partition_values(3),
            "dynamodb:attributes" => some(self.attributes().into_iter().map(str::to_owned).collect()),
            "dynamodb:fulltablescan" => Some(vec![self.is_full_scan()?.to_string()]),
            "dynamodb:select" => touched.select.and_then(one),
            "dynamodb:returnvalues" => touched.return_values.and_then(one),
            "dynamodb:returnconsumedcapacity" => touched.capacity.and_then(one),
            "dynamodb:enclosingoperation" => touched.enclosing.and_then(one),
            _ => self.tag(key),
        }
    }
}

impl Principal {
    /// What is known of somebody whatever they ask for, by the names that policies use, in lower case.
    pub fn fact(&self, key: &str) -> Option<Vec<String>> {
        let value = match key {
            "aws:username" => self.name.clone(),
            "aws:userid" => self.id(),
            "aws:principalarn" => self.arn(),
            "aws:principalaccount" => self.account.clone(),
            "aws:principaltype" => "User".to_owned(),
            // Whoever signs here is nobody's service.
            "aws:viaawsservice" | "aws:principalisawsservice" => "false".to_owned(),
            _ => return tagged(&self.tags, key.strip_prefix("aws:principaltag/")?),
        };
        Some(vec![value])
    }
}

impl Known<'_> {
    fn tag(&self, key: &str) -> Option<Vec<String>> {
        let (prefix, tag) = key.split_once('/')?;
        match prefix {
            "aws:resourcetag" => tagged(&self.definition()?.tags, tag),
            "aws:requesttag" => tagged(self.need.touched.tags.iter().map(|(name, value)| (name, value)), tag),
            _ => None,
        }
    }

    fn definition(&self) -> Option<Arc<TableDefinition>> {
        self.tables.definition(self.need.resource.table()?)
    }

    /// The key of a table, or of the index of it that is searched.
    fn key_of<'t>(&self, table: &'t TableDefinition) -> Option<&'t KeySchema> {
        match &self.need.resource {
            Resource::Index(_, name) => Some(&table.indexes.iter().find(|index| index.name == **name)?.key),
            _ => Some(&table.key),
        }
    }

    /// Whether a SELECT is a scan. One that cannot be carried out is taken for one.
    fn is_full_scan(&self) -> Option<bool> {
        let select = self.need.touched.selected?;
        let table = self.definition()?;
        let planned = larder_partiql::plan(select, self.key_of(&table)?);
        Some(!matches!(planned, Ok(Access::Get(_) | Access::Query { .. })))
    }

    /// The values of one attribute of the partition key, of the table or of the index that is searched.
    fn partition_values(&self, at: usize) -> Option<Vec<String>> {
        let table = self.definition()?;
        let key = self.key_of(&table)?;
        let attribute = &key.partition.get(at)?.name;
        let touched = &self.need.touched;
        let of_items = touched.items.iter().filter_map(|item| item.get(attribute));
        let tests = touched.key_condition.iter().flat_map(|condition| &condition.tests);
        let of_tests =
            tests.filter(|test| *test.attribute == **attribute).filter_map(|test| match &test.test {
                SortTest::Equal(value) => Some(&**value),
                _ => None,
            });
        let condition = touched.condition.filter(|_| touched.is_statement);
        let of_condition = condition.iter().flat_map(|condition| leading_values(condition, attribute));
        some(of_items.chain(of_tests).chain(of_condition).filter_map(text_of).collect())
    }

    /// The attributes that the request names, at the top level.
    fn attributes(&self) -> BTreeSet<&str> {
        let touched = &self.need.touched;
        let mut names: BTreeSet<&str> = touched.items.iter().flat_map(|item| item.names()).collect();
        let tests = touched.key_condition.iter().flat_map(|condition| &condition.tests);
        names.extend(tests.map(|test| &*test.attribute));
        names
            .extend(touched.condition.iter().flat_map(|condition| condition.paths()).map(|path| &*path.root));
        names.extend(
            touched.projection.iter().flat_map(|projection| &projection.paths).map(|path| &*path.root),
        );
        let columns = touched.selected.and_then(|select| select.columns.as_ref());
        names.extend(columns.iter().flat_map(|columns| &columns.0).map(|column| &*column.path.root));
        if let Some(update) = touched.update {
            names.extend(update.paths().map(|path| &*path.root));
            names.extend(update.read_paths().map(|path| &*path.root));
        }
        names
    }
}

/// The value of a tag, whose name is in lower case: capitals do not count in condition keys.
fn tagged<'a>(tags: impl IntoIterator<Item = (&'a String, &'a String)>, tag: &str) -> Option<Vec<String>> {
    let found = tags.into_iter().find(|(name, _)| name.to_lowercase() == tag);
    found.map(|(_, value)| vec![value.clone()])
}

/// An empty list is no fact.
fn some(values: Vec<String>) -> Option<Vec<String>> {
    (!values.is_empty()).then_some(values)
}

/// A key's value as policies write it.
fn text_of(value: &AttributeValue) -> Option<String> {
    match value {
        AttributeValue::S(text) => Some(text.to_string()),
        AttributeValue::N(number) => Some(number.to_string()),
        AttributeValue::B(bytes) => Some(BASE64.encode(bytes)),
        _ => None,
    }
}

//! The checked schema: nothing in it can be wrong.
//!
//! Every name in it has been found, every template can be read back, every equation has a type and an order.
//! It holds no environment: names of tables and the values of params are asked for with one
//! ([`Schema::tables`], [`Param::value`]), so one schema serves every stage.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use larder_model::{KeyType, Number, TableDefinition};

use crate::equation::Expr;
use crate::template::Template;
use crate::value::Value;

/// Values by the names the schema gives them.
pub type Fields = BTreeMap<String, Value>;

#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub system: String,
    pub docs: Vec<String>,
    pub naming: Naming,
    pub version: Option<Version>,
    pub params: Vec<Param>,
    pub types: Vec<TypeDefinition>,
    pub sources: Vec<Source>,
    pub store: StoreLimits,
    pub tables: Vec<Table>,
    pub grants: Vec<Grant>,
    pub alarms: Vec<Alarm>,
    /// Dollars a month at which somebody is told.
    pub budgets: Vec<Number>,
    pub workload: Option<Workload>,
    pub metrics: Option<Metrics>,
}

/// How a field's name becomes the stored one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// As written.
    #[default]
    Same,
    Camel,
    Pascal,
}

impl Naming {
    pub fn stored(self, name: &str) -> String {
        match self {
            Self::Same => name.to_owned(),
            Self::Camel => recased(name, false),
            Self::Pascal => recased(name, true),
        }
    }
}

fn recased(name: &str, mut upper: bool) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, c) in name.chars().enumerate() {
        if c == '_' && at > 0 {
            upper = true;
        } else if upper {
            out.push(c.to_ascii_uppercase());
            upper = false;
        } else {
            out.push(c);
        }
    }
    out
}

/// A breaking change makes a new version; the tables of the old one are kept a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub number: u32,
    pub keep_millis: Option<i64>,
}

/// What the surroundings say: the process environment, or whatever stands in for it.
pub type Environment = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub name: String,
    pub docs: Vec<String>,
    pub kind: ParamKind,
    pub default: Value,
    /// The environment variable it is read from.
    pub variable: Option<String>,
    /// What a bare number in that variable counts.
    pub unit: Option<Unit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    String,
    Int,
    Bool,
    Duration,
}

impl ParamKind {
    pub const ALL: [Self; 4] = [Self::String, Self::Int, Self::Bool, Self::Duration];

    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Int => "int",
            Self::Bool => "bool",
            Self::Duration => "duration",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Milliseconds,
    Seconds,
    Minutes,
    Hours,
    Days,
}

impl Unit {
    pub const ALL: [Self; 5] = [Self::Milliseconds, Self::Seconds, Self::Minutes, Self::Hours, Self::Days];

    pub fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "milliseconds",
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
            Self::Days => "days",
        }
    }

    pub fn millis(self) -> i64 {
        match self {
            Self::Milliseconds => 1,
            Self::Seconds => 1000,
            Self::Minutes => 60_000,
            Self::Hours => 3_600_000,
            Self::Days => 86_400_000,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct TypeDefinition {
    pub name: String,
    pub docs: Vec<String>,
    pub fields: Vec<Field>,
    /// Keeps attributes it does not know.
    pub open: bool,
}

/// Where data comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    pub name: String,
    pub docs: Vec<String>,
    /// Dollars a call.
    pub cost: Option<Number>,
    pub latency_millis: Option<(i64, i64)>,
    pub pace: Option<Pace>,
    pub retry: Option<Retry>,
    /// Soft: the stale value is given when there is one. Hard: the call is given up.
    pub timeout_millis: Option<(i64, i64)>,
    pub breaker: Option<Breaker>,
}

/// At most so many calls in so long a time, and so many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    pub calls: u32,
    pub per_millis: i64,
    pub burst: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    pub attempts: u32,
    /// The first and the longest pause; each is twice the one before.
    pub backoff_millis: (i64, i64),
}

/// After so many failures in a row a source or a store is left alone for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breaker {
    pub failures: u32,
    pub rest_millis: i64,
}

/// How long a store is waited for, how often it is tried again, and when it is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Short: what a cached read waits, which can go on without the store. Long: all that cannot.
    pub timeout_millis: (i64, i64),
    pub retry: Retry,
    /// Where the schema says nothing, a store in the process is never left alone: failing costs it no time.
    pub breaker: Option<Breaker>,
}

impl StoreLimits {
    /// For a store that is reached over a network, unless the schema says otherwise.
    pub const BREAKER: Breaker = Breaker { failures: 5, rest_millis: 5000 };
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            timeout_millis: (300, 10_000),
            retry: Retry { attempts: 4, backoff_millis: (25, 1000) },
            breaker: None,
        }
    }
}

/// A value written with params in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamText(pub Vec<ParamPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamPart {
    Text(String),
    Param(String),
}

impl ParamText {
    pub fn text(text: &str) -> Self {
        Self(vec![ParamPart::Text(text.to_owned())])
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What the schema calls it.
    pub name: String,
    pub docs: Vec<String>,
    /// What the store calls it.
    pub stored_name: ParamText,
    pub region: Option<String>,
    pub partition: KeyAttribute,
    pub sort: Option<KeyAttribute>,
    pub ttl: Option<TtlAttribute>,
    pub billing: Billing,
    pub pitr: Option<Pitr>,
    pub encryption: Encryption,
    pub on_delete: OnDelete,
    pub class: TableClass,
    pub stream: Option<StreamView>,
    /// It holds its entities and nothing else.
    pub strict: bool,
    pub tags: Vec<(String, ParamText)>,
    pub indexes: Vec<Index>,
    pub entities: Vec<Entity>,
    pub collections: Vec<Collection>,
}

/// A key attribute of a table or index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAttribute {
    /// What the schema calls it.
    pub name: String,
    /// What the store calls it.
    pub attribute: String,
    pub kind: KeyType,
}

/// The attribute that says, in Unix seconds, when an item ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TtlAttribute {
    pub name: String,
    pub attribute: String,
}

pub use larder_model::{StreamView, TableClass};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Billing {
    #[default]
    OnDemand,
    Provisioned {
        read: u32,
        write: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pitr {
    pub days: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    #[default]
    AwsOwned,
    AwsManaged,
    Kms(String),
}

/// What happens to a table that the schema no longer names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDelete {
    /// It stays, protected, until somebody says otherwise.
    Retain,
    /// It may go, once that has been shown and confirmed.
    #[default]
    Delete,
}

impl OnDelete {
    /// The word for it in a schema, and in a tag.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retain => "retain",
            Self::Delete => "delete",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// What the store calls it.
    pub name: String,
    /// What programs call it.
    pub alias: String,
    pub docs: Vec<String>,
    pub partition: Vec<KeyAttribute>,
    pub sort: Vec<KeyAttribute>,
    pub projection: Projection,
    /// Few partition values are meant to be.
    pub hot: bool,
}

impl Index {
    /// Whether it has this attribute of the items of its table: by its key, the table's, or what it projects.
    pub fn holds(&self, table: &Table, attribute: &str) -> bool {
        let of_table = std::iter::once(&table.partition).chain(table.sort.as_ref());
        let mut keys = of_table.chain(&self.partition).chain(&self.sort);
        let is_key = keys.any(|key| key.attribute == attribute);
        match &self.projection {
            Projection::All => true,
            Projection::Keys => is_key,
            Projection::Include(names) => is_key || names.iter().any(|name| name == attribute),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projection {
    All,
    Keys,
    /// Stored names.
    Include(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entity {
    pub name: String,
    pub docs: Vec<String>,
    pub source: Option<String>,
    pub partition: KeySource,
    pub sort: Option<KeySource>,
    pub ttl: Option<Ttl>,
    pub policy: Policy,
    pub fields: Vec<Field>,
    /// The fields that are computed, by place in `fields`, each after what it needs.
    pub order: Vec<usize>,
    pub lifecycles: Vec<Lifecycle>,
}

impl Entity {
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub fn lifecycle(&self, name: &str) -> Option<&Lifecycle> {
        self.lifecycles.iter().find(|lifecycle| lifecycle.name == name)
    }
}

/// How an entity fills a key attribute of its table.
#[derive(Clone, Debug, PartialEq)]
pub enum KeySource {
    Template(Template),
    /// The field of the attribute's own name.
    Field(String),
}

/// How long an item of an entity lives.
#[derive(Clone, Debug, PartialEq)]
pub enum Ttl {
    After {
        millis: i64,
    },
    /// A param of type `duration`.
    Param(String),
    /// The record says how long: a duration, or the moment itself.
    Value(Expr),
}

/// A named value of an entity or type.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    /// What the store calls it, if it is stored.
    pub attribute: String,
    pub docs: Vec<String>,
    pub role: Role,
    pub kind: Type,
    pub optional: bool,
    pub checks: Checks,
    pub equation: Option<Expr>,
    /// The equation is worked out once, when the item is made.
    pub on_create: bool,
}

impl Field {
    pub fn is_stored(&self) -> bool {
        self.role == Role::Stored
    }

    pub fn is_given(&self) -> bool {
        self.equation.is_none()
    }
}

pub use crate::ast::Role;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    String,
    Int,
    Float,
    Decimal,
    Bool,
    Bytes,
    Json,
    Uuid {
        v4: bool,
    },
    Url,
    Date,
    Datetime,
    Duration,
    Instant(Precision),
    Sequence,
    Epoch,
    List(Box<Of>),
    /// Its values are lists in which nothing is twice. DynamoDB keeps no empty set, so one without members is left out.
    Set(Box<Type>),
    /// From texts to values.
    Map(Box<Of>),
    Choice(Vec<String>),
    Named(String),
    /// An instant seen from a place. It is never stored.
    Zoned,
}

/// What a list or a map holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Of {
    pub kind: Type,
    pub optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    Seconds,
    Millis,
    Micros,
}

impl Type {
    pub const NAMES: [&str; 17] = [
        "string", "int", "float", "decimal", "bool", "bytes", "json", "uuid", "url", "date", "datetime",
        "duration", "instant", "sequence", "epoch", "set", "map",
    ];

    /// The type of a key that holds it, if a key can.
    pub fn key_type(&self) -> Option<KeyType> {
        match self {
            Self::String
            | Self::Uuid { .. }
            | Self::Url
            | Self::Date
            | Self::Datetime
            | Self::Instant(_)
            | Self::Choice(_) => Some(KeyType::S),
            Self::Int | Self::Float | Self::Decimal | Self::Duration | Self::Sequence | Self::Epoch => {
                Some(KeyType::N)
            }
            Self::Bytes => Some(KeyType::B),
            Self::Bool
            | Self::Json
            | Self::List(_)
            | Self::Set(_)
            | Self::Map(_)
            | Self::Named(_)
            | Self::Zoned => None,
        }
    }

    /// Whether sets may hold it: it has a stored form that DynamoDB keeps in sets, and one that tells equal from not.
    pub fn fits_in_set(&self) -> bool {
        self.key_type().is_some() && !matches!(self, Self::Float | Self::Sequence)
    }

    /// Whether each member may be something else where a record is kept with its faults. What is in a set is of one type.
    pub fn holds_loosely(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_))
    }

    /// What a list, set or map holds.
    pub fn member(&self) -> Option<&Self> {
        match self {
            Self::List(of) | Self::Map(of) => Some(&of.kind),
            Self::Set(of) => Some(of),
            _ => None,
        }
    }

    pub fn is_text(&self) -> bool {
        matches!(self, Self::String | Self::Uuid { .. } | Self::Url | Self::Choice(_))
    }

    pub fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Float | Self::Decimal | Self::Sequence)
    }

    /// What DynamoDB calls the stored form.
    pub fn stored_type(&self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::List(_) => "L",
            Self::Set(of) => match of.key_type() {
                Some(KeyType::N) => "NS",
                Some(KeyType::B) => "BS",
                Some(KeyType::S) | None => "SS",
            },
            Self::Map(_) | Self::Named(_) => "M",
            Self::Json => "any",
            Self::Zoned => "-",
            other => other.key_type().map_or("-", KeyType::name),
        }
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::String => f.write_str("string"),
            Self::Int => f.write_str("int"),
            Self::Float => f.write_str("float"),
            Self::Decimal => f.write_str("decimal"),
            Self::Bool => f.write_str("bool"),
            Self::Bytes => f.write_str("bytes"),
            Self::Json => f.write_str("json"),
            Self::Uuid { v4: false } => f.write_str("uuid"),
            Self::Uuid { v4: true } => f.write_str("uuid v4"),
            Self::Url => f.write_str("url"),
            Self::Date => f.write_str("date"),
            Self::Datetime => f.write_str("datetime"),
            Self::Duration => f.write_str("duration"),
            Self::Instant(Precision::Seconds) => f.write_str("instant"),
            Self::Instant(Precision::Millis) => f.write_str("instant ms"),
            Self::Instant(Precision::Micros) => f.write_str("instant us"),
            Self::Sequence => f.write_str("sequence"),
            Self::Epoch => f.write_str("epoch"),
            Self::List(inner) => write!(f, "[{}{}]", inner.kind, if inner.optional { "?" } else { "" }),
            Self::Set(of) => write!(f, "set<{of}>"),
            Self::Map(of) => write!(f, "map<string, {}{}>", of.kind, if of.optional { "?" } else { "" }),
            Self::Choice(choices) => {
                let quoted: Vec<String> = choices.iter().map(|choice| format!("{choice:?}")).collect();
                f.write_str(&quoted.join(" | "))
            }
            Self::Named(name) => f.write_str(name),
            Self::Zoned => f.write_str("zoned time"),
        }
    }
}

/// What a value must be besides its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checks {
    pub pattern: Option<Pattern>,
    pub range: Option<NumberRange>,
    /// Characters of a text, members of a list, set or map: at least, at most.
    pub len: Option<(usize, Option<usize>)>,
    pub positive: bool,
    pub nonempty: bool,
    pub lower: bool,
    pub upper: bool,
    pub secret: bool,
    pub default: Option<Value>,
    /// Absent for readers so long after the moment in that field.
    pub valid: Option<(i64, String)>,
}

/// A regular expression that a whole value matches. It is compiled when it is first needed.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    compiled: OnceLock<Option<regex_lite::Regex>>,
}

impl Pattern {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn matches(&self, value: &str) -> bool {
        let compiled =
            self.compiled.get_or_init(|| regex_lite::Regex::new(&format!("^(?:{})$", self.text)).ok());
        compiled.as_ref().is_some_and(|regex| regex.is_match(value))
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), compiled: OnceLock::new() }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    pub min: Option<Number>,
    pub max: Option<Number>,
    pub max_included: bool,
}

impl NumberRange {
    pub fn contains(&self, number: &Number) -> bool {
        self.min.is_none_or(|min| *number >= min)
            && self.max.is_none_or(|max| if self.max_included { *number <= max } else { *number < max })
    }
}

/// How an entity is cached and written.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub writes: Writes,
    pub on_error: OnError,
    pub oversize: Oversize,
    pub l1: Option<L1>,
    pub reads: Consistency,
    pub scan: Scan,
    pub log: Vec<LogEvent>,
    /// Given while a new one is fetched, so long past its time.
    pub stale_millis: Option<i64>,
    /// Given when the source fails, so long past its time.
    pub grace_millis: Option<i64>,
    /// Fetched again when this share of its life is over, in percent.
    pub refresh_percent: Option<u8>,
    /// How long an absence is remembered.
    pub negative_millis: Option<i64>,
    /// A TTL varies by this share of itself, in percent.
    pub jitter_percent: Option<u8>,
    /// Writes carry a version, and lose against a newer one.
    pub versions: bool,
    /// One load per key across processes, held by a lease of this length.
    pub flight_millis: Option<i64>,
    /// Values over so many bytes are stored compressed.
    pub compress_over: Option<u64>,
    /// What items can be invalidated by, besides their key.
    pub labels: Vec<Label>,
    pub checks: CheckMode,
}

impl Policy {
    /// Whether the layer may keep more of an item than its head, in items beside it.
    pub fn may_split(&self) -> bool {
        self.oversize_steps().any(|step| step == OversizeStep::Split)
    }

    /// Whether some attributes of an item may be elsewhere than in its head.
    pub fn may_pack(&self) -> bool {
        self.compress_over.is_some()
            || self.oversize_steps().any(|step| matches!(step, OversizeStep::Split | OversizeStep::Compress))
    }

    fn oversize_steps(&self) -> impl Iterator<Item = OversizeStep> {
        [Some(self.oversize.first), self.oversize.otherwise].into_iter().flatten()
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            writes: Writes::Through,
            on_error: OnError::Closed,
            oversize: Oversize { first: OversizeStep::Refuse, otherwise: None },
            l1: None,
            reads: Consistency::Eventual,
            scan: Scan::Deny,
            log: Vec::new(),
            stale_millis: None,
            grace_millis: None,
            refresh_percent: None,
            negative_millis: None,
            jitter_percent: None,
            versions: false,
            flight_millis: None,
            compress_over: None,
            labels: Vec::new(),
            checks: CheckMode::Strict,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    Through,
    /// After the answer; waited for at most so long at the end; at most so many waiting.
    Behind {
        drain_millis: i64,
        queue: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// A store that fails is a miss.
    Open,
    /// A store that fails is an error.
    Closed,
}

/// What is done with a value over 400 KB, and if that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversize {
    pub first: OversizeStep,
    pub otherwise: Option<OversizeStep>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OversizeStep {
    Refuse,
    Skip,
    Split,
    Compress,
}

/// Kept in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L1 {
    pub millis: i64,
    pub bytes_max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    Eventual,
    Strong,
}

/// Whether a whole table may be read to find items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    Deny,
    /// After its price has been shown.
    Ask,
    Allow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEvent {
    Hit,
    Miss,
    Oversize,
    Write,
    Load,
    Invalidate,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Label {
    Field(String),
    Template(Template),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckMode {
    /// A record that breaks a check is refused.
    Strict,
    /// It is kept, with what it breaks in this field.
    Record(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Lifecycle {
    pub name: String,
    pub docs: Vec<String>,
    /// Where the state is written.
    pub attribute: String,
    /// The name of that in the schema.
    pub held_in: String,
    /// The first is the state of a new item.
    pub states: Vec<State>,
    pub transitions: Vec<Transition>,
    pub ready: Option<Expr>,
    /// Where a lease is written, if any state has one.
    pub lease: Option<LeaseAttributes>,
    pub retry: Option<Retry>,
}

/// Stored names of what a lease needs: who, until when (Unix seconds), which claim, how often tried, what went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseAttributes {
    pub owner: String,
    pub until: String,
    pub fence: String,
    pub attempts: String,
    /// Larder's own: the text of the last error.
    pub error: String,
}

impl LeaseAttributes {
    pub fn names(&self) -> [&str; 5] {
        [&self.owner, &self.until, &self.fence, &self.attempts, &self.error]
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub name: String,
    pub docs: Vec<String>,
    /// How the state is written.
    pub template: Template,
    pub lease_millis: Option<i64>,
    /// Due again so long after it was entered.
    pub due_millis: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    pub name: String,
    pub docs: Vec<String>,
    pub from: Vec<String>,
    pub to: String,
    /// `None`: the caller says.
    pub set: Vec<(String, Option<Expr>)>,
}

/// Entities that share a partition: written in one transaction, read in one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    pub name: String,
    pub docs: Vec<String>,
    pub members: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub name: String,
    pub actions: Vec<Action>,
    /// Tables; all when empty.
    pub tables: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Get,
    Put,
    Update,
    Delete,
    Query,
    Scan,
    Batch,
    Describe,
    Stream,
}

impl Action {
    pub const ALL: [Self; 9] = [
        Self::Get,
        Self::Put,
        Self::Update,
        Self::Delete,
        Self::Query,
        Self::Scan,
        Self::Batch,
        Self::Describe,
        Self::Stream,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Query => "query",
            Self::Scan => "scan",
            Self::Batch => "batch",
            Self::Describe => "describe",
            Self::Stream => "stream",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Alarm {
    pub metric: AlarmMetric,
    pub above: bool,
    pub threshold: Threshold,
    pub lasting_millis: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmMetric {
    ErrorRate,
    HitRate,
    Latency,
    Throttles,
    Stuck,
    Queue,
}

impl AlarmMetric {
    pub const ALL: [Self; 6] =
        [Self::ErrorRate, Self::HitRate, Self::Latency, Self::Throttles, Self::Stuck, Self::Queue];

    pub fn name(self) -> &'static str {
        match self {
            Self::ErrorRate => "error_rate",
            Self::HitRate => "hit_rate",
            Self::Latency => "latency",
            Self::Throttles => "throttles",
            Self::Stuck => "stuck",
            Self::Queue => "queue",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Threshold {
    Percent(Number),
    Millis(i64),
    Count(Number),
}

/// What is expected, for plans and prices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    pub requests: Option<Rate>,
    pub reads: Option<Rate>,
    pub writes: Option<Rate>,
    pub hit_rate_percent: Option<Number>,
    pub item_bytes: Option<u64>,
    pub stored_bytes: Option<u64>,
}

impl Workload {
    /// The same where every range is its lower figure; none if there is no range.
    pub fn at_its_lower_end(&self) -> Option<Self> {
        let mut lower = self.clone();
        for rate in [&mut lower.requests, &mut lower.reads, &mut lower.writes].into_iter().flatten() {
            rate.to = rate.from;
        }
        (lower != *self).then_some(lower)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub from: f64,
    pub to: f64,
    pub per: Period,
}

impl Rate {
    /// The higher figure, in a month of 30 days.
    pub fn monthly(&self) -> f64 {
        self.to * (30.0 * 86_400_000.0) / self.per.millis()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Period {
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    pub fn millis(self) -> f64 {
        match self {
            Self::Second => 1e3,
            Self::Minute => 60e3,
            Self::Hour => 3600e3,
            Self::Day => 86400e3,
            Self::Week => 7.0 * 86400e3,
            Self::Month => 30.0 * 86400e3,
            Self::Year => 365.0 * 86400e3,
        }
    }
}

/// Metric names in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    pub namespace: String,
    pub names: Vec<(MetricKind, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Hit,
    Miss,
    Latency,
    Error,
    Load,
    Write,
    Queue,
    Stuck,
    /// Calls of a source that hits made unnecessary.
    Saved,
}

impl MetricKind {
    pub const ALL: [Self; 9] = [
        Self::Hit,
        Self::Miss,
        Self::Latency,
        Self::Error,
        Self::Load,
        Self::Write,
        Self::Queue,
        Self::Stuck,
        Self::Saved,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Latency => "latency",
            Self::Error => "error",
            Self::Load => "load",
            Self::Write => "write",
            Self::Queue => "queue",
            Self::Stuck => "stuck",
            Self::Saved => "saved",
        }
    }
}

/// A table as it is to be deployed: what the model holds, and what it does not.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSetup {
    /// What the schema calls it.
    pub table: String,
    pub definition: TableDefinition,
    pub region: Option<String>,
    pub ttl_attribute: Option<String>,
    pub pitr: Option<Pitr>,
    pub on_delete: OnDelete,
}

/// An environment that does not fit the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    #[error("{variable} is `{value}`, which is not a {wanted}")]
    Value { param: String, variable: String, value: String, wanted: String },
    #[error(
        "table `{table}` would be called `{name}`: a table's name is 3 to 255 characters of a-z, A-Z, 0-9, `_`, `.` and `-`"
    )]
    TableName { table: String, name: String },
}

impl Schema {
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// An entity of any table, and that table.
    pub fn entity(&self, name: &str) -> Option<(&Table, &Entity)> {
        self.tables
            .iter()
            .find_map(|table| Some((table, table.entities.iter().find(|entity| entity.name == name)?)))
    }

    pub fn type_definition(&self, name: &str) -> Option<&TypeDefinition> {
        self.types.iter().find(|definition| definition.name == name)
    }

    pub fn source(&self, name: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.name == name)
    }

    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|param| param.name == name)
    }
}

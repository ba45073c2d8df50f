//! Expressions of a request and the names and values that fill them in, up to where `larder-expr` takes over.

use std::borrow::Cow;
use std::collections::BTreeMap;

use larder_expr::{Error, Scope};
use larder_model::AttributeValue;
use larder_model::limits::EXPRESSION_BYTES_MAX;

use crate::json::Reader;
use crate::refusal::{Layer, Read, Refusal, Rules};
use crate::shape;
use crate::value::{self, Flaws, NESTED_TOO_DEEP, ValueFault};

/// What a placeholder takes, here and in the scope that is made of it.
const PLACEHOLDER_BYTES: usize = 384;

/// `ExpressionAttributeNames` and `ExpressionAttributeValues`, and what is wrong with some of the values.
#[derive(Debug, Default)]
pub(crate) struct Placeholders {
    pub(crate) names: Option<BTreeMap<String, String>>,
    pub(crate) values: Option<BTreeMap<String, AttributeValue>>,
    flaws: BTreeMap<String, Flaws>,
    /// Whether one of the flaws is that a value could not be understood.
    faulty: bool,
}

/// Which faults of a value are refused by naming its placeholder. Operations differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// None.
    Never,
    /// UpdateItem: those found as a value is parsed; on the older layer numbers too.
    Parsed,
    /// Query: a value without a type, and a NULL that is not true.
    Absent,
    /// DeleteItem: all, but for numbers on the current layer.
    All,
    /// Transactions: numbers.
    Numbers,
}

impl Placeholders {
    /// Reads the member `name`, if it is one of the two.
    pub(crate) fn read(&mut self, reader: &mut Reader<'_>, name: &str) -> Read<bool> {
        match name {
            "ExpressionAttributeNames" => self.names = names(reader)?,
            "ExpressionAttributeValues" => self.read_values(reader)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The check ahead of all others, for values nested very deep.
    pub(crate) fn check_deep(&self) -> Read<()> {
        let deep = self.flaws.iter().find(|(_, flaws)| flaws.is_deep());
        deep.map_or(Ok(()), |(key, _)| Err(Refusal::Plain(named(NESTED_TOO_DEEP, key))))
    }

    /// Refuses values that could not be understood.
    pub(crate) fn check_read(&self, rules: Rules, naming: Naming) -> Read<()> {
        if !self.faulty {
            return Ok(());
        }
        for (key, flaws) in &self.flaws {
            if let Some(fault) = &flaws.fault {
                return Err(faulty(fault, key, rules.layer, naming));
            }
        }
        Ok(())
    }

    /// Refuses empty attribute names. In a transaction the placeholder of the value is named.
    pub(crate) fn check_names(&self, in_transaction: bool) -> Read<()> {
        let empty = self.names.iter().flatten().find(|(_, name)| name.is_empty());
        if let Some((placeholder, _)) = empty {
            return Err(Refusal::Enveloped(format!(
                "ExpressionAttributeNames contains invalid value: Empty attribute name for key {placeholder}"
            )));
        }
        let faulty = |(key, flaws): (_, &Flaws)| Some((key, flaws.name?));
        match self.flaws.iter().find_map(faulty) {
            Some((key, cause)) if in_transaction => Err(Refusal::Plain(named(cause, key))),
            Some((_, cause)) => Err(Refusal::enveloped(cause)),
            None => Ok(()),
        }
    }

    /// Refuses values nested too deep, and sets that are empty or repeat themselves.
    pub(crate) fn check_values(&self, rules: Rules) -> Read<()> {
        for (key, flaws) in &self.flaws {
            flaws.check_depth()?;
            if let Some(set) = &flaws.set {
                let message = set.message(rules.layer);
                let is_named = set.is_empty_set() || rules.layer == Layer::Older;
                return Err(Refusal::Enveloped(if is_named { named(&message, key) } else { message }));
            }
        }
        Ok(())
    }

    pub(crate) fn check_sets_in_transaction(&self, rules: Rules) -> Read<()> {
        let set = self.flaws.iter().find_map(|(key, flaws)| Some((key, flaws.set.as_ref()?)));
        set.map_or(Ok(()), |(key, set)| Err(Refusal::Plain(named(&set.message(rules.layer), key))))
    }

    /// A transaction takes a value that is one level deeper than an item may hold.
    pub(crate) fn check_depth_in_transaction(&self) -> Read<()> {
        let deep = self.flaws.iter().find(|(_, flaws)| flaws.depth > 32);
        deep.map_or(Ok(()), |(key, _)| Err(Refusal::Plain(named(NESTED_TOO_DEEP, key))))
    }

    /// Refuses placeholders where no expression uses them, and expressions beside what came before them.
    pub(crate) fn check_use(&self, parameters: &Parameters) -> Read<()> {
        let Parameters { legacy, expressions, .. } = parameters;
        if !legacy.is_empty() && !expressions.is_empty() {
            return Err(Error::Mixed { legacy: legacy.clone(), expressions: expressions.clone() }.into());
        }
        if self.names.is_some() && expressions.is_empty() {
            return Err(Error::NamesWithoutExpression.into());
        }
        if self.values.is_some() && expressions.is_empty() {
            return Err(match parameters.with_values.as_slice() {
                [] => Refusal::enveloped(
                    "ExpressionAttributeValues can only be specified when using expressions",
                ),
                with_values => Error::ValuesWithoutExpression(with_values.to_vec()).into(),
            });
        }
        Ok(())
    }

    /// The scope that the request's expressions are read in, once placeholders and values are found right.
    pub(crate) fn scope(mut self, rules: Rules, naming: Naming) -> Read<Scope> {
        let scope = self.take_scope()?;
        self.check_read(rules, naming)?;
        self.check_values(rules)?;
        Ok(scope)
    }

    /// The scope alone; what is wrong with values is left to be checked.
    pub(crate) fn take_scope(&mut self) -> Read<Scope> {
        if let Some(refusal) = self.misnamed() {
            return Err(refusal);
        }
        Ok(Scope::new(self.names.take(), self.values.take())?)
    }

    /// A placeholder without its `#` or `:` is refused outside the envelope, unlike one of wrong letters.
    fn misnamed(&self) -> Option<Refusal> {
        let names = self.names.iter().flatten().map(|(key, _)| ("Names", '#', key));
        let values = self.values.iter().flatten().map(|(key, _)| ("Values", ':', key));
        let (map, _, key) = names.chain(values).find(|(_, sign, key)| !key.starts_with(*sign))?;
        Some(Refusal::Plain(format!(
            "ExpressionAttribute{map} contains invalid key: Syntax error; key: \"{key}\""
        )))
    }

    fn read_values(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        let mut values = BTreeMap::new();
        let present = shape::map(reader, "AttributeValue", |reader, key| {
            reader.charge(PLACEHOLDER_BYTES)?;
            reader.charge_text(key.len())?;
            let mut flaws = Flaws::default();
            let value = value::value(reader, &mut flaws)?;
            if flaws.any() {
                self.faulty |= flaws.fault.is_some();
                self.flaws.insert(key.clone().into_owned(), flaws);
            }
            values.insert(key.into_owned(), value);
            Ok(())
        })?;
        self.values = present.then_some(values);
        Ok(())
    }
}

/// Which parameters a request has, by name.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    pub(crate) legacy: Vec<&'static str>,
    pub(crate) expressions: Vec<&'static str>,
    /// The expressions that could have used values; the reads list them.
    pub(crate) with_values: Vec<&'static str>,
}

impl Parameters {
    pub(crate) fn legacy(mut self, name: &'static str, is_there: bool) -> Self {
        self.legacy.extend(is_there.then_some(name));
        self
    }

    pub(crate) fn expression(mut self, name: &'static str, is_there: bool) -> Self {
        self.expressions.extend(is_there.then_some(name));
        self
    }
}

/// An expression that is there but empty.
pub(crate) fn check_not_empty(kind: &str, text: &Option<Cow<'_, str>>) -> Read<()> {
    match text.as_deref() {
        Some("") => Err(Refusal::Enveloped(format!("Invalid {kind}: The expression can not be empty;"))),
        _ => Ok(()),
    }
}

/// An expression that is too long, where the size is told. Elsewhere it is not.
pub(crate) fn check_size_told(kind: &str, text: &Option<Cow<'_, str>>) -> Read<()> {
    match text.as_ref().map_or(0, |text| text.len()) {
        0..=EXPRESSION_BYTES_MAX => Ok(()),
        bytes => Err(Refusal::Enveloped(format!(
            "Invalid {kind}: Expression size has exceeded the maximum allowed size; expression size: {bytes}"
        ))),
    }
}

fn names(reader: &mut Reader<'_>) -> Read<Option<BTreeMap<String, String>>> {
    let mut names = BTreeMap::new();
    let present = shape::map(reader, "java.lang.String", |reader, key| {
        if let Some(name) = shape::owned_text(reader)? {
            reader.charge(PLACEHOLDER_BYTES)?;
            reader.charge_text(key.len())?;
            reader.charge_text(name.len())?;
            names.insert(key.into_owned(), name);
        }
        Ok(())
    })?;
    Ok(present.then_some(names))
}

fn faulty(fault: &ValueFault, key: &str, layer: Layer, naming: Naming) -> Refusal {
    use ValueFault::{EmptySet, FalseNull, ManyTypes, NoType, Number};
    let older = layer == Layer::Older;
    let parsed_null = matches!(fault, FalseNull { parsed } if *parsed || older);
    let is_named = match naming {
        Naming::Never => false,
        Naming::Parsed => match fault {
            ManyTypes | EmptySet(_) => true,
            Number { .. } => older,
            FalseNull { .. } => parsed_null,
            NoType => false,
        },
        Naming::Absent => parsed_null || *fault == NoType,
        Naming::All => match fault {
            NoType | ManyTypes | EmptySet(_) => true,
            Number { .. } => older,
            FalseNull { .. } => parsed_null,
        },
        Naming::Numbers => matches!(fault, Number { .. }),
    };
    if is_named { Refusal::Plain(named(&fault.message(layer), key)) } else { fault.refusal(layer) }
}

fn named(message: &str, key: &str) -> String {
    format!("ExpressionAttributeValues contains invalid value: {message} for key {key}")
}

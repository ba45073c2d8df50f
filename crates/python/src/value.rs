//! Values between the schema's types and Python's.
//!
//! Moments are aware `datetime`s in UTC, finer ones `Moment`s; decimals are `Decimal`, sets `set`, durations `timedelta`; a value of a named
//! type is a `dict` by the schema's names. What is given and not of its type is taken as it came, so that the check tells of it with all
//! else that is wrong. Numbers of `json` are `int` where they are whole, `float` where that loses nothing, else `Decimal`.

use std::collections::{BTreeMap, BTreeSet};

use larder::jiff::civil::{Date, DateTime};
use larder::jiff::{SignedDuration, Timestamp};
use larder::{Fields, Number, Schema, Value};
use larder_model::AttributeValue;
use larder_model::limits::NESTING_DEPTH_MAX;
use larder_schema::schema::Entity;
use larder_schema::{Field, Type};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyFrozenSet, PyInt, PyList,
    PyMapping, PySet, PyString, PyTuple, PyTzInfoAccess,
};

use crate::error::helper;

/// The fields of a record, as a `dict` without those that are absent, and with the defaults of those that another program left out. Of
/// a part of one, as an index shows it, those that it does not show have none.
pub(crate) fn fields_out<'py>(
    py: Python<'py>,
    schema: &Schema,
    entity: &Entity,
    fields: &Fields,
    shown: Option<&BTreeSet<String>>,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for field in &entity.fields {
        let is_shown = || shown.is_none_or(|shown| shown.contains(&field.name));
        let default = || field.checks.default.as_ref().filter(|_| is_shown());
        if let Some(value) = fields.get(&field.name).or_else(default) {
            out.set_item(PyString::intern(py, &field.name), value_out(py, schema, &field.kind, value)?)?;
        }
    }
    Ok(out)
}

pub(crate) fn value_out<'py>(
    py: Python<'py>,
    schema: &Schema,
    kind: &Type,
    value: &Value,
) -> PyResult<Bound<'py, PyAny>> {
    match (kind, value) {
        (Type::Set(of), Value::List(members)) => {
            let members = members.iter().map(|member| value_out(py, schema, of, member));
            Ok(PySet::new(py, members.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        (_, Value::List(members)) => {
            let of = kind.member().unwrap_or(&Type::Json);
            let members = members.iter().map(|member| value_out(py, schema, of, member));
            Ok(PyList::new(py, members.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        (Type::Named(name), Value::Map(members)) => {
            let known = schema.type_definition(name).map_or(&[][..], |definition| &definition.fields);
            let out = PyDict::new(py);
            for (stored, value) in members {
                match known.iter().find(|field| field.attribute == *stored) {
                    Some(field) => {
                        let name = PyString::intern(py, &field.name);
                        out.set_item(name, value_out(py, schema, &field.kind, value)?)?;
                    }
                    None => out.set_item(stored, value_out(py, schema, &Type::Json, value)?)?,
                }
            }
            for field in known.iter().filter(|field| !members.contains_key(&field.attribute)) {
                if let Some(default) = &field.checks.default {
                    out.set_item(&field.name, value_out(py, schema, &field.kind, default)?)?;
                }
            }
            Ok(out.into_any())
        }
        (_, Value::Map(members)) => {
            let of = kind.member().unwrap_or(&Type::Json);
            let out = PyDict::new(py);
            for (name, value) in members {
                out.set_item(name, value_out(py, schema, of, value)?)?;
            }
            Ok(out.into_any())
        }
        (_, Value::Text(text)) => Ok(PyString::new(py, text).into_any()),
        (Type::Decimal, Value::Number(number)) => decimal(py, number),
        (Type::Float, Value::Number(number)) => float(py, number),
        (_, Value::Number(number)) => number_out(py, number),
        (_, Value::Float(float)) => Ok(PyFloat::new(py, *float).into_any()),
        (_, Value::Bool(value)) => Ok(PyBool::new(py, *value).to_owned().into_any()),
        (_, Value::Bytes(bytes)) => Ok(PyBytes::new(py, bytes).into_any()),
        (_, Value::Instant(moment)) => moment_out(py, *moment),
        (_, Value::Zoned(moment)) => moment_out(py, moment.timestamp()),
        (_, Value::Date(date)) => Ok(date.into_pyobject(py)?.into_any()),
        (_, Value::Datetime(datetime)) => Ok(datetime.into_pyobject(py)?.into_any()),
        (_, Value::Duration(duration)) => Ok(duration.into_pyobject(py)?.into_any()),
        (_, Value::Raw(stored)) => stored_out(py, stored),
    }
}

/// A moment, in `timezone.utc`.
pub(crate) fn moment_out(py: Python<'_>, moment: Timestamp) -> PyResult<Bound<'_, PyAny>> {
    static UTC: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let utc = UTC.get_or_try_init(py, || {
        py.import("datetime")?.getattr("timezone")?.getattr("utc").map(Bound::unbind)
    })?;
    let utc = utc.bind(py).cast::<pyo3::types::PyTzInfo>()?;
    if moment.subsec_nanosecond() % 1000 != 0 {
        let kind = helper(py, "larder._core")?.getattr(intern!(py, "Moment"))?;
        return kind.call1((moment.to_string(),));
    }
    let civil = larder::jiff::tz::TimeZone::UTC.to_datetime(moment);
    let part = |part: i8| u8::try_from(part).unwrap_or(0);
    let micros = u32::try_from(civil.subsec_nanosecond() / 1000).unwrap_or(0);
    let (date, time) = (civil.date(), civil.time());
    let (hour, minute, second) = (part(time.hour()), part(time.minute()), part(time.second()));
    let (month, day) = (part(date.month()), part(date.day()));
    let made = PyDateTime::new(py, date.year().into(), month, day, hour, minute, second, micros, Some(utc))?;
    Ok(made.into_any())
}

/// A stored value as JSON would have it, with Python's own types for what JSON lacks.
pub(crate) fn stored_out<'py>(py: Python<'py>, stored: &AttributeValue) -> PyResult<Bound<'py, PyAny>> {
    Ok(match stored {
        AttributeValue::Null => py.None().into_bound(py),
        AttributeValue::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        AttributeValue::N(number) => number_out(py, number)?,
        AttributeValue::S(text) => PyString::new(py, text).into_any(),
        AttributeValue::B(bytes) => PyBytes::new(py, bytes).into_any(),
        AttributeValue::L(values) => {
            let values = values.iter().map(|value| stored_out(py, value)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, values)?.into_any()
        }
        AttributeValue::M(members) => {
            let out = PyDict::new(py);
            for (name, value) in members {
                out.set_item(name, stored_out(py, value)?)?;
            }
            out.into_any()
        }
        AttributeValue::Ss(texts) => PySet::new(py, texts)?.into_any(),
        AttributeValue::Ns(numbers) => {
            let numbers =
                numbers.iter().map(|number| number_out(py, number)).collect::<PyResult<Vec<_>>>()?;
            PySet::new(py, numbers)?.into_any()
        }
        AttributeValue::Bs(all) => {
            PySet::new(py, all.iter().map(|bytes| PyBytes::new(py, bytes)))?.into_any()
        }
    })
}

fn number_out<'py>(py: Python<'py>, number: &Number) -> PyResult<Bound<'py, PyAny>> {
    if let Some(whole) = number.to_i64() {
        return Ok(whole.into_pyobject(py)?.into_any());
    }
    let text = number.to_string();
    if !text.contains('.') {
        return py.get_type::<PyInt>().call1((text,));
    }
    match text.parse::<f64>() {
        Ok(float) if format!("{float:e}").parse::<Number>().is_ok_and(|read| read == *number) => {
            Ok(PyFloat::new(py, float).into_any())
        }
        _ => decimal(py, number),
    }
}

fn float<'py>(py: Python<'py>, number: &Number) -> PyResult<Bound<'py, PyAny>> {
    let float =
        number.to_string().parse::<f64>().map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(PyFloat::new(py, float).into_any())
}

fn decimal_type(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = DECIMAL.get_or_try_init(py, || py.import("decimal")?.getattr("Decimal").map(Bound::unbind))?;
    Ok(made.bind(py))
}

fn decimal<'py>(py: Python<'py>, number: &Number) -> PyResult<Bound<'py, PyAny>> {
    decimal_type(py)?.call1((number.to_string(),))
}

/// A value of a field.
pub(crate) fn value_in(
    schema: &Schema,
    kind: &Type,
    path: &str,
    given: &Bound<'_, PyAny>,
) -> PyResult<Value> {
    match fitting(schema, kind, path, given)? {
        Some(value) => Ok(value),
        None => Ok(Value::Raw(stored_in(path, given)?)),
    }
}

/// A value where no field says of which type.
pub(crate) fn any_in(path: &str, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if given.is_instance_of::<PyDateTime>() {
        return match given.cast::<PyDateTime>()?.get_tzinfo() {
            Some(_) => Ok(Value::Instant(instant(given.cast::<PyDateTime>()?)?)),
            None => Ok(Value::Datetime(given.extract::<DateTime>()?)),
        };
    }
    if given.is_instance_of::<PyDate>() {
        return Ok(Value::Date(given.extract::<Date>()?));
    }
    if given.is_instance_of::<PyDelta>() {
        return Ok(Value::Duration(given.extract::<SignedDuration>()?));
    }
    if given.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(given.extract()?));
    }
    Ok(match stored_in(path, given)? {
        AttributeValue::S(text) => Value::Text(text),
        AttributeValue::N(number) => Value::Number(number),
        AttributeValue::Bool(value) => Value::Bool(value),
        AttributeValue::B(bytes) => Value::Bytes(bytes),
        other => Value::Raw(other),
    })
}

/// `None` where it is not of the type.
fn fitting(schema: &Schema, kind: &Type, path: &str, given: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    Ok(match kind {
        Type::String | Type::Url | Type::Choice(_) => text(given)?.map(Value::Text),
        Type::Uuid { .. } => match text(given)? {
            None if given.get_type().name()? == "UUID" => Some(Value::Text(given.str()?.to_string())),
            found => found.map(Value::Text),
        },
        Type::Int | Type::Sequence => match is_int(given) {
            true => Some(Value::Number(number_in(path, given)?)),
            false => None,
        },
        Type::Decimal => match is_number(given)? {
            true => Some(Value::Number(number_in(path, given)?)),
            false => None,
        },
        Type::Float => match is_number(given)? {
            true if given.is_instance_of::<PyFloat>() => Some(Value::Float(given.extract()?)),
            true => Some(Value::Number(number_in(path, given)?)),
            false => None,
        },
        Type::Bool => given.cast::<PyBool>().ok().map(|value| Value::Bool(value.is_true())),
        Type::Bytes => bytes(given)?.map(Value::Bytes),
        Type::Date => match given.is_instance_of::<PyDate>() && !given.is_instance_of::<PyDateTime>() {
            true => Some(Value::Date(given.extract()?)),
            false => None,
        },
        Type::Datetime => match given.cast::<PyDateTime>() {
            Ok(moment) if moment.get_tzinfo().is_none() => Some(Value::Datetime(given.extract()?)),
            _ => None,
        },
        Type::Instant(_) | Type::Epoch => match given.cast::<PyDateTime>() {
            Ok(moment) if moment.get_tzinfo().is_some() => Some(Value::Instant(instant(moment)?)),
            _ => None,
        },
        Type::Duration => match given.is_instance_of::<PyDelta>() {
            true => Some(Value::Duration(given.extract()?)),
            false => None,
        },
        Type::List(of) => match sequence(given, false)? {
            Some(members) => Some(Value::List(each(schema, &of.kind, path, &members)?)),
            None => None,
        },
        Type::Set(of) => match sequence(given, true)? {
            Some(members) => Some(Value::List(each(schema, of, path, &members)?)),
            None => None,
        },
        Type::Map(of) => match given.cast::<PyMapping>() {
            Ok(mapping) => {
                let mut map = BTreeMap::new();
                for (name, value) in members(path, mapping)? {
                    let value = value_in(schema, &of.kind, &format!("{path}[{name:?}]"), &value)?;
                    map.insert(name, value);
                }
                Some(Value::Map(map))
            }
            Err(_) => None,
        },
        Type::Named(name) => match given.cast::<PyMapping>() {
            Ok(mapping) => Some(named_in(schema, name, path, mapping)?),
            Err(_) => None,
        },
        Type::Json => Some(Value::Raw(stored_in(path, given)?)),
        Type::Zoned => None,
    })
}

fn named_in(schema: &Schema, name: &str, path: &str, mapping: &Bound<'_, PyMapping>) -> PyResult<Value> {
    let known = schema.type_definition(name).map_or(&[][..], |definition| &definition.fields);
    let mut map = BTreeMap::new();
    for (name, value) in members(path, mapping)? {
        let path = format!("{path}.{name}");
        match known.iter().find(|field| field.name == name || field.attribute == name) {
            Some(_) if value.is_none() => {}
            Some(field) => {
                map.insert(field.attribute.clone(), value_in(schema, &field.kind, &path, &value)?);
            }
            None => {
                map.insert(name, Value::Raw(stored_in(&path, &value)?));
            }
        }
    }
    Ok(Value::Map(map))
}

/// What is given of a record, by field names. What is `None` is not given.
pub(crate) fn fields_in(schema: &Schema, entity: &Entity, given: &Bound<'_, PyAny>) -> PyResult<Fields> {
    let mapping = given.cast::<PyMapping>().map_err(|_| {
        PyTypeError::new_err(format!("the fields of {} are given as a dict by their names", entity.name))
    })?;
    let mut fields = Fields::new();
    for (name, value) in members(&entity.name, mapping)? {
        if value.is_none() {
            continue;
        }
        let value = match entity.field(&name) {
            Some(field) => value_in(schema, &field.kind, &name, &value)?,
            // The check says that nobody knows it.
            None => any_in(&name, &value)?,
        };
        fields.insert(name, value);
    }
    Ok(fields)
}

/// The fields that a key is given by, in order.
pub(crate) fn key_names(entity: &Entity) -> Vec<&Field> {
    entity.key_names().into_iter().filter_map(|name| entity.field(name)).collect()
}

/// The fields of a key: given by name, in order, or the one that it is made of.
pub(crate) fn key_in(schema: &Schema, entity: &Entity, given: &Bound<'_, PyAny>) -> PyResult<Fields> {
    let names = key_names(entity);
    named_values(
        schema,
        &entity.name,
        &names.iter().map(|field| (&*field.name, &field.kind)).collect::<Vec<_>>(),
        given,
    )
}

pub(crate) fn named_values(
    schema: &Schema,
    owner: &str,
    names: &[(&str, &Type)],
    given: &Bound<'_, PyAny>,
) -> PyResult<Fields> {
    let wanted = || names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let mut fields = Fields::new();
    if let Ok(mapping) = given.cast::<PyDict>() {
        for (name, value) in members(owner, mapping.as_mapping())? {
            let Some((_, kind)) = names.iter().find(|(known, _)| *known == name) else {
                return Err(PyTypeError::new_err(format!(
                    "`{name}` is not in the key of {owner}, which is made of {}",
                    wanted()
                )));
            };
            fields.insert(name.clone(), value_in(schema, kind, &name, &value)?);
        }
        return Ok(fields);
    }
    let values: Vec<Bound<'_, PyAny>> = match given.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![given.clone()],
    };
    if values.len() != names.len() {
        return Err(PyTypeError::new_err(format!(
            "the key of {owner} is made of {}, and {} of them {} given: give a tuple of all, or a dict",
            wanted(),
            values.len(),
            if values.len() == 1 { "is" } else { "are" },
        )));
    }
    for ((name, kind), value) in names.iter().zip(values) {
        fields.insert((*name).to_owned(), value_in(schema, kind, name, &value)?);
    }
    Ok(fields)
}

fn each(schema: &Schema, of: &Type, path: &str, given: &[Bound<'_, PyAny>]) -> PyResult<Vec<Value>> {
    let one =
        |(at, member): (usize, &Bound<'_, PyAny>)| value_in(schema, of, &format!("{path}[{at}]"), member);
    given.iter().enumerate().map(one).collect()
}

/// A value as it is stored, where no type says how.
pub(crate) fn stored_in(path: &str, given: &Bound<'_, PyAny>) -> PyResult<AttributeValue> {
    stored_within(path, given, 0)
}

/// What holds itself, or is nested too deeply for any store, is refused.
fn stored_within(path: &str, given: &Bound<'_, PyAny>, depth: usize) -> PyResult<AttributeValue> {
    if depth > NESTING_DEPTH_MAX {
        let path: String = path.chars().take(100).collect();
        let levels = NESTING_DEPTH_MAX;
        return Err(PyValueError::new_err(format!("`{path}…` is nested more than {levels} levels deep")));
    }
    if given.is_none() {
        return Ok(AttributeValue::Null);
    }
    if let Ok(value) = given.cast::<PyBool>() {
        return Ok(AttributeValue::Bool(value.is_true()));
    }
    if let Some(text) = text(given)? {
        return Ok(AttributeValue::S(text));
    }
    if is_number(given)? {
        return number_in(path, given).map(AttributeValue::N);
    }
    if let Some(bytes) = bytes(given)? {
        return Ok(AttributeValue::B(bytes));
    }
    if given.is_instance_of::<PySet>() || given.is_instance_of::<PyFrozenSet>() {
        return set_in(path, given);
    }
    if let Some(members) = sequence(given, false)? {
        let one = |(at, member): (usize, &Bound<'_, PyAny>)| {
            stored_within(&format!("{path}[{at}]"), member, depth + 1)
        };
        return members.iter().enumerate().map(one).collect::<PyResult<_>>().map(AttributeValue::L);
    }
    if let Ok(mapping) = given.cast::<PyMapping>() {
        let one = |(name, value): (String, Bound<'_, PyAny>)| {
            let value = stored_within(&format!("{path}.{name}"), &value, depth + 1)?;
            Ok((name, value))
        };
        return members(path, mapping)?.into_iter().map(one).collect::<PyResult<_>>().map(AttributeValue::M);
    }
    if given.is_instance_of::<PyDateTime>() || given.is_instance_of::<PyDate>() {
        return Ok(AttributeValue::S(given.call_method0(intern!(given.py(), "isoformat"))?.extract()?));
    }
    if given.is_instance_of::<PyDelta>() {
        return Ok(AttributeValue::S(given.str()?.to_string()));
    }
    Err(PyTypeError::new_err(format!("`{path}` is a {}, which cannot be kept", given.get_type().name()?)))
}

fn set_in(path: &str, given: &Bound<'_, PyAny>) -> PyResult<AttributeValue> {
    let members = given.try_iter()?.map(|member| stored_in(path, &member?)).collect::<PyResult<Vec<_>>>()?;
    let mixed = || {
        PyTypeError::new_err(format!("`{path}` is a set whose members are not all texts, numbers or bytes"))
    };
    let (mut texts, mut numbers, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let count = members.len();
    for member in members {
        match member {
            AttributeValue::S(text) => texts.push(text),
            AttributeValue::N(number) => numbers.push(number),
            AttributeValue::B(member) => bytes.push(member),
            _ => return Err(mixed()),
        }
    }
    match (texts.len(), numbers.len(), bytes.len()) {
        (0, 0, 0) => Ok(AttributeValue::L(Vec::new())),
        (all, _, _) if all == count => Ok(AttributeValue::Ss(texts.into_iter().collect())),
        (_, all, _) if all == count => Ok(AttributeValue::Ns(numbers.into_iter().collect())),
        (_, _, all) if all == count => Ok(AttributeValue::Bs(bytes.into_iter().collect())),
        _ => Err(mixed()),
    }
}

fn members<'py>(path: &str, mapping: &Bound<'py, PyMapping>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let mut out = Vec::new();
    for pair in mapping.items()?.iter() {
        let (name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair.extract()?;
        let Some(name) = text(&name)? else {
            return Err(PyTypeError::new_err(format!(
                "`{path}` has a name that is no text: {}",
                name.repr()?
            )));
        };
        out.push((name, value));
    }
    Ok(out)
}

fn sequence<'py>(given: &Bound<'py, PyAny>, sets: bool) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    if let Ok(list) = given.cast::<PyList>() {
        return Ok(Some(list.iter().collect()));
    }
    if let Ok(tuple) = given.cast::<PyTuple>() {
        return Ok(Some(tuple.iter().collect()));
    }
    if sets && (given.is_instance_of::<PySet>() || given.is_instance_of::<PyFrozenSet>()) {
        return given.try_iter()?.collect::<PyResult<Vec<_>>>().map(Some);
    }
    Ok(None)
}

/// Wherever it is told from: to the microsecond, or with all the digits of a `Moment`.
fn instant(moment: &Bound<'_, PyDateTime>) -> PyResult<Timestamp> {
    static EPOCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = moment.py();
    let exact = match moment.is_exact_instance_of::<PyDateTime>() {
        true => None,
        false => moment.getattr_opt(intern!(py, "exact"))?,
    };
    if let Some(exact) = exact {
        let parsed = exact.extract::<String>()?.parse::<Timestamp>();
        return parsed.map_err(|error| PyValueError::new_err(error.to_string()));
    }
    let epoch = EPOCH.get_or_try_init(py, || moment_out(py, Timestamp::UNIX_EPOCH).map(Bound::unbind))?;
    // Python knows its own zones: what is left after them is a plain duration.
    let since: SignedDuration = moment.sub(epoch.bind(py))?.extract()?;
    Timestamp::from_duration(since).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn text(given: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    match given.cast::<PyString>() {
        Ok(text) => Ok(Some(text.to_cow()?.into_owned())),
        Err(_) => Ok(None),
    }
}

fn bytes(given: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(Some(bytes.as_bytes().to_vec()));
    }
    if given.is_instance_of::<PyByteArray>() || given.get_type().name()? == "memoryview" {
        let bytes = given.py().get_type::<PyBytes>().call1((given,))?;
        return Ok(Some(bytes.cast::<PyBytes>()?.as_bytes().to_vec()));
    }
    Ok(None)
}

fn is_int(given: &Bound<'_, PyAny>) -> bool {
    given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>()
}

fn is_number(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(is_int(given) || given.is_instance_of::<PyFloat>() || given.is_instance(decimal_type(given.py())?)?)
}

fn number_in(path: &str, given: &Bound<'_, PyAny>) -> PyResult<Number> {
    if let Ok(whole) = given.extract::<i64>()
        && is_int(given)
    {
        return Ok(whole.into());
    }
    // A float is written with as few digits as read back the same.
    let text = given.str()?;
    let text = text.to_cow()?;
    text.parse().map_err(|_| {
        PyValueError::new_err(format!(
            "`{path}` is {text}, and a number has at most 38 digits, between 1E-130 and 9.9E+125"
        ))
    })
}

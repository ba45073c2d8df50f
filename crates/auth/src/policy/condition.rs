//! One condition: an operator, a key of the request, and the values it is held against.
//!
//! Any of the policy's values will do; for an operator that negates, none may match. A key that the request does not
//! have fails every operator but those that negate, `…IfExists`, `Null` and `ForAllValues:`. A key with several values
//! is asked with `ForAllValues:` (each of them must match, and if there are none, it holds) or `ForAnyValue:` (one of
//! them must match). AWS leaves open what it means without either: here it never lets more in, so that each of them must
//! match to allow, and one of them to deny.

use std::cmp::Ordering;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ipnet::IpNet;
use larder_model::{Number, UnixTime};

use super::parse::Place;
use super::pattern::{Pattern, Syntax};
use super::{Effect, Facts, PolicyError};
use crate::time::from_policy;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    /// In lower case.
    key: String,
    quantifier: Quantifier,
    negated: bool,
    if_exists: bool,
    test: Test,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantifier {
    One,
    All,
    Any,
}

/// What a value of the key is held against.
#[derive(Clone, Debug, PartialEq)]
enum Test {
    String {
        patterns: Vec<Pattern>,
        folded: bool,
    },
    Number(Comparison, Vec<Number>),
    Date(Comparison, Vec<UnixTime>),
    Bool(Vec<bool>),
    Binary(Vec<Vec<u8>>),
    Ip(Vec<IpNet>),
    /// Each ARN in its six parts, which are matched one by one.
    Arn(Vec<[Pattern; 6]>),
    /// Whether the key is to be absent.
    Null(Vec<bool>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

impl Condition {
    pub(super) fn holds(&self, facts: &dyn Facts, effect: Effect) -> bool {
        let values = facts.values(&self.key).filter(|values| !values.is_empty());
        if let Test::Null(wanted) = &self.test {
            return wanted.contains(&values.is_none());
        }
        let Some(values) = values else {
            return self.if_exists
                || match self.quantifier {
                    Quantifier::One => self.negated,
                    Quantifier::All => true,
                    Quantifier::Any => false,
                };
        };
        let suits = |value: &String| self.test.matches(value, facts) != self.negated;
        match (self.quantifier, effect) {
            (Quantifier::All, _) | (Quantifier::One, Effect::Allow) => values.iter().all(suits),
            (Quantifier::Any, _) | (Quantifier::One, Effect::Deny) => values.iter().any(suits),
        }
    }

    pub(super) fn parse(
        operator: &str,
        key: &str,
        values: &[String],
        variables: bool,
        place: &Place,
    ) -> Result<Self, PolicyError> {
        let (quantifier, name) = match operator.split_once(':') {
            None => (Quantifier::One, operator),
            Some(("ForAllValues", name)) => (Quantifier::All, name),
            Some(("ForAnyValue", name)) => (Quantifier::Any, name),
            Some((other, _)) => {
                let next = "Write ForAllValues: or ForAnyValue: before an operator.";
                return Err(place.fault(format!("`{other}` is not a set operator"), next));
            }
        };
        let (name, if_exists) = name.strip_suffix("IfExists").map_or((name, false), |name| (name, true));
        let (negated, test) = Test::parse(name, values, variables, place)?;
        if matches!(test, Test::Null(_)) && (if_exists || quantifier != Quantifier::One) {
            let next = "It already asks whether the key is there: write Null.";
            return Err(place.fault(format!("`{operator}` is not an operator"), next));
        }
        Ok(Self { key: key.to_lowercase(), quantifier, negated, if_exists, test })
    }
}

impl Test {
    /// Whether it negates, and the test without that.
    fn parse(
        operator: &str,
        values: &[String],
        variables: bool,
        place: &Place,
    ) -> Result<(bool, Self), PolicyError> {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        let string = |wildcards, folded| {
            let patterns = each(values, place, |text| pattern(text, wildcards, variables))?;
            Ok(Self::String { patterns, folded })
        };
        let number = |comparison| {
            let parse = |text: &str| text.parse().map_err(|_| "a number, such as 10 or 0.5".to_owned());
            Ok(Self::Number(comparison, each(values, place, parse)?))
        };
        let date = |comparison| {
            let parse = |text: &str| {
                from_policy(text).ok_or_else(|| "a date, such as 2026-10-09T12:00:00Z".to_owned())
            };
            Ok(Self::Date(comparison, each(values, place, parse)?))
        };
        let ip = || Ok(Self::Ip(each(values, place, network)?));
        let arn = || Ok(Self::Arn(each(values, place, |text| arn_patterns(text, variables))?));
        let test = match operator {
            "StringEquals" => (false, string(false, false)?),
            "StringNotEquals" => (true, string(false, false)?),
            "StringEqualsIgnoreCase" => (false, string(false, true)?),
            "StringNotEqualsIgnoreCase" => (true, string(false, true)?),
            "StringLike" => (false, string(true, false)?),
            "StringNotLike" => (true, string(true, false)?),
            "NumericEquals" => (false, number(Equal)?),
            "NumericNotEquals" => (true, number(Equal)?),
            "NumericLessThan" => (false, number(Less)?),
            "NumericLessThanEquals" => (false, number(LessOrEqual)?),
            "NumericGreaterThan" => (false, number(Greater)?),
            "NumericGreaterThanEquals" => (false, number(GreaterOrEqual)?),
            "DateEquals" => (false, date(Equal)?),
            "DateNotEquals" => (true, date(Equal)?),
            "DateLessThan" => (false, date(Less)?),
            "DateLessThanEquals" => (false, date(LessOrEqual)?),
            "DateGreaterThan" => (false, date(Greater)?),
            "DateGreaterThanEquals" => (false, date(GreaterOrEqual)?),
            "Bool" => (false, Self::Bool(each(values, place, boolean)?)),
            "BinaryEquals" => {
                let parse = |text: &str| BASE64.decode(text).map_err(|_| "base64".to_owned());
                (false, Self::Binary(each(values, place, parse)?))
            }
            "IpAddress" => (false, ip()?),
            "NotIpAddress" => (true, ip()?),
            "ArnEquals" | "ArnLike" => (false, arn()?),
            "ArnNotEquals" | "ArnNotLike" => (true, arn()?),
            "Null" => (false, Self::Null(each(values, place, boolean)?)),
            _ => {
                let next = "IAM's operators are String…, Numeric…, Date…, Bool, BinaryEquals, IpAddress, NotIpAddress, \
                            Arn… and Null; their case matters.";
                return Err(place.fault(format!("`{operator}` is not a condition operator"), next));
            }
        };
        Ok(test)
    }

    /// Whether any of the policy's values suits the request's. A value of another kind suits none.
    fn matches(&self, value: &str, facts: &dyn Facts) -> bool {
        match self {
            Self::String { patterns, folded: false } => {
                patterns.iter().any(|pattern| pattern.matches(value, facts))
            }
            Self::String { patterns, folded: true } => {
                patterns.iter().any(|pattern| pattern.matches_folded(value, facts))
            }
            Self::Number(comparison, wanted) => value
                .parse::<Number>()
                .is_ok_and(|value| wanted.iter().any(|wanted| comparison.holds(value.cmp(wanted)))),
            Self::Date(comparison, wanted) => from_policy(value)
                .is_some_and(|value| wanted.iter().any(|wanted| comparison.holds(value.cmp(wanted)))),
            Self::Bool(wanted) => boolean(value).is_ok_and(|value| wanted.contains(&value)),
            Self::Binary(wanted) => BASE64.decode(value).is_ok_and(|value| wanted.contains(&value)),
            Self::Ip(networks) => value.parse::<IpAddr>().is_ok_and(|address| {
                networks.iter().any(|network| network.contains(&address.to_canonical()))
            }),
            Self::Arn(wanted) => arn_parts(value).is_some_and(|parts| {
                let suits = |wanted: &[Pattern; 6]| {
                    wanted.iter().zip(parts).all(|(pattern, part)| pattern.matches(part, facts))
                };
                wanted.iter().any(suits)
            }),
            Self::Null(_) => false,
        }
    }
}

/// Every value as `parse` has it, which otherwise says what is expected.
fn each<T>(
    values: &[String],
    place: &Place,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, PolicyError> {
    let parse = |text: &String| {
        parse(text).map_err(|expected| {
            place.fault(format!("`{text}` does not fit the operator"), format!("Write {expected}."))
        })
    };
    values.iter().map(parse).collect()
}

fn pattern(text: &str, wildcards: bool, variables: bool) -> Result<Pattern, String> {
    Pattern::new(text, Syntax { wildcards, variables })
        .map_err(|fault| format!("variables as ${{aws:username}}, and ${{$}} for a dollar sign: {fault}"))
}

fn boolean(text: &str) -> Result<bool, String> {
    match () {
        () if text.eq_ignore_ascii_case("true") => Ok(true),
        () if text.eq_ignore_ascii_case("false") => Ok(false),
        () => Err("\"true\" or \"false\"".to_owned()),
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network.map_err(|_| "an address or a range, such as 203.0.113.0/24 or 2001:db8::/32".to_owned())
}

fn arn_parts(text: &str) -> Option<[&str; 6]> {
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    parts.try_into().ok()
}

fn arn_patterns(text: &str, variables: bool) -> Result<[Pattern; 6], String> {
    let any = || pattern("*", true, false);
    if text == "*" {
        return Ok([any()?, any()?, any()?, any()?, any()?, any()?]);
    }
    // The colon of a variable is none of the ARN's.
    let mut parts = vec![String::new()];
    let mut is_variable = false;
    for c in text.chars() {
        is_variable = match c {
            '{' if parts.last().is_some_and(|part| part.ends_with('$')) => true,
            '}' => false,
            _ => is_variable,
        };
        match c {
            ':' if !is_variable && parts.len() < 6 => parts.push(String::new()),
            _ => parts.iter_mut().last().into_iter().for_each(|part| part.push(c)),
        }
    }
    let patterns = parts.iter().map(|part| pattern(part, true, variables)).collect::<Result<Vec<_>, _>>()?;
    patterns
        .try_into()
        .map_err(|_| "an ARN of six parts, such as arn:aws:iam::123456789012:user/*".to_owned())
}

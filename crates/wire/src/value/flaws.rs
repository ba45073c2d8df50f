//! What can be wrong with a value that is well-formed JSON.

use std::collections::{BTreeSet, HashSet};

use base64::Engine;
use larder_model::NumberError;
use larder_model::limits::ATTRIBUTE_NAME_BYTES_MAX;

use crate::echo::Echo;
use crate::json;
use crate::refusal::{Layer, Read, Refusal, Rules};

const NULL_MUST_BE_TRUE: &str =
    "One or more parameter values were invalid: Null attribute value types must have the value of true";
pub(crate) const NESTED_TOO_DEEP: &str = "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit";
const EMPTY_NAME: &str = "Empty attribute name";
const LONG_NAME: &str = "Attribute name is too large, must be less than 65536 bytes";

/// From this depth on another check, ahead of all others, refuses a value.
const DEEP: usize = 63;

/// Everything noticed while some values were read; of each kind, the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flaws {
    pub(crate) fault: Option<ValueFault>,
    pub(crate) set: Option<SetFlaw>,
    /// An attribute name that is empty, or else one that is too long: what is said of it.
    pub(crate) name: Option<&'static str>,
    /// How many lists and maps stand around the deepest value.
    pub(crate) depth: usize,
}

/// Why a value cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueFault {
    NoType,
    ManyTypes,
    /// An empty set beside another type.
    EmptySet(SetKind),
    Number {
        error: NumberError,
        text: String,
    },
    /// A NULL that is not true. `parsed`: it was refused while it was read, being a word or beside another
    /// type, and not by the request's validation.
    FalseNull {
        parsed: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    Text,
    Number,
    Binary,
}

/// A set that is empty, or names a member twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetFlaw {
    Empty(SetKind),
    Repeats(SetKind, Vec<Vec<u8>>),
}

impl Flaws {
    pub(crate) fn any(&self) -> bool {
        self.fault.is_some() || self.set.is_some() || self.name.is_some() || self.depth >= 32
    }

    /// Looks at the name of an attribute, wherever in a value it stands.
    pub(crate) fn note_name(&mut self, name: &str) {
        if let Some(cause) = name_fault(name)
            && self.name != Some(EMPTY_NAME)
        {
            self.name = Some(cause);
        }
    }

    pub(crate) fn note(&mut self, fault: ValueFault) {
        self.fault.get_or_insert(fault);
    }

    /// Refuses what was misunderstood.
    pub(crate) fn check_read(&self, rules: Rules) -> Read<()> {
        self.fault.as_ref().map_or(Ok(()), |fault| Err(fault.refusal(rules.layer)))
    }

    pub(crate) fn check_sets(&self, rules: Rules) -> Read<()> {
        self.set.as_ref().map_or(Ok(()), |flaw| Err(Refusal::Enveloped(flaw.message(rules.layer))))
    }

    pub(crate) fn check_names(&self) -> Read<()> {
        self.name.map_or(Ok(()), |cause| Err(Refusal::enveloped(cause)))
    }

    /// Refuses a value that 32 or more lists and maps stand around.
    pub(crate) fn check_depth(&self) -> Read<()> {
        if self.depth >= 32 { Err(Refusal::enveloped(NESTED_TOO_DEEP)) } else { Ok(()) }
    }

    pub(crate) fn is_deep(&self) -> bool {
        self.depth >= DEEP
    }

    /// The check that comes ahead of all others, in the words it has for items and keys.
    pub(crate) fn check_deep(&self) -> Read<()> {
        if self.is_deep() { Err(Refusal::plain(NESTED_TOO_DEEP)) } else { Ok(()) }
    }
}

/// What is wrong with the name of an attribute.
pub(crate) fn name_fault(name: &str) -> Option<&'static str> {
    match name.len() {
        0 => Some(EMPTY_NAME),
        1..=ATTRIBUTE_NAME_BYTES_MAX => None,
        _ => Some(LONG_NAME),
    }
}

impl ValueFault {
    pub(crate) fn message(&self, layer: Layer) -> String {
        match self {
            Self::NoType => "Supplied AttributeValue is empty, must contain exactly one of the supported \
                             datatypes"
                .into(),
            Self::ManyTypes => "Supplied AttributeValue has more than one datatypes set, must contain \
                                exactly one of the supported datatypes"
                .into(),
            Self::EmptySet(kind) => SetFlaw::Empty(*kind).message(layer),
            Self::Number { error, text } => number_message(error, text, layer),
            Self::FalseNull { .. } => NULL_MUST_BE_TRUE.into(),
        }
    }

    /// How an item, a key or the like is refused for it.
    pub(crate) fn refusal(&self, layer: Layer) -> Refusal {
        let message = self.message(layer);
        match self {
            Self::Number { .. } | Self::FalseNull { parsed: false } if layer == Layer::Current => {
                Refusal::Enveloped(message)
            }
            _ => Refusal::Plain(message),
        }
    }
}

fn number_message(error: &NumberError, text: &str, layer: Layer) -> String {
    match (error, layer) {
        (NumberError::Empty, Layer::Current) => format!("{error}: "),
        (NumberError::Overflow | NumberError::Underflow, Layer::Older) => {
            big_decimal(error, text).to_string()
        }
        _ => error.to_string(),
    }
}

/// The older layer keeps numbers as Java's `BigDecimal` first, whose exponent is a 32-bit integer: what is
/// beyond that is no number, and what is close to it underflows whatever its sign.
fn big_decimal(error: &NumberError, text: &str) -> NumberError {
    let not_a_number = || NumberError::NotANumber(text.to_owned());
    let unsigned = text.trim_start_matches(['+', '-']);
    let (coefficient, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let Ok(exponent) = exponent.parse::<i32>() else { return not_a_number() };
    let fraction = coefficient.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let scale = i64::try_from(fraction).unwrap_or(i64::MAX).saturating_sub(i64::from(exponent));
    if i32::try_from(scale).is_err() {
        return not_a_number();
    }
    let digits = coefficient.bytes().filter(u8::is_ascii_digit).skip_while(|&digit| digit == b'0').count();
    if i64::try_from(digits.max(1)).unwrap_or(i64::MAX).saturating_sub(scale) >= i64::from(i32::MAX) {
        return NumberError::Underflow;
    }
    error.clone()
}

impl SetFlaw {
    pub(crate) fn message(&self, layer: Layer) -> String {
        let cause = match self {
            Self::Empty(SetKind::Text) => "An string set  may not be empty".into(),
            Self::Empty(SetKind::Number) => "An number set  may not be empty".into(),
            Self::Empty(SetKind::Binary) => "Binary sets should not be empty".into(),
            Self::Repeats(SetKind::Number, _) => match layer {
                Layer::Current => "Input collection contains duplicates.".to_owned(),
                Layer::Older => return "Input collection contains duplicates".into(),
            },
            Self::Repeats(SetKind::Text, members) => {
                let members = shown(members, layer, ", ", |text| String::from_utf8_lossy(text).into_owned());
                format!("Input collection [{members}] contains duplicates.")
            }
            Self::Repeats(SetKind::Binary, members) => {
                let separator = if layer == Layer::Current { "," } else { ", " };
                let members = shown(members, layer, separator, base64);
                format!("Input collection [{members}]of type BS contains duplicates.")
            }
        };
        format!("One or more parameter values were invalid: {cause}")
    }

    pub(crate) fn is_empty_set(&self) -> bool {
        matches!(self, Self::Empty(_))
    }
}

/// The older layer shows the members as they were sent. The current one has sorted what came before the
/// first repeat, and quotes them.
fn shown(members: &[Vec<u8>], layer: Layer, separator: &str, text: fn(&[u8]) -> String) -> String {
    let mut echo = Echo::default();
    match layer {
        Layer::Older => echo.separated(members, separator, &mut |echo, member| echo.text(&text(member))),
        Layer::Current => {
            let mut seen = HashSet::new();
            let repeat = members.iter().position(|member| !seen.insert(member)).unwrap_or(members.len());
            let sorted: BTreeSet<&Vec<u8>> = members[..repeat].iter().collect();
            let all = sorted.into_iter().chain(&members[repeat..]);
            echo.separated(all, separator, &mut |echo, member| echo.text(&quoted(&text(member))));
        }
    }
    echo.finish()
}

fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    json::string(&mut out, text);
    String::from_utf8_lossy(&out).into_owned()
}

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

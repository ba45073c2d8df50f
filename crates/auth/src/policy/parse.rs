//! A document → a policy, or what is wrong with it, as IAM would find it.

use super::condition::Condition;
use super::pattern::{Pattern, Syntax};
use super::principal::PrincipalElement;
use super::{Effect, Kind, Listed, POLICY_BYTES_MAX, Policy, PolicyError, Statement};
use crate::json::Json;

const CURRENT_VERSION: &str = "2012-10-17";
/// What a policy without a version is.
const EARLY_VERSION: &str = "2008-10-17";

/// Where in a document something is wrong.
#[derive(Clone, Debug)]
pub(super) struct Place(String);

impl Place {
    fn within(&self, part: &str) -> Self {
        Self(format!("{}, {part}", self.0))
    }

    pub(super) fn fault(&self, fault: impl Into<String>, next: impl Into<String>) -> PolicyError {
        PolicyError { place: self.0.clone(), fault: fault.into(), next: next.into() }
    }
}

pub(super) fn check_size(text: &str) -> Result<(), PolicyError> {
    if text.len() <= POLICY_BYTES_MAX {
        return Ok(());
    }
    let fault = format!("it has {} bytes, and {POLICY_BYTES_MAX} is the most", text.len());
    Err(Place("the policy".to_owned()).fault(fault, "Use wildcards, or several policies."))
}

pub(super) fn text(text: &str, kind: Kind) -> Result<Policy, PolicyError> {
    check_size(text)?;
    let json = Json::read(text).map_err(|error| {
        Place("the policy".to_owned()).fault(format!("it cannot be read: {error}"), "Mend it there.")
    })?;
    document(json, kind)
}

pub(super) fn document(json: Json, kind: Kind) -> Result<Policy, PolicyError> {
    let place = Place("the policy".to_owned());
    let [version, id, statements] = members(&json, &place, ["Version", "Id", "Statement"])?;
    let variables = match version {
        None => false,
        Some(Json::String(version)) if version == CURRENT_VERSION => true,
        Some(Json::String(version)) if version == EARLY_VERSION => false,
        Some(other) => {
            let fault = format!("Version is {}", other.scalar().unwrap_or_else(|| other.kind().to_owned()));
            return Err(place.fault(
                fault,
                format!("Write \"{CURRENT_VERSION}\": it names the language, not your policy."),
            ));
        }
    };
    optional_text(id, &place, "Id")?;
    let Some(statements) = statements else {
        return Err(place.fault("Statement is missing", "A policy is made of statements: add one."));
    };
    let mut parsed: Vec<Statement> = Vec::new();
    for (at, json) in statements.one_or_many().iter().enumerate() {
        let statement = statement(json, at, kind, variables)?;
        if let Some(sid) = &statement.sid
            && parsed.iter().any(|other| other.sid.as_ref() == Some(sid))
        {
            let place = place.within(&format!("statement {}", at + 1));
            return Err(place
                .fault(format!("the Sid `{sid}` is there twice"), "Give each statement its own, or none."));
        }
        parsed.push(statement);
    }
    Ok(Policy { statements: parsed, document: json })
}

fn statement(json: &Json, at: usize, kind: Kind, variables: bool) -> Result<Statement, PolicyError> {
    let place = Place(format!("statement {}", at + 1));
    let [sid, effect, principal, not_principal, action, not_action, resource, not_resource, condition] =
        members(
            json,
            &place,
            [
                "Sid",
                "Effect",
                "Principal",
                "NotPrincipal",
                "Action",
                "NotAction",
                "Resource",
                "NotResource",
                "Condition",
            ],
        )?;
    let sid = optional_text(sid, &place, "Sid")?;
    if let Some(sid) = &sid
        && kind == Kind::Identity
        && !sid.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return Err(place.fault(
            format!("the Sid `{sid}` has other characters than letters and digits"),
            "Leave them out.",
        ));
    }
    let effect = match effect {
        Some(Json::String(text)) if text == "Allow" => Effect::Allow,
        Some(Json::String(text)) if text == "Deny" => Effect::Deny,
        Some(other) => {
            let fault = format!("Effect is {}", other.scalar().unwrap_or_else(|| other.kind().to_owned()));
            return Err(place.fault(fault, "Write \"Allow\" or \"Deny\"."));
        }
        None => return Err(place.fault("Effect is missing", "Write \"Allow\" or \"Deny\".")),
    };
    let principal = principal_element(principal, not_principal, kind, effect, &place)?;
    let actions = listed(action, not_action, "Action", &place, action_pattern)?;
    let resources = listed(resource, not_resource, "Resource", &place, |text, place| {
        resource_pattern(text, variables, place)
    })?;
    let conditions = match condition {
        None => Vec::new(),
        Some(json) => conditions(json, variables, &place.within("Condition"))?,
    };
    Ok(Statement { sid, effect, principal, actions, resources, conditions })
}

fn principal_element(
    principal: Option<&Json>,
    not_principal: Option<&Json>,
    kind: Kind,
    effect: Effect,
    place: &Place,
) -> Result<Option<PrincipalElement>, PolicyError> {
    let (json, inverted, name) = match (principal, not_principal, kind) {
        (None, None, Kind::Identity) => return Ok(None),
        (None, None, Kind::Resource) => {
            return Err(place.fault(
                "Principal is missing",
                "A policy of a resource says whom it is about: add \"Principal\".",
            ));
        }
        (Some(_), Some(_), _) => {
            return Err(place.fault("Principal and NotPrincipal are both there", "Keep one of them."));
        }
        (_, _, Kind::Identity) => {
            let next = "The policy of a principal is about that principal: leave it out.";
            return Err(place.fault("Principal is for policies of resources", next));
        }
        (Some(json), None, Kind::Resource) => (json, false, "Principal"),
        (None, Some(_), Kind::Resource) if effect == Effect::Allow => {
            let next = "It can only deny. Use \"Principal\" with a condition on aws:PrincipalArn.";
            return Err(place.fault("NotPrincipal would allow everybody else", next));
        }
        (None, Some(json), Kind::Resource) => (json, true, "NotPrincipal"),
    };
    PrincipalElement::parse(json, inverted, &place.within(name)).map(Some)
}

fn listed(
    plain: Option<&Json>,
    inverted: Option<&Json>,
    name: &str,
    place: &Place,
    pattern: impl Fn(&str, &Place) -> Result<Pattern, PolicyError>,
) -> Result<Listed, PolicyError> {
    let (json, inverted) = match (plain, inverted) {
        (Some(json), None) => (json, false),
        (None, Some(json)) => (json, true),
        (Some(_), Some(_)) => {
            return Err(place.fault(format!("{name} and Not{name} are both there"), "Keep one of them."));
        }
        (None, None) => {
            return Err(
                place.fault(format!("{name} is missing"), format!("Add \"{name}\", or \"Not{name}\"."))
            );
        }
    };
    let place = place.within(&if inverted { format!("Not{name}") } else { name.to_owned() });
    let values = json.one_or_many();
    if values.is_empty() {
        return Err(place.fault("it is empty", "Name at least one, or \"*\" for all."));
    }
    let patterns = values.iter().map(|value| match value {
        Json::String(text) => pattern(text, &place),
        other => Err(place.fault(format!("it has {}", other.kind()), "Write a string or a list of strings.")),
    });
    Ok(Listed { patterns: patterns.collect::<Result<_, _>>()?, inverted })
}

/// Variables have no meaning in an action.
fn action_pattern(text: &str, place: &Place) -> Result<Pattern, PolicyError> {
    let is_action = |service: &str, action: &str| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_*?".contains(c);
        !service.is_empty()
            && !action.is_empty()
            && service.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && action.chars().all(is_word)
    };
    if text != "*" && !text.split_once(':').is_some_and(|(service, action)| is_action(service, action)) {
        let next =
            "Write the service, a colon and the operation, such as dynamodb:GetItem or dynamodb:Batch*.";
        return Err(place.fault(format!("`{text}` is not an action"), next));
    }
    let syntax = Syntax { wildcards: true, variables: false };
    Pattern::new(text, syntax).map_err(|fault| place.fault(fault, "Mend it."))
}

fn resource_pattern(text: &str, variables: bool, place: &Place) -> Result<Pattern, PolicyError> {
    // A pattern that is shorter than an ARN ends in `*`, which stands for the rest.
    let is_arn = text.starts_with("arn:") && (text.split(':').count() >= 6 || text.ends_with('*'));
    if text != "*" && !is_arn {
        let next = "Write an ARN such as arn:aws:dynamodb:us-east-1:123456789012:table/orders, or \"*\".";
        return Err(place.fault(format!("`{text}` is neither an ARN nor \"*\""), next));
    }
    let syntax = Syntax { wildcards: true, variables };
    Pattern::new(text, syntax)
        .map_err(|fault| place.fault(fault, "Close it, or write ${$} for a dollar sign."))
}

fn conditions(json: &Json, variables: bool, place: &Place) -> Result<Vec<Condition>, PolicyError> {
    let Json::Object(operators) = json else {
        return Err(place.fault(format!("it is {}", json.kind()), "Write an object of operators."));
    };
    let mut conditions = Vec::new();
    for (operator, keys) in operators {
        let place = place.within(operator);
        let Json::Object(keys) = keys else {
            return Err(place.fault(format!("it is {}", keys.kind()), "Write an object of condition keys."));
        };
        for (key, values) in keys {
            let place = place.within(key);
            if !key.split_once(':').is_some_and(|(vendor, name)| !vendor.is_empty() && !name.is_empty()) {
                let next = "Write it with its service, such as aws:SourceIp or dynamodb:LeadingKeys.";
                return Err(place.fault(format!("`{key}` is not a condition key"), next));
            }
            if values.one_or_many().is_empty() {
                return Err(
                    place.fault(format!("`{key}` has no value"), "Write at least one, or leave the key out.")
                );
            }
            let values = values.one_or_many().iter().map(|value| {
                let next = "Write a string, a number, a boolean, or a list of those.";
                value.scalar().ok_or_else(|| place.fault(format!("a value is {}", value.kind()), next))
            });
            let values = values.collect::<Result<Vec<_>, _>>()?;
            conditions.push(Condition::parse(operator, key, &values, variables, &place)?);
        }
    }
    Ok(conditions)
}

/// The members of these names; no others may be there.
fn members<'a, const N: usize>(
    json: &'a Json,
    place: &Place,
    names: [&str; N],
) -> Result<[Option<&'a Json>; N], PolicyError> {
    let known = || format!("It has {}.", names.join(", "));
    let Json::Object(object) = json else {
        return Err(place.fault(format!("it is {}, not an object", json.kind()), known()));
    };
    if let Some((name, _)) = object.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        let like = names.iter().find(|known| known.eq_ignore_ascii_case(name));
        let next = like.map_or_else(known, |like| format!("It is written {like}."));
        return Err(place.fault(format!("`{name}` is not an element of it"), next));
    }
    Ok(names.map(|name| object.iter().find(|(other, _)| other == name).map(|(_, value)| value)))
}

fn optional_text(json: Option<&Json>, place: &Place, name: &str) -> Result<Option<String>, PolicyError> {
    match json {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(place.fault(format!("{name} is {}", other.kind()), "Write a string.")),
    }
}

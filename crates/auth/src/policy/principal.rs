//! Who a statement of a resource policy is about: `Principal` and `NotPrincipal`.
//!
//! An account stands for those its own administrator lets in: it is allowed, and its principals still need a policy of
//! their own. A principal that is named, or `*`, needs nothing more.

use super::PolicyError;
use super::parse::Place;
use crate::json::Json;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrincipalElement {
    names: Vec<Name>,
    /// `NotPrincipal`: everybody but these.
    inverted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Everyone,
    Account(String),
    Arn(String),
    /// A service or somebody of another identity provider, who cannot sign here.
    Elsewhere,
}

/// How a principal is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// In person, or as everybody.
    Itself,
    /// As one of its account.
    ByAccount,
    Not,
}

impl PrincipalElement {
    pub(super) fn meant(&self, arn: &str, account: &str) -> Meant {
        let itself = self.names.iter().any(|name| match name {
            Name::Everyone => true,
            Name::Arn(named) => named == arn,
            Name::Account(_) | Name::Elsewhere => false,
        });
        let by_account =
            self.names.iter().any(|name| matches!(name, Name::Account(named) if named == account));
        if self.inverted {
            // Whoever is spared has to be named, and so has its account: otherwise the account is what is meant.
            let is_everyone = self.names.contains(&Name::Everyone);
            return if is_everyone || itself && by_account { Meant::Not } else { Meant::Itself };
        }
        match (itself, by_account) {
            (true, _) => Meant::Itself,
            (false, true) => Meant::ByAccount,
            (false, false) => Meant::Not,
        }
    }

    pub(super) fn parse(json: &Json, inverted: bool, place: &Place) -> Result<Self, PolicyError> {
        let mut names = Vec::new();
        match json {
            Json::String(text) if text == "*" => names.push(Name::Everyone),
            Json::Object(members) => {
                for (kind, values) in members {
                    for value in values.one_or_many() {
                        let Json::String(text) = value else {
                            let fault = format!("{kind} is {}", value.kind());
                            return Err(place.fault(fault, "Write a string or a list of strings."));
                        };
                        names.push(name(kind, text, place)?);
                    }
                }
            }
            other => {
                let fault = format!(
                    "it is {}",
                    other.scalar().map_or(other.kind().to_owned(), |text| format!("`{text}`"))
                );
                return Err(
                    place.fault(fault, "Write \"*\", or an object such as {\"AWS\": \"123456789012\"}.")
                );
            }
        }
        Ok(Self { names, inverted })
    }
}

fn name(kind: &str, text: &str, place: &Place) -> Result<Name, PolicyError> {
    match kind {
        "AWS" => {}
        "Service" | "Federated" | "CanonicalUser" => return Ok(Name::Elsewhere),
        _ => {
            let fault = format!("`{kind}` is not a kind of principal");
            return Err(place.fault(fault, "Kinds are AWS, Service, Federated and CanonicalUser."));
        }
    }
    let is_account = |text: &str| text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    if text == "*" {
        return Ok(Name::Everyone);
    }
    if is_account(text) {
        return Ok(Name::Account(text.to_owned()));
    }
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    match parts.as_slice() {
        _ if text.contains(['*', '?']) => {
            let fault = format!("`{text}` has a wildcard");
            Err(place.fault(
                fault,
                "Name a whole ARN or account here, and narrow \"*\" by a condition on aws:PrincipalArn.",
            ))
        }
        ["arn", partition, "iam" | "sts", "", account, rest]
            if partition.starts_with("aws") && is_account(account) =>
        {
            Ok(match *rest {
                "root" => Name::Account((*account).to_owned()),
                _ => Name::Arn(text.to_owned()),
            })
        }
        _ => {
            let next = "Write \"*\", twelve digits, or an ARN such as arn:aws:iam::123456789012:user/alice.";
            Err(place.fault(format!("`{text}` is no AWS principal"), next))
        }
    }
}

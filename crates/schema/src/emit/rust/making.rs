//! How programs make what they give: from what must be given, and the rest by name. A field that may be left out can then be added to
//! a schema, and no program has to change.

use super::{Member, Module, Presence, argument, docs, fill};

/// Names of methods that are there anyway. A field called so has its setter under `with_`.
const TAKEN: [&str; 24] = [
    "borrow",
    "check",
    "clamp",
    "clone",
    "cmp",
    "default",
    "eq",
    "fmt",
    "from",
    "from_value",
    "ge",
    "gt",
    "hash",
    "into",
    "into_fields",
    "kept",
    "le",
    "lt",
    "max",
    "min",
    "ne",
    "new",
    "partial_cmp",
    "to_value",
];

impl Module<'_> {
    /// `new`, which takes what must be given, and a setter for each field that may be left out. `rest` is the member for what an
    /// open type keeps besides.
    ///
    /// What must be given is told apart by its types; where two are alike, it is given by name in a struct of its own.
    pub(super) fn making(&mut self, name: &str, members: &[Member<'_>], rest: Option<&str>) {
        let required: Vec<&Member<'_>> =
            members.iter().filter(|member| matches!(member.presence, Presence::Always)).collect();
        let mut filled = String::new();
        for member in members {
            match &member.presence {
                Presence::Always => continue,
                Presence::Or(default) => {
                    filled.push_str(&format!("            {}: {default},\n", member.identifier));
                }
                Presence::Perhaps => {
                    filled.push_str(&format!(
                        "            {}: ::std::option::Option::None,\n",
                        member.identifier
                    ));
                }
            }
        }
        if let Some(rest) = rest {
            filled.push_str(&format!("            {rest}: ::larder::Rest::new(),\n"));
        }
        let is_blank = rest.is_none() && members.iter().all(|it| matches!(it.presence, Presence::Perhaps));
        let new = match required.as_slice() {
            // It is derived.
            [] if is_blank => String::new(),
            [] => {
                self.write(
                    "
impl ::std::default::Default for $Name {
    fn default() -> Self {
        Self {
$filled        }
    }
}
",
                    &[("Name", name), ("filled", &filled)],
                );
                String::new()
            }
            required if have_distinct_types(required) => by_place(required, &filled),
            required => self.by_name(name, required, &filled),
        };
        let setters: String = members
            .iter()
            .filter(|member| !matches!(member.presence, Presence::Always))
            .map(|member| setter(member))
            .collect();
        if !(new.is_empty() && setters.is_empty()) {
            let methods = new + &setters;
            self.write("\nimpl $Name {\n$methods\n}\n", &[("Name", name), ("methods", methods.trim_end())]);
        }
    }

    /// `new` from a struct of what must be given.
    fn by_name(&mut self, name: &str, required: &[&Member<'_>], filled: &str) -> String {
        let of = self.names.claim(&[format!("{name}Required")]);
        let declared: String = required.iter().map(|member| member.declare()).collect();
        let secret = required.iter().any(|member| self.is_hidden(member.field));
        self.write(
            "
/// What must be given to make a [`$Name`]: it has no member for what may be left out.
#[derive($derives)]
pub struct $Of {
$declared}

impl ::std::convert::From<$Of> for $Name {
    fn from(required: $Of) -> Self {
        Self::new(required)
    }
}
",
            &[
                ("Name", name),
                ("Of", &of),
                ("declared", &declared),
                ("derives", if secret { "Clone, PartialEq" } else { "Clone, Debug, PartialEq" }),
            ],
        );
        let given: String = required
            .iter()
            .map(|member| format!("            {0}: required.{0},\n", member.identifier))
            .collect();
        fill(
            "    /// One with what must be given alone.
    pub fn new(required: $Of) -> Self {
        Self {
$given$filled        }
    }

",
            &[("Of", &of), ("given", &given), ("filled", filled)],
        )
    }
}

/// Whether nobody can take one argument for another.
fn have_distinct_types(required: &[&Member<'_>]) -> bool {
    let alike = |at: usize| required[..at].iter().any(|before| before.kind == required[at].kind);
    required.len() <= 3 && !(0..required.len()).any(alike)
}

fn by_place(required: &[&Member<'_>], filled: &str) -> String {
    let arguments: Vec<String> = required
        .iter()
        .map(|member| format!("{}: {}", member.identifier, argument(&member.kind, &member.identifier).0))
        .collect();
    let given: String = required
        .iter()
        .map(|member| {
            format!("            {}: {},\n", member.identifier, argument(&member.kind, &member.identifier).1)
        })
        .collect();
    fill(
        "    /// One with what must be given alone.
    pub fn new($arguments) -> Self {
        Self {
$given$filled        }
    }

",
        &[("arguments", &arguments.join(", ")), ("given", &given), ("filled", filled)],
    )
}

fn setter(member: &Member<'_>) -> String {
    let plain = member.identifier.trim_start_matches("r#");
    let name = if TAKEN.contains(&plain) { format!("with_{plain}") } else { member.identifier.clone() };
    let (accepted, value) = argument(&member.kind, "value");
    let value = match member.presence {
        Presence::Perhaps => format!("::std::option::Option::Some({value})"),
        Presence::Always | Presence::Or(_) => value,
    };
    let mut about = vec![format!("With `{}`.", member.field.name)];
    if !member.field.docs.is_empty() {
        about.push(String::new());
        about.extend(member.field.docs.iter().cloned());
    }
    fill(
        "$docs    #[must_use]
    pub fn $name(self, value: $accepted) -> Self {
        Self { $member: $value, ..self }
    }

",
        &[
            ("docs", &docs("    ", &about)),
            ("name", &name),
            ("accepted", &accepted),
            ("member", &member.identifier),
            ("value", &value),
        ],
    )
}

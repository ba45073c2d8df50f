//! Lifecycles: an enum of states, a handle, and the transitions as methods.
//!
//! Every transition is a method of the handle. One into a leased state takes a key and gives the lease; one out of
//! it takes the lease. A transition from states of both kinds is two methods: the second ends in `_held`.

use super::entities::Parts;
use super::names::identifier;
use super::{Module, docs, fill, pascal, quoted};
use crate::schema::{Entity, Lifecycle, Transition};

impl<'a> Module<'a> {
    /// The lifecycles of an entity. The answer is the methods of its handle that give them.
    pub(super) fn lifecycles(&mut self, entity: &'a Entity, handle: &str, parts: &Parts) -> String {
        let mut methods = String::new();
        let mut on_record = String::new();
        for lifecycle in &entity.lifecycles {
            let state = self.states[&(entity.name.as_str(), lifecycle.name.as_str())].clone();
            let about = states_docs(lifecycle, &parts.record);
            let texts: Vec<(&str, &[String])> =
                lifecycle.states.iter().map(|state| (state.name.as_str(), state.docs.as_slice())).collect();
            self.text_enum(&state, &about, &texts);

            let name = identifier(&lifecycle.name);
            on_record.push_str(&fill(
                "
    /// The state of `$plain` that it was read in.
    pub fn $name(&self) -> ::std::option::Option<$State> {
        self.kept().state($label)?.parse().ok()
    }
",
                &[
                    ("plain", &lifecycle.name),
                    ("name", &name),
                    ("State", &state),
                    ("label", &quoted(&lifecycle.name)),
                ],
            ));
            for transition in lifecycle.transitions.iter().filter(|it| way(lifecycle, it).starts_free()) {
                on_record.push_str(&self.transition_of_record(entity, lifecycle, transition, parts));
            }
            let made = self.names.claim(&[format!("{}{}Lifecycle", parts.record, pascal(&lifecycle.name))]);
            self.lifecycle(entity, lifecycle, &made, &state, parts);
            methods.push_str(&fill(
                "
$docs    pub fn $name(&self) -> $Made {
        let lifecycle = self.shelf.lifecycle($label).expect(\"the types and the system are made from one schema\");
        $Made { lifecycle }
    }
",
                &[
                    ("docs", &docs("    ", &lifecycle_docs(lifecycle, &parts.record))),
                    ("name", &name),
                    ("Made", &made),
                    ("label", &quoted(&lifecycle.name)),
                ],
            ));
            self.shortcut(entity, lifecycle, handle, &made);
        }
        if !on_record.is_empty() {
            self.write("\nimpl $Race {$methods}\n", &[("Race", &parts.record), ("methods", &on_record)]);
        }
        methods
    }

    /// `shops.crawl()`, where no other entity has a lifecycle of that name.
    fn shortcut(&mut self, entity: &'a Entity, lifecycle: &'a Lifecycle, handle: &str, made: &str) {
        let entities = self.schema.tables.iter().flat_map(|table| &table.entities);
        if entities.filter(|other| other.lifecycle(&lifecycle.name).is_some()).count() > 1 {
            return;
        }
        let about = lifecycle_docs(lifecycle, &self.known[entity.name.as_str()]);
        let body = format!("{handle} {{ shelf: self.system.shelf() }}.{}()", identifier(&lifecycle.name));
        self.shortcuts.push((lifecycle.name.clone(), made.to_owned(), about, body));
    }

    /// The handle of a lifecycle.
    fn lifecycle(&mut self, entity: &Entity, lifecycle: &Lifecycle, made: &str, state: &str, parts: &Parts) {
        let mut methods = fill(
            "    /// The state a record is in now, as the store has it.
    pub async fn state(
        &self,
        key: impl ::std::convert::Into<$Key>,
    ) -> ::std::result::Result<::std::option::Option<$State>, ::larder::Error> {
        let standing = self.lifecycle.standing(key).await?;
        ::std::result::Result::Ok(standing.and_then(|standing| standing.state.parse().ok()))
    }

    /// Records in a state, in the order of the index.
    pub fn in_state(&self, state: $State) -> ::larder::Listing<$Race> {
        self.lifecycle.in_state(state.as_str())
    }
",
            &[("State", state), ("Race", &parts.record), ("Key", &parts.key)],
        );
        for transition in &lifecycle.transitions {
            let (arguments, given) = self.parameters(entity, transition);
            let mut method = |name: &str, template: &str| {
                methods.push_str(&fill(
                    template,
                    &[
                        ("docs", &docs("    ", &transition_docs(transition))),
                        ("name", &identifier(name)),
                        ("Key", &parts.key),
                        ("arguments", &arguments),
                        ("Race", &parts.record),
                        ("given", &given),
                        ("label", &quoted(&transition.name)),
                    ],
                ));
            };
            match way(lifecycle, transition) {
                Way::Plain => method(&transition.name, BY_KEY),
                Way::Into => method(&transition.name, INTO_LEASE),
                Way::OutOf => method(&transition.name, OUT_OF_LEASE),
                Way::Both => {
                    method(&transition.name, BY_KEY);
                    method(&format!("{}_held", transition.name), OUT_OF_LEASE);
                }
            }
        }
        self.write(
            "
$docs#[derive(Clone, Debug)]
pub struct $Made {
    lifecycle: ::larder::Lifecycle<$Race>,
}

impl ::std::ops::Deref for $Made {
    type Target = ::larder::Lifecycle<$Race>;

    fn deref(&self) -> &Self::Target {
        &self.lifecycle
    }
}

impl $Made {
$methods}
",
            &[
                ("docs", &docs("", &lifecycle_docs(lifecycle, &parts.record))),
                ("Made", made),
                ("Race", &parts.record),
                ("methods", &methods),
            ],
        );
    }

    fn transition_of_record(
        &self,
        entity: &Entity,
        lifecycle: &Lifecycle,
        transition: &Transition,
        parts: &Parts,
    ) -> String {
        let others = entity.lifecycles.iter().flat_map(|lifecycle| &lifecycle.transitions);
        let shared = others.filter(|other| other.name == transition.name).count() > 1
            || entity.lifecycle(&transition.name).is_some()
            || ["key", "kept", "clone"].contains(&transition.name.as_str());
        let name = if shared {
            format!("{}_{}", transition.name, lifecycle.name)
        } else {
            identifier(&transition.name)
        };
        let (arguments, given) = self.parameters(entity, transition);
        fill(
            "
$docs    pub async fn $name(&self,$arguments) -> ::std::result::Result<Self, ::larder::Error> {
        let mut fields = ::larder::Fields::new();
$given        self.kept().run::<$Race>($lifecycle, $label, fields).await
    }
",
            &[
                ("docs", &docs("    ", &transition_docs(transition))),
                ("name", &name),
                ("arguments", &arguments),
                ("given", &given),
                ("Race", &parts.record),
                ("lifecycle", &quoted(&lifecycle.name)),
                ("label", &quoted(&transition.name)),
            ],
        )
    }

    /// What the caller says, as arguments and as what puts them into `fields`.
    fn parameters(&self, entity: &Entity, transition: &Transition) -> (String, String) {
        let (mut arguments, mut given) = (String::new(), String::new());
        for (name, value) in &transition.set {
            let (None, Some(field)) = (value, entity.field(name)) else { continue };
            let kind = self.kind(&entity.name, name, &field.kind);
            let (kind, argument) = super::argument(&kind, &identifier(name));
            arguments.push_str(&format!(" {}: {kind},", identifier(name)));
            given.push_str(&format!(
                "        ::larder::__private::give(&mut fields, {}, {argument});\n",
                quoted(name)
            ));
        }
        (arguments, given)
    }
}

const BY_KEY: &str = "
$docs    pub async fn $name(
        &self,
        key: impl ::std::convert::Into<$Key>,$arguments
    ) -> ::std::result::Result<$Race, ::larder::Error> {
        let mut fields = ::larder::Fields::new();
$given        self.lifecycle.run(key, $label, fields).await
    }
";

const INTO_LEASE: &str = "
$docs    pub async fn $name(
        &self,
        key: impl ::std::convert::Into<$Key>,$arguments
    ) -> ::std::result::Result<::larder::Lease<$Race>, ::larder::Error> {
        let mut fields = ::larder::Fields::new();
$given        self.lifecycle.hold_by(key, $label, fields).await
    }
";

const OUT_OF_LEASE: &str = "
$docs    pub async fn $name(
        &self,
        lease: ::larder::Lease<$Race>,$arguments
    ) -> ::std::result::Result<$Race, ::larder::Error> {
        let mut fields = ::larder::Fields::new();
$given        lease.run($label, fields).await
    }
";

/// How a transition is made.
#[derive(Clone, Copy)]
enum Way {
    /// By the key of the record.
    Plain,
    /// By taking a lease.
    Into,
    /// By whoever holds the lease.
    OutOf,
    /// By key from some states, by lease from others.
    Both,
}

impl Way {
    fn starts_free(self) -> bool {
        matches!(self, Self::Plain | Self::Both)
    }
}

fn way(lifecycle: &Lifecycle, transition: &Transition) -> Way {
    let leased = |name: &String| {
        lifecycle.states.iter().any(|state| state.name == *name && state.lease_millis.is_some())
    };
    if leased(&transition.to) {
        Way::Into
    } else if transition.from.iter().all(leased) {
        Way::OutOf
    } else if transition.from.iter().any(leased) {
        Way::Both
    } else {
        Way::Plain
    }
}

fn states_docs(lifecycle: &Lifecycle, record: &str) -> Vec<String> {
    vec![format!("The states of `{}` of a [`{record}`].", lifecycle.name)]
}

fn lifecycle_docs(lifecycle: &Lifecycle, record: &str) -> Vec<String> {
    if lifecycle.docs.is_empty() {
        return vec![format!("`{}` of a [`{record}`].", lifecycle.name)];
    }
    lifecycle.docs.clone()
}

fn transition_docs(transition: &Transition) -> Vec<String> {
    let step = format!("From {} to `{}`.", listed(&transition.from), transition.to);
    if transition.docs.is_empty() {
        return vec![step];
    }
    transition.docs.iter().cloned().chain([String::new(), step]).collect()
}

fn listed(states: &[String]) -> String {
    let quoted: Vec<String> = states.iter().map(|state| format!("`{state}`")).collect();
    quoted.join(" or ")
}

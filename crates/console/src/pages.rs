//! The pages, by address. Each module is one.
//!
//! ```text
//! /                                  systems, tables, what is in them
//! /traffic                           requests, units, hits and dollars over time
//! /find?q=                           entities, tables and fields by name
//! /browse/SYSTEM/ENTITY              records, by an index or all
//! /new/SYSTEM/ENTITY                 a record that is not there yet
//! /check/SYSTEM/ENTITY, /check/TABLE  what is wrong with a draft of a record, or of an item
//! /invalidate/SYSTEM/ENTITY          all records with something in common, the price first
//! /seed/SYSTEM/ENTITY                sample records
//! /progress/ID                       how far something is that takes a while
//! /board/SYSTEM/ENTITY/LIFECYCLE     records by state
//! /schema/SYSTEM                     the schema, what is wrong with it, drawn, its documentation, its cost
//! /tables, /tables/TABLE             what is deployed, and what the schema says of it; also /change, /delete, /apply
//! /create                            a table that no schema declares
//! /backups                           what tables can be brought back from
//! /items/TABLE                       items as they are stored
//! /item/TABLE?pk=&sk=                one item; also /edit, /delete, /reveal, /move, /history
//! /changes/TABLE                     what became of its items, as it comes
//! /statement?statement=              a PartiQL statement: what it costs, and what it finds or does
//! /requests                          what the server was asked
//! /sign-in, /sign-out                where keys are asked for; `http.rs` answers these
//! ```

mod board;
mod browse;
mod check;
mod cost;
mod drawing;
mod edit;
mod history;
mod import;
mod invalidate;
mod item;
mod layout;
mod overview;
mod requests;
mod schema;
mod seed;
pub(crate) mod sign_in;
mod statement;
mod tables;
mod traffic;
mod work;

use std::sync::Arc;

use hyper::StatusCode;
use larder::store::Deployed;
use larder::store::ops::{GetItem, ReturnCapacity};
use larder_model::{Item, TableName};
use larder_server::{Guest, Shown};
use maud::{Markup, html};

use crate::address::Given;
use crate::answer::{self, Answer};
use crate::deed::Deed;
use crate::house::{House, Kind, Known};
use crate::http::Desk;
use crate::keys;
use crate::query::{self, is_denied};

const STYLE: &str = include_str!("../assets/console.css");
const SCRIPT: &str = include_str!("../assets/console.js");

const ICON: &str = include_str!("../assets/icon.svg");

/// A request, as a page sees it.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) desk: &'a Desk,
    pub(crate) house: &'a House,
    /// Who asks, where that is known.
    pub(crate) guest: Option<&'a Guest>,
    /// What forms carry.
    pub(crate) token: &'a str,
    pub(crate) path: Vec<String>,
    pub(crate) given: Given,
    /// What was sent to be done, checked to be from a page of ours.
    pub(crate) form: Option<Given>,
}

/// What is asked, with the schemas at hand.
#[derive(Debug)]
struct Room<'a> {
    desk: &'a Desk,
    house: &'a House,
    guest: Option<&'a Guest>,
    token: &'a str,
    known: Arc<Known>,
    given: Given,
    form: Option<Given>,
}

/// Why there is no such page, or why something was not done.
#[derive(Debug)]
enum Fault {
    /// There is nothing of that name.
    Absent(String),
    /// The store says that this cannot be asked.
    Asked(String),
    /// It cannot be done, and why.
    Refused(String),
    /// Whoever asks may not.
    Denied(String),
    /// The store failed.
    Store(String),
}

impl From<larder::store::Error> for Fault {
    fn from(error: larder::store::Error) -> Self {
        match query::Wrong::from(error) {
            query::Wrong::Asked(text) => Self::Asked(text),
            query::Wrong::Denied(text) => Self::Denied(text),
            query::Wrong::Store(text) => Self::Store(text),
        }
    }
}

impl From<larder::Error> for Fault {
    fn from(error: larder::Error) -> Self {
        match error {
            larder::Error::Store(error) => error.into(),
            other => Self::Refused(other.to_string()),
        }
    }
}

type Page = Result<Answer, Fault>;

/// A file of ours, which everybody may have.
pub(crate) fn asset(path: &[String]) -> Option<Answer> {
    let ["assets", name] = path.iter().map(String::as_str).collect::<Vec<_>>()[..] else { return None };
    match name {
        "console.css" => Some(answer::asset("text/css; charset=utf-8", STYLE)),
        "icon.svg" => Some(answer::asset("image/svg+xml", ICON)),
        "console.js" => Some(answer::asset("text/javascript; charset=utf-8", SCRIPT)),
        _ => None,
    }
}

pub(crate) async fn answer(asked: Asked<'_>) -> Answer {
    let parts: Vec<&str> = asked.path.iter().map(String::as_str).collect();
    asked.desk.pulse.wake();
    let known = asked.house.known().await;
    let form = asked.form.map(|form| whole(asked.desk, &form)).transpose();
    let (form, forgotten) = form.map_or_else(|fault| (None, Some(fault)), |form| (form, None));
    let Asked { desk, house, guest, token, given, .. } = asked;
    let room = Room { desk, house, guest, token, known, given, form };
    if let Some(fault) = forgotten {
        return room.fault(fault);
    }
    let changes = room.form.is_some() && !matches!(parts.as_slice(), ["item", _, "reveal"] | ["check", ..]);
    let page = if changes && room.desk.read_only {
        Err(Fault::Refused(
            "This console is read-only: nothing was changed. Start it without --read-only to change data."
                .into(),
        ))
    } else {
        room.page(&parts).await
    };
    page.unwrap_or_else(|fault| room.fault(fault))
}

/// What marks a name in a form as that of something which was set aside.
const ASIDE: &str = "aside.";

/// A form with what was set aside when its page was made.
fn whole(desk: &Desk, form: &Given) -> Result<Given, Fault> {
    let pairs = form.iter().map(|(name, value)| match name.strip_prefix(ASIDE) {
        None => Ok((name.to_owned(), value.to_owned())),
        Some(name) => {
            let typed = desk.aside.get(value);
            let typed = typed.ok_or_else(|| {
                Fault::Refused(format!(
                    "Nothing was written: what you typed for `{}` is forgotten by now. Start over.",
                    name.trim_start_matches("field.")
                ))
            })?;
            Ok((name.to_owned(), typed))
        }
    });
    pairs.collect()
}

impl Room<'_> {
    /// Whether something is offered: whoever asks may do it, as far as that is known before.
    fn may(&self, deed: Deed<'_>) -> bool {
        !self.desk.read_only && self.guest.is_none_or(|guest| guest.might(&deed.request()))
    }

    /// Whether the form for something is shown, be it by its address. What is sent is decided by the endpoint.
    fn offered(&self, deed: Deed<'_>) -> Result<(), Fault> {
        if self.form.is_some() || self.may(deed) {
            Ok(())
        } else {
            Err(Fault::Denied(self.why_not().to_owned()))
        }
    }

    /// What is said where something is not offered.
    fn why_not(&self) -> &'static str {
        if self.desk.read_only {
            "This console is read-only."
        } else {
            "Your key may not do this: a policy in the access file of the server would have to allow it."
        }
    }

    /// Whether the way to the past of an item, or of a table, is offered.
    fn might_look_back(&self, table: &TableName, key: Option<&Item>) -> bool {
        self.guest.is_none_or(|guest| guest.might_look_back(table, key))
    }

    fn might_see(&self, what: Shown) -> bool {
        self.guest.is_none_or(|guest| guest.might_see(what))
    }

    fn may_see(&self, what: Shown) -> Result<(), Fault> {
        let seen = self.guest.map_or(Ok(()), |guest| guest.may_see(what));
        seen.map_err(|error| keys::refused(&error).into())
    }

    /// Whether the store is one of this process, so that nobody pays for it.
    fn is_free(&self) -> bool {
        self.house.store().is_embedded() || self.house.store().inside().is_some()
    }

    async fn page(&self, parts: &[&str]) -> Page {
        match (parts, &self.form) {
            ([], None) => overview::show(self).await,
            (["traffic"], None) => {
                self.may_see(Shown::Metrics)?;
                traffic::show(self)
            }
            (["find"], None) => Ok(overview::find(self)),
            (["browse", system, entity], None) => browse::records(self, &self.kind(system, entity)?).await,
            (["browse", system, entity, "delete"], Some(form)) => {
                browse::delete(self, self.kind(system, entity)?.name, form).await
            }
            (["new", system, entity], form) => {
                edit::new(self, &self.kind(system, entity)?, form.as_ref()).await
            }
            (["check", table], Some(form)) => check::item(self, &name(table)?, form),
            (["check", system, entity], Some(form)) => check::draft(&self.kind(system, entity)?, form),
            (["invalidate", system, entity], form) => {
                invalidate::show(self, &self.kind(system, entity)?, form.as_ref()).await
            }
            (["seed", system, entity], form) => seed::show(self, &self.kind(system, entity)?, form.as_ref()),
            (["progress", id], None) => work::show(self, id),
            (["board", system, entity, lifecycle], None) => {
                board::show(self, &self.kind(system, entity)?, lifecycle).await
            }
            (["schema", system], None) => schema::show(self, system),
            (["tables"], None) => tables::list(self).await,
            (["create"], form) => tables::create(self, form.as_ref()).await,
            (["backups"], None) => tables::all_backups(self, None).await,
            (["backups"], Some(form)) => tables::act_on_backups(self, form).await,
            (["tables", table], None) => tables::show(self, &name(table)?).await,
            (["tables", table, "change"], Some(form)) => tables::change(self, &name(table)?, form).await,
            (["tables", table, "delete"], form) => tables::delete(self, &name(table)?, form.as_ref()).await,
            (["tables", table, "apply"], form) => tables::apply(self, &name(table)?, form.as_ref()).await,
            (["items", table], None) => browse::items(self, &name(table)?).await,
            (["items", table, "delete"], Some(form)) => browse::delete(self, &name(table)?, form).await,
            (["items", table, "new"], form) => edit::new_item(self, &name(table)?, form.as_ref()).await,
            (["items", table, "import"], form) => import::show(self, &name(table)?, form.as_ref()).await,
            (["item", table], None) => item::show(self, &name(table)?, false).await,
            (["item", table, "reveal"], Some(_)) => item::show(self, &name(table)?, true).await,
            (["item", table, "edit"], form) => edit::edit(self, &name(table)?, form.as_ref()).await,
            (["item", table, "delete"], form) => edit::delete(self, &name(table)?, form.as_ref()).await,
            (["item", table, "history"], None) => history::item(self, &name(table)?).await,
            (["changes", table], None) => history::table(self, &name(table)?).await,
            (["statement"], form) => statement::show(self, form.as_ref()).await,
            (["requests"], None) => {
                self.may_see(Shown::Requests)?;
                requests::show(self)
            }
            (["item", table, "move"], Some(form)) => board::step(self, &name(table)?, form).await,
            _ => Err(Fault::Absent("There is no such page.".to_owned())),
        }
    }

    fn kind(&self, system: &str, entity: &str) -> Result<Kind<'_>, Fault> {
        let open = self.known.system(system);
        let open = open.ok_or_else(|| Fault::Absent(format!("No schema here is of a system `{system}`.")))?;
        open.entity(entity).ok_or_else(|| Fault::Absent(format!("{system} has no entity `{entity}`.")))
    }

    async fn deployed(&self, table: &TableName) -> Result<Deployed, Fault> {
        let deployed = match self.house.table(table, &self.known).await {
            // Who may read items needs no leave to see the table where a schema says what its keys are.
            Err(error) if is_denied(&error) => {
                let definition = self.known.table(table).and_then(|known| known.open.definition(table));
                let definition = definition.ok_or(error)?.clone();
                Some(Deployed { definition, busy: None, ttl_attribute: None, pitr_days: None })
            }
            deployed => deployed?,
        };
        deployed.ok_or_else(|| Fault::Absent(format!("There is no table {table}.")))
    }

    /// An item as it is now.
    async fn item(&self, table: &TableName, key: Item) -> Result<Option<Item>, Fault> {
        let (table, capacity) = (table.clone(), ReturnCapacity::None);
        let store = self.house.store_of(&table, &self.known);
        Ok(store.get_item(GetItem { table, key, projection: None, consistent: true, capacity }).await?)
    }

    /// A page of the console.
    fn page_of(&self, title: &str, here: &str, main: &Markup) -> Answer {
        answer::page(StatusCode::OK, layout::page(self, title, here, main))
    }

    /// The same, which says that something is wrong.
    fn page_wrong(&self, status: StatusCode, title: &str, here: &str, main: &Markup) -> Answer {
        answer::page(status, layout::page(self, title, here, main))
    }

    fn fault(&self, fault: Fault) -> Answer {
        let (status, title, text) = match fault {
            Fault::Absent(text) => (StatusCode::NOT_FOUND, "Not here", text),
            Fault::Asked(text) => (StatusCode::BAD_REQUEST, "Cannot be asked", text),
            Fault::Denied(text) => (StatusCode::FORBIDDEN, "Not allowed", text),
            Fault::Refused(text) if self.desk.read_only && self.form.is_some() => {
                (StatusCode::FORBIDDEN, "Not done", text)
            }
            Fault::Refused(text) => (StatusCode::CONFLICT, "Not done", text),
            Fault::Store(text) => (StatusCode::BAD_GATEWAY, "The store failed", text),
        };
        let main = html! {
            h1 { (title) }
            (layout::wrong(&text))
            p { a.button href="/" { "Overview" } }
        };
        self.page_wrong(status, title, "", &main)
    }
}

fn name(text: &str) -> Result<TableName, Fault> {
    TableName::new(text).map_err(|_| Fault::Absent(format!("`{text}` cannot be the name of a table.")))
}

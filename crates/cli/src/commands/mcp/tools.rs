//! The tools: for each the command it is, what it leaves out, and how its outcome is told.

use std::path::Path;

use clap::{Args, Command};
use larder::{Deleted, Entry, Unread, price};
use larder_schema::render_all;
use rmcp::model::{Tool as Described, ToolAnnotations};
use serde_json::{Map, Value as Json, json};

use super::super::cost::{Cost, Reckoned, show};
use super::super::{
    check::Check, drift::Drift, due, due::Due, explain::Explain, get::Get, put, query, query::Query, release,
    release::Release, rm::Rm, schema, schema::Schema, stuck::Stuck, transition::Transition,
};
use super::answer::{self, Answer, Shown};
use super::arguments;
use crate::data::{self, Kind, Target};
use crate::{project, terminal};

/// More records are asked for by the next page.
const RECORDS_MAX: usize = 100;

pub(super) struct Tool {
    pub(super) name: &'static str,
    /// Whether it changes anything.
    pub(super) writes: bool,
    /// What is told of it beside what the command says of itself.
    more: &'static str,
    command: fn(Command) -> Command,
    left_out: &'static [&'static str],
    own: Vec<(&'static str, Json)>,
    run: Box<Run>,
}

/// A command line, and what it does not hold → the answer.
type Run = dyn Fn(&[String], &Own) -> Result<Answer, String> + Send + Sync;

/// Arguments that the command does not have.
struct Own(Map<String, Json>);

impl Own {
    fn text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.0.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{name}` is a text")),
        }
    }
}

impl Tool {
    fn of<C: Args>(
        name: &'static str,
        more: &'static str,
        run: impl Fn(&C, &Own) -> Result<Answer, String> + Send + Sync + 'static,
    ) -> Self {
        let parse = move |line: &[String], own: &Own| {
            let command = C::augment_args(Command::new(name).disable_help_flag(true));
            let wrong = |error: clap::Error| {
                let told = error.to_string();
                // How a command line is written is no help here.
                let told = told.split("\n\nUsage:").next().unwrap_or_default();
                told.trim_start_matches("error: ").trim_end().to_owned()
            };
            let matches = command.try_get_matches_from(line).map_err(wrong)?;
            run(&C::from_arg_matches(&matches).map_err(wrong)?, own)
        };
        Self {
            name,
            writes: false,
            more,
            command: C::augment_args,
            left_out: &[],
            own: Vec::new(),
            run: Box::new(parse),
        }
    }

    fn without(mut self, left_out: &'static [&'static str]) -> Self {
        self.left_out = left_out;
        self
    }

    fn with(mut self, name: &'static str, property: Json) -> Self {
        self.own.push((name, property));
        self
    }

    /// Its answer is a text that may be long.
    fn in_parts(self) -> Self {
        self.with("cursor", json!({"type": "string", "description": "Go on where an answer ended"}))
    }

    fn writing(mut self) -> Self {
        self.writes = true;
        self
    }

    fn command(&self) -> Command {
        (self.command)(Command::new(self.name))
    }

    pub(super) fn describe(&self) -> Described {
        let command = self.command();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let about = if self.more.is_empty() { about } else { format!("{about}. {}", self.more) };
        let hints = ToolAnnotations::new().read_only(!self.writes).open_world(false);
        let hints = if self.writes { hints.destructive(matches!(self.name, "put" | "rm")) } else { hints };
        Described::new(self.name, about, arguments::schema(&command, self.left_out, &self.own))
            .with_annotations(hints)
    }

    pub(super) fn call(&self, mut given: Map<String, Json>, store: &str) -> Result<Answer, String> {
        for name in ["system", "entity"] {
            if let Some(Json::String(named)) = given.get(name) {
                check_sound(name, named)?;
            }
        }
        if let Some(Json::String(against)) = given.get("against")
            && (against.starts_with('-') || Path::new(against).is_file())
        {
            return Err(format!("`{against}` is no git revision, such as HEAD or main"));
        }
        let own = self.own.iter().filter_map(|(name, _)| Some(((*name).to_owned(), given.remove(*name)?)));
        let own = Own(own.collect());
        let line = arguments::line(&self.command(), self.left_out, given, store)?;
        (self.run)(&line, &own)
    }
}

/// A client means a system by its name, never a file. What is wrong with its schema is told to whoever asks: the command
/// tells it on stderr.
fn check_sound(argument: &str, named: &str) -> Result<(), String> {
    let system = match argument {
        "entity" => named.rsplit_once('.').map_or(named, |(system, _)| system),
        _ => named,
    };
    let is_word = system.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if system.is_empty() || !is_word {
        return Err(format!("`{system}` is no name of a system; `schema` lists them"));
    }
    if argument == "entity" && system == named {
        // The command says which entity may be meant.
        return Ok(());
    }
    let loaded = project::load(&project::named(system)?)?;
    if loaded.schema.is_some() {
        return Ok(());
    }
    let errors: Vec<_> = loaded.diagnostics.into_iter().filter(larder_schema::Diagnostic::is_error).collect();
    let told = render_all(&errors, &loaded.files, larder_schema::Colour::Plain);
    Err(format!("{told}{} in {}", terminal::count(errors.len(), "error"), loaded.files[0].name))
}

pub(super) fn all() -> Vec<Tool> {
    let field = json!({
        "type": "string",
        "description": "Only this field, as a text; a long one is given in parts",
    });
    let record = json!({
        "type": "object",
        "description": "The fields of the record, whole: what is not given is not kept",
        "additionalProperties": true,
    });
    vec![
        Tool::of(
            "schema",
            "Without a system: which systems, entities and indexes there are, and how each is asked for. With one: its \
             schema, as written, and its canonical form as structured content.",
            read_schema,
        )
        .without(&["json_schema"])
        .in_parts(),
        Tool::of("check", "All schemas of the project are checked.", check)
            .without(&["files", "data", "from", "limit", "samples", "fix", "yes"])
            .in_parts(),
        Tool::of("explain", "", explain).without(&["parameters"]).in_parts(),
        Tool::of("get", "", get).with("field", field).in_parts(),
        Tool::of("query", "With what it took and cost; with `explain`, the request and its price, and nothing is asked.", page),
        Tool::of("due", "", |due: &Due, _| standings(due.find()?)),
        Tool::of("stuck", "", |stuck: &Stuck, _| standings(stuck.find()?)),
        Tool::of(
            "cost",
            "From the workload its schema declares, or from that with other figures.",
            cost,
        )
        .without(&["measured", "since", "time", "prices"])
        .in_parts(),
        Tool::of("drift", "Of all schemas of the project.", drift).without(&["files"]).in_parts(),
        Tool::of("put", "It is checked by its schema, and all that is wrong is told.", put)
            .with("record", record)
            .writing(),
        Tool::of("rm", "", remove).writing(),
        Tool::of("transition", "Only what the schema declares happens.", step).writing(),
        Tool::of("release", "A lease that lives is left alone.", release).writing(),
    ]
}

fn read_schema(schema: &Schema, own: &Own) -> Result<Answer, String> {
    let cursor = own.text("cursor")?;
    let Some(named) = schema.named() else {
        let systems = schema::systems(&project::schemas(&[])?)?;
        let text: String = systems.iter().map(|system| format!("{system}\n")).collect();
        let systems: Vec<Json> = systems.iter().map(schema::System::to_json).collect();
        return Answer::part(&text, json!({"systems": systems}), cursor);
    };
    let path = project::named(named)?;
    let structured = data::system_at(&path).map(|schema| larder_schema::emit::json(&schema))?;
    Answer::part(&project::read(&path)?, structured, cursor)
}

fn check(check: &Check, own: &Own) -> Result<Answer, String> {
    let (text, found) = check.found()?;
    Answer::part(&text, found, own.text("cursor")?)
}

fn explain(explain: &Explain, own: &Own) -> Result<Answer, String> {
    let text = explain.text()?;
    Answer::part(&text, json!({"text": text}), own.text("cursor")?)
}

fn get(get: &Get, own: &Own) -> Result<Answer, String> {
    let (kind, found) = get.find()?;
    let entry = found.ok_or_else(|| get.missing())?;
    let mut members = data::object(&kind, &entry, false);
    let Some(field) = own.text("field")? else { return Ok(answer::record(Shown::new(members), [])) };
    let text = match members.remove(field) {
        Some(Json::String(text)) => text,
        Some(value) => value.to_string(),
        None => {
            let known: Vec<&str> = members.keys().map(String::as_str).collect();
            return Err(data::unknown("the record", "field", field, &known));
        }
    };
    Answer::part(&text, json!({"field": field, "bytes": text.len()}), own.text("cursor")?)
}

fn page(query: &Query, _: &Own) -> Result<Answer, String> {
    if query.is_explained() {
        let (_, explained) = query.explained()?;
        return Answer::part(&format!("{explained}\n"), query::as_json(&explained), None);
    }
    if query.limit() > RECORDS_MAX {
        return Err(format!("the limit is {RECORDS_MAX} records: go on with the cursor of the page"));
    }
    let (mut page, mut shown) = read(query, query.limit())?;
    let fitting = answer::room_for(&shown);
    if fitting < shown.len() {
        let units = page.units;
        // Only the store knows the cursor that stands behind a record. What was read keeps it open: it goes first.
        drop((page, shown));
        (page, shown) = read(query, fitting)?;
        page.units += units;
    }
    let units = price::Units { read: page.units, write: 0.0 };
    let mut notes = vec![format!("it took {units}")];
    notes.extend(unread(&page.unread));
    notes.extend(page.cursor.as_ref().map(|cursor| format!("there may be more: cursor {cursor}")));
    let mut answer = answer::records(shown, notes);
    answer.structured.insert("read_units".into(), json!(units.read));
    answer.structured.insert("dollars".into(), json!(units.dollars()));
    answer.structured.extend(page.cursor.map(|cursor| ("cursor".to_owned(), cursor.into())));
    Ok(answer)
}

fn read(query: &Query, limit: usize) -> Result<(larder::Page<Entry>, Vec<Shown>), String> {
    let (kind, page) = query.page(limit)?;
    let shown = page.items.iter().map(|entry| Shown::new(data::object(&kind, entry, false)));
    let shown = shown.collect();
    Ok((page, shown))
}

fn unread(unread: &Unread) -> Option<String> {
    (!unread.is_empty()).then(|| unread.to_string())
}

fn standings(found: due::Found) -> Result<Answer, String> {
    let due::Found { kind, standings, unread: left_out } = found;
    let all: Vec<Shown> = standings
        .iter()
        .map(|standing| {
            let record = Shown::new(data::object(&kind, &standing.record, false));
            record.within(|members| due::as_json(standing, &members))
        })
        .collect();
    let (there, fitting) = (all.len(), answer::room_for(&all).min(RECORDS_MAX));
    let mut notes: Vec<String> = unread(&left_out).into_iter().collect();
    if fitting < there {
        notes.push(format!("the first {fitting} of {there}: ask again when these are done"));
    }
    Ok(answer::records(all.into_iter().take(fitting).collect(), notes))
}

fn cost(cost: &Cost, own: &Own) -> Result<Answer, String> {
    let Reckoned { reports, mut left_out, failures } = cost.reckon()?;
    if reports.is_empty() {
        return Err(failures.join("\n"));
    }
    left_out.extend(failures);
    let mut text = cost.text(&reports);
    for why in &left_out {
        text += &format!("\nleft out: {why}\n");
    }
    let systems: Vec<Json> = reports.iter().map(show::json).collect();
    Answer::part(&text, json!({"systems": systems, "left_out": left_out}), own.text("cursor")?)
}

fn drift(drift: &Drift, own: &Own) -> Result<Answer, String> {
    let plan = drift.plan()?;
    Answer::part(&plan.to_string(), plan.to_json(), own.text("cursor")?)
}

/// `put` with its record as a document.
#[derive(Debug, Args)]
struct Put {
    #[command(flatten)]
    target: Target,
    /// Refuse when it is there already
    #[arg(long)]
    new: bool,
}

fn put(asked: &Put, own: &Own) -> Result<Answer, String> {
    let kind = asked.target.kind()?;
    let document = own.0.get("record").cloned().ok_or("`record` is missing")?;
    let fields = kind.draft(Some(document), &[])?;
    let put::Written { entry, changed } = put::write(&asked.target, &kind, fields, asked.new)?;
    let done = if changed { "written" } else { "unchanged" };
    Ok(told(&kind, &entry, &format!("{done}: {}", data::key_text(&kind, entry.kept().key()))))
}

fn remove(rm: &Rm, _: &Own) -> Result<Answer, String> {
    let (kind, (key, deleted)) = rm.remove()?;
    let done = format!("removed: {}", data::key_text(&kind, &key));
    match deleted {
        Deleted::Nothing => Err(rm.missing()),
        Deleted::Record(entry) => Ok(told(&kind, &entry, &done)),
        Deleted::Unreadable(why) => {
            let structured = json!({"notes": [done, format!("it could not be shown: {why}")]});
            Answer::part(&format!("{done}\n[it could not be shown: {why}]\n"), structured, None)
        }
    }
}

fn step(transition: &Transition, _: &Own) -> Result<Answer, String> {
    let (kind, moved) = transition.step()?;
    let entry = moved.ok_or_else(|| transition.missing())?;
    Ok(told(&kind, &entry, transition.done(&kind, &entry).trim_end()))
}

fn release(asked: &Release, _: &Own) -> Result<Answer, String> {
    let (kind, released) = asked.give_back()?;
    let entry = released.ok_or_else(|| asked.missing())?;
    Ok(told(&kind, &entry, release::done(&kind, &entry).trim_end()))
}

/// What was done to a record, and the record.
fn told(kind: &Kind, entry: &Entry, done: &str) -> Answer {
    answer::record(Shown::new(data::object(kind, entry, false)), [done.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_described_and_names_what_it_takes() {
        for tool in all() {
            let described = tool.describe();
            let about = described.description.expect("the command says what it does");
            assert!(about.len() > 20, "{}: {about}", tool.name);
            let properties = described.input_schema["properties"].as_object().expect("an object");
            for name in tool.left_out {
                assert!(!properties.contains_key(*name), "{}: {name}", tool.name);
                let known = tool.command().get_arguments().any(|arg| arg.get_id() == name);
                assert!(known, "{} has no argument {name} to leave out", tool.name);
            }
        }
    }

    #[test]
    fn a_file_is_no_name_of_a_system() {
        for (argument, named) in [
            ("system", "-"),
            ("system", "/etc/passwd"),
            ("system", "a.larder"),
            ("entity", "../x.Race"),
            ("system", ""),
        ] {
            let refused = check_sound(argument, named).expect_err("it is no name");
            assert!(refused.contains("is no name of a system"), "{named}: {refused}");
        }
    }
}

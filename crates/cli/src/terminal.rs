//! What people read: text to stdout, in colour only where colour is understood.

use std::borrow::Cow;
use std::env;
use std::io::{self, ErrorKind, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};
use larder_schema::{Colour, Diagnostic, Loaded, Schema, render_all};
pub(crate) use larder_serve::count;

/// Colour on a terminal, unless `NO_COLOR` is set.
pub(crate) fn colour() -> Colour {
    colour_of(&io::stdout())
}

pub(crate) fn error_colour() -> Colour {
    colour_of(&io::stderr())
}

fn colour_of(output: &impl IsTerminal) -> Colour {
    let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if output.is_terminal() && !unwanted { Colour::Ansi } else { Colour::Plain }
}

/// Writes to stdout. A reader that has left, as `head` does, is no error.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to stdout: {error}"))
        }
        _ => Ok(()),
    }
}

/// The schema, when it has no errors. They are told on stderr: stdout is for what was asked.
pub(crate) fn sound(loaded: Loaded) -> Option<Schema> {
    if loaded.schema.is_none() {
        let errors: Vec<Diagnostic> = loaded.diagnostics.into_iter().filter(Diagnostic::is_error).collect();
        eprint!("{}", render_all(&errors, &loaded.files, error_colour()));
        eprintln!("larder: {} in {}", count(errors.len(), "error"), loaded.files[0].name);
    }
    loaded.schema
}

/// A bar that counts what is done, of so many if that is known. It shows itself on a terminal alone.
pub(crate) fn progress(of: Option<u64>, what: impl Into<Cow<'static, str>>) -> ProgressBar {
    let (bar, template) = match of {
        Some(length) => (ProgressBar::new(length), "{spinner} [{pos}/{len}] {msg} {elapsed}"),
        None => (ProgressBar::no_length(), "{spinner} [{pos}] {msg} {elapsed}"),
    };
    let style = ProgressStyle::with_template(template).expect("the template is right");
    bar.with_style(style).with_message(what)
}

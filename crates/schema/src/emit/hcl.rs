//! HCL, laid out as `terraform fmt` does: two spaces, `=` and comments aligned within a group of lines.

pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// `${` and `%{` begin templates in HCL; doubling the sign takes that away.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '$' | '%' if rest.peek() == Some(&'{') => out.extend([c, c]),
            c => out.push(c),
        }
    }
    out
}

pub(super) struct Line {
    name: String,
    value: String,
    place: Option<String>,
}

impl Line {
    pub(super) fn new(name: impl Into<String>, value: impl Into<String>, place: Option<String>) -> Self {
        Self { name: name.into(), value: value.into(), place }
    }
}

/// HCL as it is written: an empty line stands before a block, unless it is the first in its own.
#[derive(Default)]
pub(super) struct Hcl {
    pub(super) text: String,
    depth: usize,
}

impl Hcl {
    pub(super) fn open(&mut self, head: &str, place: Option<String>) {
        if !self.text.is_empty() && !self.text.ends_with("{\n") {
            self.text.push('\n');
        }
        if let Some(place) = place {
            self.raw(&format!("# {place}"));
        }
        self.raw(&format!("{head} {{"));
        self.depth += 1;
    }

    pub(super) fn close(&mut self) {
        self.depth -= 1;
        self.raw("}");
    }

    pub(super) fn lines(&mut self, lines: &[Line]) {
        let width = |text: &str| text.chars().count();
        let name_width = lines.iter().map(|line| width(&line.name)).max().unwrap_or(0);
        // Comments are aligned with their neighbours: a line without one parts them.
        for run in lines.chunk_by(|a, b| a.place.is_some() == b.place.is_some()) {
            let value_width = run.iter().map(|line| width(&line.value)).max().unwrap_or(0);
            for Line { name, value, place } in run {
                match place {
                    Some(place) => {
                        self.raw(&format!("{name:name_width$} = {value:value_width$} # {place}"));
                    }
                    None => self.raw(&format!("{name:name_width$} = {value}")),
                }
            }
        }
    }

    /// A list with a line for each of its members.
    pub(super) fn list(&mut self, name: &str, members: impl IntoIterator<Item = String>) {
        self.raw(&format!("{name} = ["));
        for member in members {
            self.raw(&format!("  {member},"));
        }
        self.raw("]");
    }

    pub(super) fn raw(&mut self, line: &str) {
        self.text.extend(std::iter::repeat_n("  ", self.depth));
        self.text.push_str(line);
        self.text.push('\n');
    }
}

//! `larder completions`: what a shell needs to complete commands, options, and the entities of the schemas here.
//!
//! The script itself is fixed; names of the schemas are asked for as they are needed, by `larder completions names`.
//! Bash, fish and zsh complete entities, bash also what an entity has; the others complete commands and options.

use std::process::ExitCode;

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use larder_schema::schema::Index;

use crate::{project, terminal};

const PROGRAM: &str = "larder";

/// Print a script that completes commands and entities in a shell
///
/// bash: source <(larder completions bash); zsh: the same, after compinit; fish: larder completions fish | source
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Wanted,
    /// With `names`: the entity whose indexes and lifecycles are meant
    #[arg(hide = true)]
    of: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Wanted {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Elvish,
    /// What the schemas here have, for the scripts
    #[value(hide = true)]
    Names,
}

impl Completions {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let mut command = crate::Arguments::<crate::Command>::command();
        let text = match self.shell {
            Wanted::Bash => format!("{}{}", script(Shell::Bash, &mut command), bash(&command)),
            Wanted::Zsh => zsh(&script(Shell::Zsh, &mut command)),
            Wanted::Fish => format!("{}{}", script(Shell::Fish, &mut command), fish(&command)),
            Wanted::Powershell => script(Shell::PowerShell, &mut command),
            Wanted::Elvish => script(Shell::Elvish, &mut command),
            Wanted::Names => names(self.of.as_deref()),
        };
        terminal::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn script(shell: Shell, command: &mut Command) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, command, PROGRAM, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The entities of sound schemas, or the indexes and lifecycles of one. Who completes a line wants no messages between.
fn names(of: Option<&str>) -> String {
    let mut names = Vec::new();
    for path in project::schemas(&[]).unwrap_or_default() {
        let Some(schema) = project::load(&path).ok().and_then(|loaded| loaded.schema) else { continue };
        for table in &schema.tables {
            for entity in &table.entities {
                let name = format!("{}.{}", schema.system, entity.name);
                match of {
                    None => names.push(name),
                    Some(of) if *of == *name => {
                        let holds = |index: &&Index| entity.access(table, Some(index)).is_some();
                        let indexes = table.indexes.iter().filter(holds).map(|index| index.alias.clone());
                        names.extend(indexes);
                        names.extend(entity.lifecycles.iter().map(|lifecycle| lifecycle.name.clone()));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    names.into_iter().map(|name| format!("{name}\n")).collect()
}

/// The commands whose first argument is an entity.
fn of_entities(command: &Command) -> Vec<&str> {
    let first = |command: &Command| command.get_positionals().next().map(|first| first.get_id() == "entity");
    command.get_subcommands().filter(|sub| first(sub) == Some(true)).map(Command::get_name).collect()
}

/// After such a command the first word is an entity, and the next may be an index or a lifecycle of it.
fn bash(command: &Command) -> String {
    let commands = of_entities(command).join("|");
    format!(
        r#"
_larder_with_names() {{
    _larder "$@"
    local word="${{COMP_WORDS[COMP_CWORD]}}" of="" known
    case "${{COMP_WORDS[1]}}" in
        {commands})
            if [[ "$COMP_CWORD" -ge 2 && "$word" != -* ]]; then
                for known in "${{COMP_WORDS[@]:2:COMP_CWORD-2}}"; do
                    [[ "$known" == [a-z]*.[A-Z]* ]] && of="$known"
                done
                COMPREPLY=($(compgen -W "$(larder completions names $of 2>/dev/null)" -- "$word"))
            fi
            ;;
    esac
}}

complete -F _larder_with_names -o nosort -o bashdefault -o default larder 2>/dev/null ||
    complete -F _larder_with_names -o bashdefault -o default larder
"#
    )
}

fn fish(command: &Command) -> String {
    let commands = of_entities(command).join(" ");
    format!(
        "complete -c larder -n \"__fish_seen_subcommand_from {commands}\" -f -a \"(larder completions names 2>/dev/null)\"\n"
    )
}

/// The argument is in the script already; only what it is completed with changes.
fn zsh(script: &str) -> String {
    let lines = script.lines().map(|line| match line.trim_start().starts_with("':entity -- ") {
        true => line.replace(":_default'", ":_larder_entities'"),
        false => line.to_owned(),
    });
    let lines: Vec<String> = lines.collect();
    let function =
        "_larder_entities() {\n    compadd -- ${(f)\"$(larder completions names 2>/dev/null)\"}\n}\n";
    // The last line begins the completion, so what it needs stands before it.
    match lines.iter().rposition(|line| line.starts_with("if [ \"$funcstack[1]\"")) {
        Some(at) => format!("{}\n\n{function}\n{}\n", lines[..at].join("\n"), lines[at..].join("\n")),
        None => format!("{}\n{function}", lines.join("\n")),
    }
}

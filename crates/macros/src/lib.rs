//! `larder::schema!("…")`: a schema's entities, keys, handles and queries as Rust types.
//!
//! The macro finds the file, checks it and hands what is wrong to the compiler; what is right,
//! `larder_schema::emit::rust` turns into code. Nothing is written to disk.

#![deny(missing_docs)]

mod expand;

use std::path::Path;

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// Makes a module of typed records and handles from a `.larder` file.
///
/// The path is looked for beside the `Cargo.toml` of the crate, then in the directories above it up to the
/// root of the workspace. Included files are looked for beside the file itself. The module is called like the
/// system and is public; `schema!(pub(crate) mod name = "…")` says otherwise.
///
/// `schema!("…", derive(serde::Serialize, serde::Deserialize))` gives the types what else they are to derive. For serde's own the
/// program depends on `serde` with its feature `derive`, and on `larder` with its feature `serde`. Records as they are read are
/// serialized with their fields, secrets included, and cannot be deserialized: they remember where they were read.
///
/// What is wrong with the schema is a compile error that names the place in the `.larder` file.
#[proc_macro]
pub fn schema(input: TokenStream) -> TokenStream {
    let Asked { head, path, span, derives } = match parse(input) {
        Ok(parsed) => parsed,
        Err((message, span)) => return error(&message, span),
    };
    let Some(manifest) = std::env::var_os("CARGO_MANIFEST_DIR") else {
        return error("CARGO_MANIFEST_DIR is not set: build with cargo", span);
    };
    let code = expand::expand(Path::new(&manifest), &path, head.as_deref(), &derives);
    match code.and_then(|code| code.parse().map_err(|cause| format!("this is a bug in larder: {cause}"))) {
        Ok(tokens) => tokens,
        Err(message) => error(&message, span),
    }
}

/// What the macro was given.
struct Asked {
    /// What stands before the module's brackets, if that is said.
    head: Option<String>,
    path: String,
    /// Where the path stands.
    span: Span,
    /// Paths of what the types derive besides.
    derives: Vec<String>,
}

fn parse(input: TokenStream) -> Result<Asked, (String, Span)> {
    const USAGE: &str = "write `schema!(\"schemas/name.larder\")`, `schema!(pub mod name = \"schemas/name.larder\")`, \
                         or either with `, derive(serde::Serialize)` behind it";
    let usage = |span| (USAGE.to_owned(), span);
    let mut tokens: Vec<TokenTree> = input.into_iter().collect();
    let derives = derives(&mut tokens);
    let last = tokens.pop().ok_or_else(|| usage(Span::call_site()))?;
    let span = last.span();
    let written = last.to_string();
    let path = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let path = path.filter(|path| !path.contains('\\')).ok_or_else(|| usage(span))?.to_owned();
    let head = match tokens.pop() {
        None => None,
        Some(TokenTree::Punct(equals)) if equals.as_char() == '=' => {
            let module = tokens.iter().any(|token| token.to_string() == "mod");
            if !module {
                return Err(usage(equals.span()));
            }
            Some(tokens.into_iter().collect::<TokenStream>().to_string())
        }
        Some(other) => return Err(usage(other.span())),
    };
    Ok(Asked { head, path, span, derives })
}

/// Takes `, derive(…)` off the end.
fn derives(tokens: &mut Vec<TokenTree>) -> Vec<String> {
    let [.., TokenTree::Punct(comma), TokenTree::Ident(derive), TokenTree::Group(group)] = tokens.as_slice()
    else {
        return Vec::new();
    };
    if comma.as_char() != ',' || derive.to_string() != "derive" || group.delimiter() != Delimiter::Parenthesis
    {
        return Vec::new();
    }
    let paths = group.stream().to_string();
    tokens.truncate(tokens.len() - 3);
    let named = |path: &str| path.split_whitespace().collect::<String>();
    paths.split(',').map(named).filter(|path| !path.is_empty()).collect()
}

/// `compile_error!` at a place.
fn error(message: &str, span: Span) -> TokenStream {
    let mut literal = Literal::string(message);
    literal.set_span(span);
    let mut bang = Punct::new('!', Spacing::Alone);
    bang.set_span(span);
    let mut group = Group::new(Delimiter::Brace, TokenTree::Literal(literal).into());
    group.set_span(span);
    [TokenTree::Ident(Ident::new("compile_error", span)), TokenTree::Punct(bang), TokenTree::Group(group)]
        .into_iter()
        .collect()
}

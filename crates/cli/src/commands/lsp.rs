//! `larder lsp`: help for editors, over stdin and stdout.
//!
//! Messages are handled one after the other: loading a schema takes a few milliseconds, so nothing is done in
//! the background and an answer always fits the text the editor last sent. Hover goes on working while a schema
//! has errors, with what was true when it last had none.

mod colours;
mod completion;
mod positions;
mod rename;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use larder_schema::{SETTINGS, Severity, SymbolKind, format, hover, symbol_at};
use lsp_server::{Connection, ErrorCode, Message, Notification, ProtocolError, Request, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidCloseTextDocument, DidOpenTextDocument, Notification as _, PublishDiagnostics,
};
use lsp_types::request::{
    CodeActionRequest, Completion, Formatting, GotoDefinition, HoverRequest, PrepareRenameRequest,
    References, Rename, Request as _, SemanticTokensFullRequest,
};
use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOptions, CodeActionOrCommand, CodeActionParams,
    CodeActionProviderCapability, CompletionOptions, CompletionParams, CompletionResponse,
    DiagnosticRelatedInformation, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, DocumentFormattingParams, GotoDefinitionParams, GotoDefinitionResponse, Hover,
    HoverContents, HoverParams, HoverProviderCapability, Location, MarkupContent, MarkupKind, NumberOrString,
    OneOf, PositionEncodingKind, PrepareRenameResponse, PublishDiagnosticsParams, Range, ReferenceParams,
    RenameOptions, RenameParams, SemanticTokens, SemanticTokensFullOptions, SemanticTokensOptions,
    SemanticTokensParams, ServerCapabilities, TextDocumentPositionParams, TextDocumentSyncCapability,
    TextDocumentSyncKind, TextEdit, WorkspaceEdit,
};
use serde_json::{Value, json};

use workspace::{Analysis, Workspace};

/// Help editors: diagnostics as you type, hover, completion, rename, fixes, formatting, colours
///
/// Speaks the Language Server Protocol on stdin and stdout. An editor starts it; editors/ says how.
#[derive(Debug, Args)]
pub(crate) struct Lsp {
    /// How to talk; stdin and stdout are the only way, and some editors say so
    #[arg(long)]
    stdio: bool,
}

impl Lsp {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let (connection, threads) = Connection::stdio();
        let ended = serve(&connection);
        // The threads end when the connection does.
        drop(connection);
        let ended = ended.map_err(|error| format!("the editor broke the protocol: {error}"))?;
        threads.join().map_err(|error| format!("cannot talk to the editor: {error}"))?;
        Ok(ended)
    }
}

/// Success when the editor said goodbye, as the protocol asks.
fn serve(connection: &Connection) -> Result<ExitCode, ProtocolError> {
    let (id, _) = connection.initialize_start()?;
    connection.initialize_finish(id, introduction())?;
    let mut workspace = Workspace::default();
    for message in &connection.receiver {
        let answers = match message {
            Message::Request(request) => {
                if connection.handle_shutdown(&request)? {
                    return Ok(ExitCode::SUCCESS);
                }
                vec![answer(&workspace, request).into()]
            }
            Message::Notification(notification) => notice(&mut workspace, notification),
            // Nothing is asked of the editor.
            Message::Response(_) => Vec::new(),
        };
        for message in answers {
            if connection.sender.send(message).is_err() {
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::FAILURE)
}

fn introduction() -> Value {
    let capabilities = ServerCapabilities {
        position_encoding: Some(PositionEncodingKind::UTF16),
        text_document_sync: Some(TextDocumentSyncCapability::Kind(TextDocumentSyncKind::FULL)),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(["{", ":", "."].map(str::to_owned).to_vec()),
            ..CompletionOptions::default()
        }),
        definition_provider: Some(OneOf::Left(true)),
        references_provider: Some(OneOf::Left(true)),
        rename_provider: Some(OneOf::Right(RenameOptions {
            prepare_provider: Some(true),
            work_done_progress_options: Default::default(),
        })),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QUICKFIX]),
            ..CodeActionOptions::default()
        })),
        semantic_tokens_provider: Some(
            SemanticTokensOptions {
                legend: colours::legend(),
                full: Some(SemanticTokensFullOptions::Bool(true)),
                ..SemanticTokensOptions::default()
            }
            .into(),
        ),
        document_formatting_provider: Some(OneOf::Left(true)),
        ..ServerCapabilities::default()
    };
    json!({
        "capabilities": capabilities,
        "serverInfo": {"name": "larder", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn answer(workspace: &Workspace, request: Request) -> Response {
    let Request { id, method, params } = request;
    let result = match method.as_str() {
        HoverRequest::METHOD => read(params).map(|params| json!(hover_at(workspace, &params))),
        GotoDefinition::METHOD => read(params).map(|params| json!(definition(workspace, &params))),
        Completion::METHOD => read(params).map(|params| json!(complete(workspace, &params))),
        Formatting::METHOD => read(params).map(|params| json!(formatting(workspace, &params))),
        References::METHOD => read(params).map(|params| json!(references(workspace, &params))),
        CodeActionRequest::METHOD => read(params).map(|params| json!(fixes(workspace, &params))),
        SemanticTokensFullRequest::METHOD => read(params).map(|params| json!(colours(workspace, &params))),
        PrepareRenameRequest::METHOD => read(params).map(|params| json!(renamed(workspace, &params))),
        Rename::METHOD => match read(params).map(|params| renaming(workspace, &params)) {
            Ok(Ok(edit)) => Ok(json!(edit)),
            Ok(Err(why)) => return Response::new_err(id, ErrorCode::RequestFailed as i32, why),
            Err(why) => Err(why),
        },
        _ => {
            let code = ErrorCode::MethodNotFound as i32;
            return Response::new_err(id, code, format!("larder does not know {method}"));
        }
    };
    match result {
        Ok(value) => Response::new_ok(id, value),
        Err(why) => Response::new_err(id, ErrorCode::InvalidParams as i32, format!("{method}: {why}")),
    }
}

/// What the editor tells. Anything that is not known or not understood needs no answer.
fn notice(workspace: &mut Workspace, notification: Notification) -> Vec<Message> {
    let Notification { method, params } = notification;
    let touched = match method.as_str() {
        DidOpenTextDocument::METHOD => read(params).map(|params: DidOpenTextDocumentParams| {
            workspace.open(params.text_document.uri, params.text_document.text)
        }),
        DidChangeTextDocument::METHOD => read(params).map(|params: DidChangeTextDocumentParams| {
            // Each change is the whole text, so the last one is what the editor shows.
            match params.content_changes.into_iter().next_back() {
                Some(change) => workspace.open(params.text_document.uri, change.text),
                None => Vec::new(),
            }
        }),
        DidCloseTextDocument::METHOD => {
            read(params).map(|params: DidCloseTextDocumentParams| workspace.close(&params.text_document.uri))
        }
        _ => return Vec::new(),
    };
    touched.unwrap_or_default().iter().filter_map(|path| publish(workspace, path)).collect()
}

fn read<T: for<'de> serde::Deserialize<'de>>(params: Value) -> Result<T, String> {
    serde_json::from_value(params).map_err(|error| error.to_string())
}

fn publish(workspace: &Workspace, path: &Path) -> Option<Message> {
    let diagnostics = workspace.analysis(path).map_or_else(Vec::new, |(analysis, file)| {
        let here = |diagnostic: &&larder_schema::Diagnostic| diagnostic.span.file == file;
        let shown = analysis.loaded.diagnostics.iter().filter(here);
        shown.map(|diagnostic| as_shown(workspace, analysis, diagnostic)).collect()
    });
    let params = PublishDiagnosticsParams { uri: workspace.uri(path)?, diagnostics, version: None };
    Some(Notification::new(PublishDiagnostics::METHOD.to_owned(), params).into())
}

fn as_shown(
    workspace: &Workspace,
    analysis: &Analysis,
    diagnostic: &larder_schema::Diagnostic,
) -> lsp_types::Diagnostic {
    let mut message = diagnostic.message.clone();
    let label = (!diagnostic.label.is_empty()).then_some(&diagnostic.label);
    for line in label.into_iter().chain(&diagnostic.notes) {
        message += "\n";
        message += line;
    }
    for help in &diagnostic.helps {
        message += "\nhelp: ";
        message += help;
    }
    let related = diagnostic.others.iter().filter_map(|(span, label)| {
        let location = location(workspace, analysis, *span)?;
        Some(DiagnosticRelatedInformation { location, message: label.clone() })
    });
    lsp_types::Diagnostic {
        range: analysis.range(diagnostic.span).unwrap_or_default(),
        severity: Some(match diagnostic.severity {
            Severity::Error => lsp_types::DiagnosticSeverity::ERROR,
            Severity::Warning => lsp_types::DiagnosticSeverity::WARNING,
        }),
        code: Some(NumberOrString::String(diagnostic.code.to_owned())),
        source: Some("larder".to_owned()),
        message,
        related_information: Some(related.collect()),
        ..lsp_types::Diagnostic::default()
    }
}

fn location(workspace: &Workspace, analysis: &Analysis, span: larder_schema::Span) -> Option<Location> {
    let path = analysis.paths.get(span.file as usize)?;
    Some(Location { uri: workspace.uri(path)?, range: analysis.range(span)? })
}

/// Where the editor's cursor is: the schema, the file in it, the offset in that.
fn cursor<'a>(
    workspace: &'a Workspace,
    params: &TextDocumentPositionParams,
) -> Option<(&'a Analysis, u32, usize)> {
    let (analysis, file) = workspace.analysis(&workspace::path(&params.text_document.uri))?;
    let text = &analysis.loaded.files.get(file as usize)?.text;
    Some((analysis, file, positions::offset(text, params.position)))
}

fn hover_at(workspace: &Workspace, params: &HoverParams) -> Option<Hover> {
    let (analysis, file, at) = cursor(workspace, &params.text_document_position_params)?;
    let (value, span) = match symbol_at(&analysis.loaded.symbols, file, at) {
        Some((symbol, span)) => {
            let plain = || format!("**{}** `{}`\n", symbol.kind.word(), symbol.name);
            (analysis.schema.as_ref().map_or_else(plain, |schema| hover(schema, symbol)), span)
        }
        None => {
            let text = &analysis.loaded.files[file as usize].text;
            let begun = completion::beginning_at(file, text, at)?;
            (beginning(analysis, &begun)?, begun.span)
        }
    };
    Some(Hover {
        contents: HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value }),
        range: analysis.range(span),
    })
}

/// What an editor shows for the word that begins a statement: keys as they are built, or what a setting means.
fn beginning(analysis: &Analysis, begun: &completion::Beginning<'_>) -> Option<String> {
    let (block, name) = begun.block;
    if begun.word == "key" {
        let kind = if block == "entity" { SymbolKind::Entity } else { SymbolKind::Table };
        let mut symbols = analysis.loaded.symbols.iter();
        let symbol = symbols.find(|symbol| symbol.kind == kind && symbol.name == name)?;
        return Some(hover(analysis.schema.as_ref()?, symbol));
    }
    let fits =
        |rule: &&larder_schema::SettingRule| begun.places.contains(&rule.place) && rule.name == begun.word;
    let rule = SETTINGS.iter().find(fits)?;
    Some(format!("**setting** `{} {}`\n\n{}\n", rule.name, rule.form, rule.meaning))
}

fn references(workspace: &Workspace, params: &ReferenceParams) -> Option<Vec<Location>> {
    let (analysis, file, at) = cursor(workspace, &params.text_document_position)?;
    let (symbol, _) = symbol_at(&analysis.loaded.symbols, file, at)?;
    let declared = params.context.include_declaration.then_some(&symbol.span);
    let spans = declared.into_iter().chain(&symbol.references);
    Some(spans.filter_map(|span| location(workspace, analysis, *span)).collect())
}

/// For each diagnostic in the range that has one, the edit that its hint tells.
fn fixes(workspace: &Workspace, params: &CodeActionParams) -> Option<Vec<CodeActionOrCommand>> {
    let (analysis, file) = workspace.analysis(&workspace::path(&params.text_document.uri))?;
    let text = &analysis.loaded.files.get(file as usize)?.text;
    let (start, end) =
        (positions::offset(text, params.range.start), positions::offset(text, params.range.end));
    let touched = analysis.loaded.diagnostics.iter().filter(|diagnostic| {
        let span = diagnostic.span;
        span.file == file && span.start as usize <= end && start <= span.end as usize
    });
    let actions = touched.filter_map(|diagnostic| {
        let fix = diagnostic.fix.as_ref()?;
        let Location { uri, range } = location(workspace, analysis, fix.span)?;
        let edit = TextEdit { range, new_text: fix.text.clone() };
        Some(CodeActionOrCommand::CodeAction(CodeAction {
            title: format!("Write `{}`", fix.text),
            kind: Some(CodeActionKind::QUICKFIX),
            diagnostics: Some(vec![as_shown(workspace, analysis, diagnostic)]),
            edit: Some(WorkspaceEdit {
                changes: Some([(uri, vec![edit])].into()),
                ..WorkspaceEdit::default()
            }),
            is_preferred: Some(true),
            ..CodeAction::default()
        }))
    });
    Some(actions.collect())
}

fn colours(workspace: &Workspace, params: &SemanticTokensParams) -> Option<SemanticTokens> {
    let (analysis, file) = workspace.analysis(&workspace::path(&params.text_document.uri))?;
    let source = analysis.loaded.files.get(file as usize)?;
    let data = colours::tokens_of(file, source, &analysis.loaded.symbols);
    Some(SemanticTokens { result_id: None, data })
}

fn renamed(workspace: &Workspace, params: &TextDocumentPositionParams) -> Option<PrepareRenameResponse> {
    let (analysis, file, at) = cursor(workspace, params)?;
    rename::prepare(analysis, file, at)
}

fn renaming(workspace: &Workspace, params: &RenameParams) -> Result<WorkspaceEdit, String> {
    let found = cursor(workspace, &params.text_document_position);
    let (analysis, file, at) = found.ok_or("this file is not open")?;
    rename::rename(workspace, analysis, (file, at), &params.new_name)
}

fn definition(workspace: &Workspace, params: &GotoDefinitionParams) -> Option<GotoDefinitionResponse> {
    let (analysis, file, at) = cursor(workspace, &params.text_document_position_params)?;
    let (symbol, _) = symbol_at(&analysis.loaded.symbols, file, at)?;
    location(workspace, analysis, symbol.span).map(GotoDefinitionResponse::Scalar)
}

fn complete(workspace: &Workspace, params: &CompletionParams) -> Option<CompletionResponse> {
    let (analysis, file, at) = cursor(workspace, &params.text_document_position)?;
    let text = &analysis.loaded.files[file as usize].text;
    Some(CompletionResponse::Array(completion::complete(&analysis.loaded.symbols, file, text, at)))
}

/// No edits when it is laid out already or does not parse.
fn formatting(workspace: &Workspace, params: &DocumentFormattingParams) -> Option<Vec<TextEdit>> {
    let text = workspace.text(&workspace::path(&params.text_document.uri))?;
    let laid_out = format(text);
    if laid_out == text {
        return Some(Vec::new());
    }
    let all = Range { start: positions::position(text, 0), end: positions::position(text, text.len()) };
    Some(vec![TextEdit { range: all, new_text: laid_out }])
}

//! `larder mcp`: tools for assistants and agents, by the Model Context Protocol, over stdin and stdout.
//!
//! Each tool is a command of this program: its arguments are the command's own, as clap knows them, and it does what the
//! command does, by the same function. What differs is the answer: text and structured content, of a bounded size, with a
//! cursor where there is more, and never a secret.
//!
//! The store is opened for each call and let go after it: whoever asks waits most of the time, and one process at a time
//! has a store's directory.

mod answer;
mod arguments;
mod tools;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use larder::Address;
use larder::store::STORE_VARIABLE;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use tokio::task;

use super::plan;
use crate::project;
use answer::Answer;
use tools::Tool;

/// Help assistants and agents: the schemas, records, queries with their price, what is due, costs, drift
///
/// Speaks the Model Context Protocol on stdin and stdout. A client starts it; docs/mcp.md says how. Nothing is written
/// without --write, secrets are never shown, and no answer is larger than 48 KB.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// The directory whose schemas are meant: those in its schemas/, or in itself [default: where it was started]
    #[arg(long, value_name = "DIRECTORY")]
    project: Option<PathBuf>,
    /// Where the tables are: a directory, dynamodb: (AWS) or dynamodb:http://HOST:PORT
    #[arg(long, env = STORE_VARIABLE, value_name = "STORE", default_value_t = Address::default())]
    store: Address,
    /// Also give the tools that write: put, rm, transition and release
    #[arg(long)]
    write: bool,
}

impl Mcp {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        if self.store == Address::Memory {
            return Err(
                "memory: is empty for each call: name a directory, or the server that keeps it, with --store"
                    .to_owned(),
            );
        }
        if let Some(directory) = &self.project {
            let cannot = |error| format!("cannot work in {}: {error}", directory.display());
            env::set_current_dir(directory).map_err(cannot)?;
        }
        let server =
            Server { tools: tools::all().into(), store: self.store.to_string().into(), write: self.write };
        plan::runtime()?.block_on(async {
            let broken = |error: &dyn std::fmt::Display| format!("the client broke the protocol: {error}");
            let running = server.serve(stdio()).await.map_err(|error| broken(&error))?;
            running.waiting().await.map_err(|error| broken(&error))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

struct Server {
    tools: Arc<[Tool]>,
    store: Arc<str>,
    write: bool,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("larder", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions(self.write))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let given = self.tools.iter().filter(|tool| self.write || !tool.writes);
        Ok(ListToolsResult::with_all_items(given.map(Tool::describe).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(at) = self.tools.iter().position(|tool| tool.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        };
        let (tools, store, write) = (Arc::clone(&self.tools), Arc::clone(&self.store), self.write);
        // Commands wait as commands do, each on a thread of its own.
        let called = task::spawn_blocking(move || {
            let tool = &tools[at];
            if tool.writes && !write {
                return Err(format!("`{}` writes: start `larder mcp` with --write to allow that", tool.name));
            }
            tool.call(request.arguments.unwrap_or_default(), &store)
        });
        let answered =
            called.await.map_err(|_| ErrorData::internal_error("the call ended with a panic", None))?;
        Ok(result(answered).into())
    }
}

fn result(answered: Result<Answer, String>) -> CallToolResult {
    match answered {
        Ok(Answer { text, structured }) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = Some(structured.into());
            result
        }
        Err(message) => CallToolResult::error(vec![ContentBlock::text(answer::cut(message))]),
    }
}

/// What a client should know before it asks.
fn instructions(write: bool) -> String {
    let mut text = "Records of a store, by the schemas that say what is kept there. An entity is named SYSTEM.ENTITY, and \
                    a record by the fields of its key. `schema` tells what there is: read it first. Every answer is a \
                    page: where there is more, it has a `cursor` to go on with. "
        .to_owned();
    text += if write { "Writes are checked by the schema." } else { "Nothing can be written." };
    match project::schemas(&[]).and_then(|paths| super::schema::systems(&paths)) {
        Ok(systems) => {
            for system in systems {
                text += &format!("\n{system}");
            }
        }
        Err(why) => text += &format!("\nThere is no schema yet: {why}"),
    }
    answer::cut(text)
}

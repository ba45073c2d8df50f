//! `larder lsp` as an editor meets it: a process, framed messages, answers in time.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(30);

const SCHEMA: &str = r#"system lunch
param keep: duration = 14d
table cache {
  key  pk
  ttl  ttl
  entity Menu {
    key  "{restaurant}-{year}-{week:02}"
    ttl  keep
    restaurant: string lower nonempty   // 😀 食堂
    year:       int in 2000..=2999
    week:       int in 1..=53
    dishes:     [Dish]
  }
}
/// 😀 What is eaten.
type Dish { name: string }
"#;

struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    requests: i64,
}

impl Editor {
    /// A server that has been greeted.
    fn start() -> (Self, Value) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_larder"))
            .arg("lsp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary was built with this test");
        let mut output = BufReader::new(child.stdout.take().expect("the output is piped"));
        let input = child.stdin.take();
        let (tell, messages) = mpsc::channel();
        thread::spawn(move || {
            while let Some(message) = next_message(&mut output) {
                if tell.send(message).is_err() {
                    return;
                }
            }
        });
        let mut editor = Self { child, input, messages, requests: 0 };
        let hello = editor.ask("initialize", json!({"processId": null, "rootUri": null, "capabilities": {}}));
        editor.tell("initialized", json!({}));
        (editor, hello)
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let input = self.input.as_mut().expect("it is still talked to");
        write!(input, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("the server reads");
        input.flush().expect("the server reads");
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests pass `json!` in place")]
    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests pass `json!` in place")]
    fn answer(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params}));
        loop {
            let message = self.messages.recv_timeout(LIMIT).expect("an answer in time");
            if message["id"] == self.requests {
                return message;
            }
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let message = self.answer(method, params);
        assert!(message["error"].is_null(), "{message}");
        message["result"].clone()
    }

    /// The diagnostics published next, for this document.
    fn diagnostics(&mut self, uri: &str) -> Vec<Value> {
        loop {
            let message = self.messages.recv_timeout(LIMIT).expect("diagnostics in time");
            if message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri {
                return message["params"]["diagnostics"].as_array().expect("a list").clone();
            }
        }
    }

    fn open(&mut self, uri: &str, text: &str) -> Vec<Value> {
        let document = json!({"uri": uri, "languageId": "larder", "version": 1, "text": text});
        self.tell("textDocument/didOpen", json!({"textDocument": document}));
        self.diagnostics(uri)
    }

    fn change(&mut self, uri: &str, text: &str) -> Vec<Value> {
        let document = json!({"uri": uri, "version": 2});
        self.tell(
            "textDocument/didChange",
            json!({"textDocument": document, "contentChanges": [{"text": text}]}),
        );
        self.diagnostics(uri)
    }

    /// Its exit code after it was told goodbye.
    fn end(mut self) -> Option<i32> {
        assert_eq!(self.ask("shutdown", Value::Null), Value::Null);
        self.tell("exit", Value::Null);
        self.input = None;
        // The pipe closes when it ends, and then no more messages can come.
        assert!(
            self.messages
                .recv_timeout(LIMIT)
                .is_err_and(|error| error == mpsc::RecvTimeoutError::Disconnected)
        );
        self.child.wait().expect("it has ended").code()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // Both fail only when it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn next_message(output: &mut impl BufRead) -> Option<Value> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.parse::<usize>().ok();
        }
    }
    let mut body = vec![0; length?];
    output.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// A position right after these words.
fn after(text: &str, words: &str) -> Value {
    let at = text.find(words).expect("the words are there") + words.len();
    let line = text[..at].matches('\n').count();
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    json!({"line": line, "character": text[start..at].encode_utf16().count()})
}

fn at(uri: &str, text: &str, words: &str) -> Value {
    json!({"textDocument": {"uri": uri}, "position": after(text, words)})
}

#[test]
fn it_says_what_it_can_do_and_ends_when_told() {
    let (editor, hello) = Editor::start();
    let capabilities = &hello["capabilities"];
    assert_eq!(capabilities["positionEncoding"], "utf-16");
    assert_eq!(capabilities["textDocumentSync"], 1);
    for provider in
        ["hoverProvider", "definitionProvider", "referencesProvider", "documentFormattingProvider"]
    {
        assert_eq!(capabilities[provider], true, "{provider}");
    }
    assert_eq!(hello["serverInfo"]["name"], "larder");
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn diagnostics_follow_the_text() {
    let (mut editor, _) = Editor::start();
    let uri = "file:///nowhere/lunch.larder";
    assert_eq!(editor.open(uri, SCHEMA), Vec::<Value>::new());

    let found = editor.change(uri, &SCHEMA.replace("restaurant: string", "restaurant: strng"));
    assert!(found.iter().all(|one| one["source"] == "larder"), "{found:?}");
    let unknown = found.iter().find(|one| one["code"] == "L0201").expect("`strng` is not a type");
    assert_eq!(unknown["severity"], 1);
    assert!(unknown["message"].as_str().is_some_and(|text| text.contains("did you mean `string`?")));
    assert_eq!(unknown["range"]["start"], json!({"line": 8, "character": 16}));
    assert_eq!(unknown["range"]["end"], json!({"line": 8, "character": 21}));

    assert_eq!(editor.change(uri, SCHEMA), Vec::<Value>::new());
    editor.tell("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    assert_eq!(editor.diagnostics(uri), Vec::<Value>::new());
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn columns_after_an_astral_character_count_it_twice() {
    let (mut editor, _) = Editor::start();
    let uri = "untitled:Untitled-1";
    let text = "system a\ntable things {\n  key  \"😀\" /  \n}\n";
    let found = editor.open(uri, text);
    assert_eq!(found[0]["range"]["start"], json!({"line": 2, "character": 15}), "{found:?}");
    let text =
        "system a\ntable t {\n  name  \"😀{nobody}\"\n  key id\n entity E { id: string nonempty }\n}\n";
    let found = editor.change(uri, text);
    let unknown = found.iter().find(|one| one["code"] == "L0201").expect("`nobody` is not a param");
    assert_eq!(unknown["range"]["start"]["line"], 2);
    assert_eq!(unknown["range"]["start"]["character"], 12, "{unknown}");
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn hover_shows_the_built_key_and_goes_on_in_a_broken_text() {
    let (mut editor, _) = Editor::start();
    let uri = "file:///nowhere/lunch.larder";
    editor.open(uri, SCHEMA);
    let shown = editor.ask("textDocument/hover", at(uri, SCHEMA, "entity Me"));
    let text = shown["contents"]["value"].as_str().expect("Markdown").to_owned();
    assert!(text.contains("**entity** `Menu`") && text.contains("`pk` = `restaurant-2"), "{text}");
    let setting = editor.ask("textDocument/hover", at(uri, SCHEMA, "key  pk\n  tt"));
    assert!(
        setting["contents"]["value"].as_str().is_some_and(|text| text.contains("**setting** `ttl NAME`")),
        "{setting}"
    );

    let broken = SCHEMA.replace("type Dish {", "type Dish { other: strng, ");
    editor.change(uri, &broken);
    let still = editor.ask("textDocument/hover", at(uri, &broken, "entity Me"));
    assert_eq!(still["contents"]["value"], text.as_str());
    assert_eq!(editor.ask("textDocument/hover", at(uri, &broken, "// 😀")), Value::Null);
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn names_are_completed_and_lead_to_their_definition() {
    let (mut editor, _) = Editor::start();
    let uri = "file:///nowhere/lunch.larder";
    editor.open(uri, SCHEMA);
    for (words, expected) in [
        ("key  \"{", "restaurant"),
        ("ttl  keep\n    ", "on_error"),
        ("    ttl  ", "keep"),
        ("year:       ", "decimal"),
        ("dishes:     [", "Dish"),
    ] {
        let offered = editor.ask("textDocument/completion", at(uri, SCHEMA, words));
        let labels: Vec<&str> =
            offered.as_array().expect("a list").iter().filter_map(|one| one["label"].as_str()).collect();
        assert!(labels.contains(&expected), "{words:?}: {labels:?}");
    }
    let uri_of_map = "file:///nowhere/map.larder";
    let with_map = SCHEMA.replace("[Dish]", "map<string, Dish>");
    editor.open(uri_of_map, &with_map);
    for (words, expected) in [("dishes:     ", "map<string, "), ("map<", "string"), ("map<string, ", "Dish")]
    {
        let offered = editor.ask("textDocument/completion", at(uri_of_map, &with_map, words));
        let mut labels = offered.as_array().expect("a list").iter().map(|one| &one["label"]);
        assert!(labels.any(|label| label == expected), "{words:?}: {offered}");
    }
    for (words, definition) in [("    ttl  ke", "param "), ("[Di", "type "), ("\"{rest", "ttl  keep\n    ")] {
        let found = editor.ask("textDocument/definition", at(uri, SCHEMA, words));
        assert_eq!(found["uri"], uri);
        assert_eq!(found["range"]["start"], after(SCHEMA, definition), "{words}");
    }
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn a_document_is_laid_out_by_one_edit() {
    let (mut editor, _) = Editor::start();
    let uri = "file:///nowhere/lunch.larder";
    let messy = "system lunch\n   param   keep: duration = 14d   // 😀";
    editor.open(uri, messy);
    let options = json!({"textDocument": {"uri": uri}, "options": {"tabSize": 2, "insertSpaces": true}});
    let edits = editor.ask("textDocument/formatting", options.clone());
    assert_eq!(edits[0]["range"]["end"], after(messy, "// 😀"));
    let tidy = edits[0]["newText"].as_str().expect("a text").to_owned();
    assert_eq!(tidy, "system lunch\nparam keep: duration = 14d   // 😀\n");
    editor.change(uri, &tidy);
    assert_eq!(editor.ask("textDocument/formatting", options), json!([]));
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn a_hint_is_an_edit() {
    let (mut editor, _) = Editor::start();
    let uri = "file:///nowhere/lunch.larder";
    let broken = SCHEMA.replace("restaurant: string", "restaurant: strng").replace("[Dish]", "[Dsh]");
    editor.open(uri, &broken);
    let fixes = |editor: &mut Editor, words: &str| {
        let place = after(&broken, words);
        let range = json!({"start": place, "end": place});
        let params = json!({"textDocument": {"uri": uri}, "range": range, "context": {"diagnostics": []}});
        editor.ask("textDocument/codeAction", params)
    };
    let found = fixes(&mut editor, "restaurant: str");
    assert_eq!(found[0]["title"], "Write `string`");
    assert_eq!(found[0]["kind"], "quickfix");
    assert_eq!(found[0]["diagnostics"][0]["code"], "L0201");
    let edit = &found[0]["edit"]["changes"][uri][0];
    assert_eq!(edit["newText"], "string");
    assert_eq!(edit["range"]["start"], after(&broken, "restaurant: "));
    assert_eq!(edit["range"]["end"], after(&broken, "restaurant: strng"));
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!(fixes(&mut editor, "[Ds")[0]["title"], "Write `Dish`");
    assert_eq!(fixes(&mut editor, "param ke"), json!([]));
    assert_eq!(editor.end(), Some(0));
}

/// The text after a rename, or why there is none.
fn renamed(editor: &mut Editor, uri: &str, text: &str, words: &str, name: &str) -> Result<String, String> {
    let mut params = at(uri, text, words);
    params["newName"] = name.into();
    let answer = editor.answer("textDocument/rename", params);
    if let Some(why) = answer["error"]["message"].as_str() {
        return Err(why.to_owned());
    }
    let offset = |place: &Value| {
        let (line, column) = (place["line"].as_u64(), place["character"].as_u64());
        let (line, column) = (line.expect("a line") as usize, column.expect("a column") as usize);
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let units = text[start..].char_indices().scan(0, |sum, (at, c)| {
            *sum += c.len_utf16();
            Some((at, *sum - c.len_utf16()))
        });
        start + units.filter(|(_, units)| *units == column).map(|(at, _)| at).next().expect("a place")
    };
    let mut edits: Vec<(usize, usize, String)> = answer["result"]["changes"][uri]
        .as_array()
        .expect("edits of this file")
        .iter()
        .map(|edit| {
            let text = edit["newText"].as_str().expect("a text").to_owned();
            (offset(&edit["range"]["start"]), offset(&edit["range"]["end"]), text)
        })
        .collect();
    edits.sort();
    let mut text = text.to_owned();
    for (start, end, new) in edits.into_iter().rev() {
        text.replace_range(start..end, &new);
    }
    Ok(text)
}

#[test]
fn a_name_is_renamed_wherever_it_is_used_and_stays_in_the_store() {
    let (mut editor, _) = Editor::start();
    let uri = "file:///nowhere/lunch.larder";
    editor.open(uri, SCHEMA);
    let place = editor.ask("textDocument/prepareRename", at(uri, SCHEMA, "[Di"));
    assert_eq!(place["placeholder"], "Dish");
    for (words, name, old, new) in [
        ("[Di", "Course", vec!["[Dish]", "type Dish"], vec!["[Course]", "type Course"]),
        ("ttl  ke", "kept", vec!["param keep:", "ttl  keep"], vec!["param kept:", "ttl  kept"]),
        (
            "{rest",
            "place",
            vec!["\"{restaurant}", "restaurant: string"],
            vec!["\"{place}", "place as restaurant: string"],
        ),
        ("    dish", "courses", vec!["dishes: "], vec!["courses as dishes: "]),
        ("type Dish { na", "called", vec!["{ name: "], vec!["{ called as name: "]),
        ("entity Me", "Week", vec!["entity Menu"], vec!["entity Week"]),
    ] {
        let mut expected = SCHEMA.to_owned();
        for (old, new) in old.iter().zip(&new) {
            expected = expected.replace(old, new);
        }
        assert_eq!(renamed(&mut editor, uri, SCHEMA, words, name), Ok(expected), "{words}");
    }
    for (words, name, why) in [
        ("table ca", "menus", "`cache` is a name in the store as well"),
        ("entity Me", "Dish", "Dish"),
        ("    ye", "week", "week"),
        ("    ye", "the year", "`the year` is no name"),
        ("// 😀", "x", "there is no name here"),
    ] {
        let refused = renamed(&mut editor, uri, SCHEMA, words, name).expect_err(words);
        assert!(refused.contains(why), "{words}: {refused}");
    }
    let broken = SCHEMA.replace("[Dish]", "[Dsh]");
    editor.change(uri, &broken);
    let refused = renamed(&mut editor, uri, &broken, "entity Me", "Week").expect_err("it has errors");
    assert_eq!(refused, "the schema has errors: mend them before you rename");
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn states_and_indexes_keep_their_names_in_the_store() {
    let (mut editor, _) = Editor::start();
    let uri = "file:///nowhere/runs.larder";
    let text = r#"system runs
table runs {
  name "all-runs"
  key  id
  index ByState as by_state  state / at  project keys
  index ByAt  day / at  project all
  entity Run {
    id:  uuid
    day: string nonempty
    at:  instant = now
    lifecycle state {
      state waiting, busy "BUSY"
      begin: waiting -> busy
    }
  }
}
"#;
    assert_eq!(editor.open(uri, text).iter().find(|one| one["severity"] == 1), None);
    let hover = editor.ask("textDocument/hover", at(uri, text, "as by_st"));
    let hover = hover["contents"]["value"].as_str().expect("Markdown");
    assert!(
        hover.contains("a write takes 2 write units ($1.25 a million) more, an entry read 0.5 read units"),
        "{hover}"
    );
    for (words, name, expected) in [
        ("table ru", "executions", Ok(text.replace("table runs", "table executions"))),
        ("as by_st", "by_standing", Ok(text.replace("as by_state", "as by_standing"))),
        ("    beg", "start", Ok(text.replace("begin:", "start:"))),
        ("-> bu", "working", Ok(text.replace("busy", "working"))),
        ("state wai", "idle", Err("items say it as their state")),
    ] {
        match (renamed(&mut editor, uri, text, words, name), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{words}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{words}: {found}"),
            (found, _) => panic!("{words}: {found:?}"),
        }
    }
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn an_open_file_counts_before_the_one_on_disk() {
    let (mut editor, _) = Editor::start();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path().canonicalize().expect("it exists");
    std::fs::write(dir.join("whole.larder"), "system lunch\ninclude \"part.larder\"\n")
        .expect("it is writable");
    std::fs::write(dir.join("part.larder"), "type Dish { name: string }\n").expect("it is writable");
    let whole = format!("file://{}/whole.larder", dir.display());
    let part = format!("file://{}/part.larder", dir.display());
    // The part has no system of its own; it is checked with the file that includes it.
    assert_eq!(editor.open(&part, "type Dish { name: string }\n"), Vec::<Value>::new());
    let found = editor.change(&part, "type Dish { name: strng }\n");
    assert_eq!(found[0]["code"], "L0201");
    let shown = editor.open(&whole, "system lunch\ninclude \"part.larder\"\ntype Menu { dishes: [Dish] }\n");
    assert_eq!(shown, Vec::<Value>::new());
    let text = "system lunch\ninclude \"part.larder\"\ntype Menu { dishes: [Dish] }\n";
    let found = editor.ask("textDocument/definition", at(&whole, text, "[Di"));
    assert_eq!(found["uri"], part.as_str());
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn what_is_not_understood_is_refused_and_does_no_harm() {
    let (mut editor, _) = Editor::start();
    let unknown = editor.answer("textDocument/declaration", json!({}));
    assert_eq!(unknown["error"]["code"], -32601);
    let shapeless = editor.answer("textDocument/hover", json!({"textDocument": 7}));
    assert_eq!(shapeless["error"]["code"], -32602);
    editor.tell("textDocument/didOpen", json!([]));
    editor.tell("$/setTrace", json!({"value": "off"}));
    let nowhere = json!({"textDocument": {"uri": "file:///nowhere/unopened.larder"}, "position": {"line": 9, "character": 9}});
    assert_eq!(editor.ask("textDocument/hover", nowhere), Value::Null);
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn leaving_without_goodbye_is_a_failure() {
    let (mut editor, _) = Editor::start();
    editor.input = None;
    assert!(
        editor.messages.recv_timeout(LIMIT).is_err_and(|error| error == mpsc::RecvTimeoutError::Disconnected)
    );
    assert_eq!(editor.child.wait().expect("it has ended").code(), Some(1));
}

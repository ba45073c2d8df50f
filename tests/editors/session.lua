-- A person's session in Neovim: a schema is opened, mended, completed, renamed and laid out, by what Neovim itself has.
-- Run by `run`, as nvim --headless --clean -c "luafile session.lua". LARDER_BIN, LARDER_PARSER and
-- LARDER_GRAMMAR say what is tried. Anything that does not hold ends it with exit code 1 and says what.

local larder = assert(os.getenv("LARDER_BIN"))
local PATIENCE = 20000

local SCHEMA = [[
system lunch
param keep: duration = 14d
table cache {
  name "lunch-cache"
  key  pk
  ttl  ttl
  index ByYear as by_year  year / cached_at  project keys
  entity Menu {
    key  "{restaurant}-{year}-{week:02}"
    ttl  keep
    restaurant: strng lower nonempty   // 😀 食堂
    year:       int in 2000..=2999
    week:       int in 1..=53
    cached_at:  instant = now
    dishes:     [Dish]
  }
}
type Dish {    name: string }
]]

local function check(held, what)
  if not held then
    error(what, 2)
  end
  print("ok    " .. what)
end

local function wait(what, held)
  check(vim.wait(PATIENCE, held, 20), what)
end

local function lines()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, true), "\n") .. "\n"
end

-- The cursor on the first byte of what is found.
local function to(words, skip)
  local at = assert(lines():find(words, 1, true), words) + (skip or 0)
  local before = lines():sub(1, at - 1)
  local _, line = before:gsub("\n", "")
  vim.api.nvim_win_set_cursor(0, { line + 1, #before:match("[^\n]*$") })
end

local function ask(method, params)
  params = params or vim.lsp.util.make_position_params(0, "utf-16")
  local answers = assert(vim.lsp.buf_request_sync(0, method, params, PATIENCE), method)
  local _, answer = next(answers)
  assert(not answer.error, vim.inspect(answer.error))
  return answer.result
end

local function labels(words)
  to(words, #words)
  -- A cursor behind the last character of a line is a cursor of insert mode.
  local params = vim.lsp.util.make_position_params(0, "utf-16")
  local found = {}
  for _, item in ipairs(ask("textDocument/completion", params)) do
    found[item.label] = true
  end
  return found
end

local function session()
  local dir = vim.fn.tempname()
  vim.fn.mkdir(dir .. "/schemas", "p")
  local file = dir .. "/schemas/lunch.larder"
  vim.fn.writefile(vim.split(SCHEMA, "\n", { trimempty = true }), file)
  vim.cmd("edit " .. file)
  vim.bo.filetype = "larder"

  local config = { name = "larder", cmd = { larder, "lsp" }, root_dir = dir }
  local client
  if vim.lsp.start then
    client = vim.lsp.start(config)
  else
    client = vim.lsp.start_client(config)
    vim.lsp.buf_attach_client(0, client)
  end
  check(client, "the server is started")

  wait("what is wrong is shown", function()
    return #vim.diagnostic.get(0) > 0
  end)
  local problem
  for _, one in ipairs(vim.diagnostic.get(0)) do
    if one.code == "L0201" or one.message:find("strng") then
      problem = one
    end
  end
  check(problem and problem.message:find("did you mean `string`?", 1, true), "with a way out")
  check(problem.lnum == 10 and problem.col == 16 and problem.end_col == 21, "in its place")

  -- The hint, as an edit; a person would choose it from a list.
  to("strng")
  vim.ui.select = function(items, _, chosen)
    chosen(items[1], 1)
  end
  vim.lsp.buf.code_action()
  wait("the hint is applied", function()
    return lines():find("restaurant: string lower", 1, true)
  end)
  wait("and nothing is wrong any more", function()
    return #vim.diagnostic.get(0) == 0
  end)

  check(labels("dishes:     [")["Dish"], "types are completed")
  check(labels("key  \"{")["restaurant"], "fields are completed in a template")
  check(labels("    ttl  ")["keep"], "params are completed")

  to("entity Menu", 8)
  local hover = ask("textDocument/hover").contents.value
  check(hover:find("`pk` = `restaurant-2", 1, true), "hover shows an entity's key as it is built")
  to("key  \"{")
  check(ask("textDocument/hover").contents.value == hover, "and so it does at `key`")
  to("by_year")
  hover = ask("textDocument/hover").contents.value
  check(hover:find("Menu: about %d+ bytes; a write takes 2 write units %(%$1.25 a million%) more") , "hover shows what an index costs")

  -- A field: in the template of the key, in the index and where it is declared.
  to("year:  ")
  vim.lsp.buf.rename("since")
  wait("a field is renamed where it is used", function()
    local text = lines()
    return text:find('key  "{restaurant}-{since}-{week:02}"', 1, true)
      and text:find("index ByYear as by_year  since / cached_at", 1, true)
  end)
  check(lines():find("since as year:", 1, true), "and its name in the store stays")
  wait("so that nothing is wrong", function()
    return #vim.diagnostic.get(0) == 0
  end)
  to("system lunch")
  local references = vim.lsp.util.make_position_params(0, "utf-16")
  references.position = { line = 1, character = 7 }
  references.context = { includeDeclaration = true }
  check(#ask("textDocument/references", references) == 2, "where a name is used is found")

  local colours = ask("textDocument/semanticTokens/full", { textDocument = vim.lsp.util.make_text_document_params() })
  -- `system`, at the beginning, a keyword: its line, column, length and kind.
  check(vim.deep_equal(vim.list_slice(colours.data, 1, 5), { 0, 0, 6, 4, 0 }), "words have colours by their meaning")

  if vim.lsp.buf.format then
    vim.lsp.buf.format({ timeout_ms = PATIENCE })
  else
    vim.lsp.buf.formatting_sync(nil, PATIENCE)
  end
  check(lines():find("type Dish { name: string }", 1, true), "it is laid out")
  vim.cmd("write")
  local told = vim.fn.system({ larder, "check", file })
  check(vim.v.shell_error == 0, "what was saved is sound: " .. told)

  -- The grammar, as Neovim colours by it.
  local parser = assert(os.getenv("LARDER_PARSER"))
  local language = vim.treesitter.language
  if language and language.add then
    language.add("larder", { path = parser })
  else
    vim.treesitter.require_language("larder", parser)
  end
  local tree = vim.treesitter.get_parser(0, "larder"):parse()[1]
  check(not tree:root():has_error(), "the grammar reads it")
  local query = table.concat(vim.fn.readfile(os.getenv("LARDER_GRAMMAR") .. "/queries/highlights.scm"), "\n")
  local parse_query = vim.treesitter.query and vim.treesitter.query.parse or vim.treesitter.parse_query
  query = parse_query("larder", query)
  local found = {}
  for id in query:iter_captures(tree:root(), 0, 0, -1) do
    found[query.captures[id]] = true
  end
  for _, name in ipairs({ "keyword", "string", "number", "type.builtin", "type.definition", "variable.member", "comment" }) do
    check(found[name], "what is a " .. name .. " is found")
  end

  vim.lsp.stop_client(client)
  wait("the server leaves", function()
    return vim.lsp.client_is_stopped(client)
  end)
end

local held, why = xpcall(session, debug.traceback)
if not held then
  print("FAILED " .. why)
  vim.cmd("cquit 1")
end
vim.cmd("qall!")

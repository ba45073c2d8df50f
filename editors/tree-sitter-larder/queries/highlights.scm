(comment) @comment
(doc_comment) @comment.documentation

[
  "system" "include" "param" "type" "source" "table" "key" "index" "entity" "collection" "lifecycle" "state" "ready"
  "when" "grant" "from" "as" "project" "hot" "in" "set" "lease" "due" "input" "let" "on" "create" "map"
] @keyword

["match" "len" "default" "valid" "positive" "nonempty" "lower" "upper" "secret"] @attribute
["and" "or" "not"] @keyword.operator
["=" "->" "==" "!=" "<" "<=" ">" ">=" "+" "-" ".." "..=" "|" "?"] @operator
(operator) @operator
["{" "}" "[" "]" "(" ")"] @punctuation.bracket
["," ":" "/" "."] @punctuation.delimiter

(text) @string
(escape) @string.escape
(hole ["{" "}"] @punctuation.special)
(hole name: (identifier) @variable)
(format) @string.special
(regex) @string.regexp
(number) @number
(boolean) @boolean

(setting name: (identifier) @property)
(block name: (identifier) @keyword)
(data name: (identifier) @variable.member)
(data stored_as: (identifier) @variable.member)
(named_type name: (identifier) @type)
(named_type
  name: (identifier) @type.builtin
  (#match? @type.builtin "^(string|int|float|decimal|bool|bytes|json|uuid|url|date|datetime|instant|epoch|duration|sequence)$"))
(precision) @type.builtin
(param name: (identifier) @constant)
(param type: (identifier) @type.builtin)
(param variable: (identifier) @constant)
(system name: (identifier) @module)
(source name: (identifier) @module)
(table name: (identifier) @module)
(type name: (identifier) @type.definition)
(entity name: (identifier) @type.definition)
(collection name: (identifier) @type.definition)
(index name: (identifier) @constant)
(index alias: (identifier) @function)
(attribute name: (identifier) @variable.member)
(lifecycle name: (identifier) @type)
(state name: (identifier) @constant)
(transition name: (identifier) @function)
(transition from: (identifier) @constant)
(transition to: (identifier) @constant)
(assignment name: (identifier) @variable.member)
(call function: (identifier) @function.call)
(open) @punctuation.special

/**
 * The schema language, as docs/language.md has it.
 *
 * A statement ends with its line, unless the line ends in `,` `|` `{` or `[`: line ends are tokens, and stand in the rules
 * where they mean nothing. Keywords are contextual: a field may be called `key`.
 */

/// <reference types="tree-sitter-cli/dsl" />

const SUM = 5, COMPARE = 4, NOT = 3, AND = 2, OR = 1, CALL = 6;

/** Words that begin a statement, and may be the name of a field all the same. */
const BEGINNINGS = ["key", "input", "let", "lifecycle", "state", "ready"];

module.exports = grammar({
  name: "larder",

  word: ($) => $.identifier,

  extras: ($) => [/[ \t\r\uFEFF]/, $.comment, $.doc_comment],

  supertypes: ($) => [$._item, $._expression, $._type],

  conflicts: ($) => [],

  rules: {
    file: ($) => statements($, $._item),

    _item: ($) =>
      choice($.system, $.include, $.param, $.type, $.source, $.table, $.grant, $.block, $.setting),

    system: ($) => seq("system", field("name", $.identifier)),

    include: ($) => seq("include", field("path", $.text)),

    param: ($) =>
      seq(
        "param",
        field("name", $.identifier),
        ":",
        field("type", $.identifier),
        "=",
        field("default", $._literal),
        optional(seq("from", field("variable", $.identifier))),
        optional(seq("in", field("unit", $.identifier))),
      ),

    type: ($) =>
      seq(
        "type",
        field("name", $.identifier),
        "{",
        repeat(choice($._newline, ",")),
        optional(
          seq(
            choice($.data, $.open),
            repeat(seq(repeat1(choice($._newline, ",")), choice($.data, $.open))),
            repeat(choice($._newline, ",")),
          ),
        ),
        "}",
      ),

    open: () => "..",

    source: ($) =>
      seq("source", field("name", $.identifier), optional(field("body", $.settings))),

    table: ($) => seq("table", field("name", $.identifier), field("body", $.table_body)),

    table_body: ($) =>
      body($, choice($.key, $.index, $.entity, $.collection, $.setting)),

    key: ($) => seq("key", $._parts),

    _parts: ($) =>
      seq(
        field("partition", $._part),
        optional(seq("/", field("sort", $._part))),
      ),

    _part: ($) => choice($.text, $.attributes),

    attributes: ($) => seq($.attribute, repeat(seq(comma($), $.attribute))),

    attribute: ($) =>
      seq(field("name", $.identifier), optional(seq(":", field("type", $.identifier)))),

    index: ($) =>
      seq(
        "index",
        field("name", choice($.identifier, $.text)),
        optional(seq("as", field("alias", $.identifier))),
        $._parts,
        optional(seq("project", field("project", $.names))),
        optional("hot"),
      ),

    names: ($) => seq($.identifier, repeat(seq(comma($), $.identifier))),

    collection: ($) => seq("collection", field("name", $.identifier), field("members", $.members)),

    members: ($) => seq("{", repeat(choice($.identifier, ",", $._newline)), "}"),

    entity: ($) =>
      seq(
        "entity",
        field("name", $.identifier),
        optional(seq("from", field("source", $.identifier))),
        field("body", $.entity_body),
      ),

    entity_body: ($) => body($, choice($.key, $.lifecycle, $.data, $.setting)),

    data: ($) =>
      seq(
        optional(field("role", choice("input", "let"))),
        field("name", $._name),
        optional(seq("as", field("stored_as", choice($.identifier, $.text)))),
        choice(
          seq(":", field("type", $._type), repeat($.check), optional($._equation)),
          $._equation,
        ),
      ),

    _equation: ($) => seq("=", field("equation", $._expression), optional($.on_create)),

    on_create: () => seq("on", "create"),

    _name: ($) =>
      choice($.identifier, ...BEGINNINGS.map((word) => alias(word, $.identifier))),

    _type: ($) => choice($.named_type, $.list_type, $.set_type, $.map_type, $.choice_type, $.optional_type),

    optional_type: ($) =>
      seq(choice($.named_type, $.list_type, $.set_type, $.map_type, $.choice_type), "?"),

    named_type: ($) => seq(field("name", $.identifier), optional($.precision)),

    precision: () => choice("s", "ms", "us", "v4"),

    list_type: ($) => seq("[", repeat($._newline), $._type, "]"),

    set_type: ($) => seq("set", "<", $._type, ">"),

    map_type: ($) => seq("map", "<", $._type, comma($), $._type, ">"),

    choice_type: ($) => seq($.text, repeat(seq(bar($), $.text))),

    check: ($) =>
      choice(
        seq("match", $.regex),
        seq(choice("in", "len"), $.range),
        seq("default", $._literal),
        seq("valid", $._literal, "from", $.identifier),
        "positive",
        "nonempty",
        "lower",
        "upper",
        "secret",
      ),

    range: ($) =>
      choice(
        seq(optional($._literal), "..", optional($._literal)),
        seq(optional($._literal), "..=", $._literal),
      ),

    lifecycle: ($) =>
      seq(
        "lifecycle",
        field("name", $.identifier),
        optional(seq("in", field("attribute", $.identifier))),
        field("body", $.lifecycle_body),
      ),

    lifecycle_body: ($) => body($, choice($.states, $.transition, $.ready, $.setting)),

    states: ($) => seq("state", $.state, repeat(seq(comma($), $.state))),

    state: ($) =>
      seq(
        field("name", $.identifier),
        optional(field("template", $.text)),
        repeat(seq(choice("lease", "due"), $._literal)),
      ),

    transition: ($) =>
      seq(
        field("name", $._name),
        ":",
        field("from", $.identifier),
        repeat(seq(bar($), field("from", $.identifier))),
        "->",
        field("to", $.identifier),
        optional(seq("set", $.assignment, repeat(seq(comma($), $.assignment)))),
      ),

    assignment: ($) =>
      seq(field("name", $.identifier), optional(seq("=", field("value", $._expression)))),

    ready: ($) => seq("ready", "when", field("condition", $._expression)),

    grant: ($) => seq("grant", repeat($._value), field("operations", $.members)),

    block: ($) =>
      seq(field("name", $.identifier), repeat($._value), field("body", $.settings)),

    settings: ($) => body($, $.setting),

    setting: ($) => prec.right(seq(field("name", $.identifier), repeat($._value))),

    /** Which values a setting may have is for the checker to say. */
    _value: ($) =>
      choice($.identifier, $.number, $.text, $.list_value, prec.right(comma($)), prec.right(bar($)), $.operator, "(", ")"),

    list_value: ($) =>
      seq("[", repeat($._newline), repeat(choice($.identifier, $.number, $.text, comma($))), "]"),

    operator: () =>
      choice("..=", "->", "..", "<=", ">=", "==", "!=", "/", ".", "<", ">", "?", "-", "+", "*"),

    _expression: ($) =>
      choice($.binary, $.not, $.call, $.member, $.parenthesized, $.identifier, $._literal),

    binary: ($) =>
      choice(
        prec.left(OR, seq($._expression, "or", $._expression)),
        prec.left(AND, seq($._expression, "and", $._expression)),
        ...["==", "!=", "<", "<=", ">", ">="].map((operator) =>
          prec.left(COMPARE, seq($._expression, operator, $._expression)),
        ),
        ...["+", "-"].map((operator) =>
          prec.left(SUM, seq($._expression, operator, $._expression)),
        ),
      ),

    not: ($) => prec(NOT, seq("not", $._expression)),

    call: ($) =>
      prec(
        CALL,
        seq(
          optional(seq(field("receiver", $._expression), ".")),
          field("function", $.identifier),
          "(",
          optional(seq($._expression, repeat(seq(comma($), $._expression)))),
          ")",
        ),
      ),

    member: ($) => prec.left(CALL, seq($._expression, ".", field("name", $.identifier))),

    parenthesized: ($) => seq("(", $._expression, ")"),

    _literal: ($) => choice($.negative, $.number, $.text, $.boolean, $.empty_list),

    negative: ($) => prec(CALL + 1, seq("-", $.number)),

    boolean: () => choice("true", "false"),

    empty_list: ($) => seq("[", repeat($._newline), "]"),

    /** `"RACE#{race_id}"` */
    text: ($) =>
      seq('"', repeat(choice($.characters, $.escape, $.hole)), token.immediate('"')),

    characters: () => token.immediate(prec(1, /[^"\\{\n]+/)),

    escape: () => token.immediate(prec(1, /\\[^\n]/)),

    hole: ($) =>
      seq(
        token.immediate(prec(1, "{")),
        field("name", $.identifier),
        optional(seq(":", field("format", $.format))),
        "}",
      ),

    format: () => token.immediate(/[^"}\n]+/),

    identifier: () => /[A-Za-z_][A-Za-z0-9_]*/,

    /** `7`, `1_000`, `0.5`, `7d`, `5%`, `$0.01` */
    number: () => /\$?[0-9][0-9_]*(\.[0-9][0-9_]*)?(%|[A-Za-z0-9_]*)/,

    regex: () => token(prec(1, /\/([^\/\\\[\n]|\\[^\n]|\[([^\]\\\n]|\\[^\n])*\])+\//)),

    doc_comment: () => token(prec(1, /\/\/\/([^\/\n][^\n]*)?/)),

    comment: () => token(/\/\/[^\n]*/),

    _newline: () => /\n/,
  },
});

/** Statements, each on a line of its own. */
function statements($, statement) {
  return seq(
    repeat($._newline),
    optional(seq(statement, repeat(seq(repeat1($._newline), statement)), repeat($._newline))),
  );
}

function body($, statement) {
  return seq("{", statements($, statement), "}");
}

function comma($) {
  return seq(",", repeat($._newline));
}

function bar($) {
  return seq("|", repeat($._newline));
}

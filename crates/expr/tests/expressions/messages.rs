//! What is said of expressions that are wrong, word for word, and which fault is named when there are two.

use crate::scope;

fn check(read: fn(&str) -> Result<(), String>, kind: &str, cases: &[(&str, &str)]) {
    for (text, fault) in cases {
        assert_eq!(read(text), Err(format!("Invalid {kind}: {fault}")), "{text}");
    }
}

fn condition(text: &str) -> Result<(), String> {
    scope().condition(text).map(drop).map_err(|error| error.to_string())
}

fn filter(text: &str) -> Result<(), String> {
    scope().filter(text).map(drop).map_err(|error| error.to_string())
}

fn key_condition(text: &str) -> Result<(), String> {
    scope().key_condition(text).map(drop).map_err(|error| error.to_string())
}

fn update(text: &str) -> Result<(), String> {
    scope().update(text).map(drop).map_err(|error| error.to_string())
}

fn projection(text: &str) -> Result<(), String> {
    scope().projection(text).map(drop).map_err(|error| error.to_string())
}

#[test]
fn syntax_errors_show_the_token_and_its_neighbours() {
    const CASES: &[(&str, &str)] = &[
        ("", "The expression can not be empty;"),
        ("  ", r#"Syntax error; token: "<EOF>", near: "  ""#),
        ("attribute_exists(", r#"Syntax error; token: "<EOF>", near: "(""#),
        ("attribute_exists(a", r#"Syntax error; token: "<EOF>", near: "a""#),
        ("attribute_exists()", r#"Syntax error; token: ")", near: "()""#),
        ("attribute_exists(a,)", r#"Syntax error; token: ")", near: ",)""#),
        ("attribute_exists a", r#"Syntax error; token: "a", near: "attribute_exists a""#),
        ("attribute_exists(a) x", r#"Syntax error; token: "x", near: ") x""#),
        ("attribute_exists(a) x y", r#"Syntax error; token: "x", near: ") x y""#),
        ("begins_with(a :s)", r#"Syntax error; token: ":s", near: "a :s)""#),
        ("contains(a, a = :s)", r#"Syntax error; token: "=", near: "a = :s""#),
        ("a", r#"Syntax error; token: "<EOF>", near: "a""#),
        (":s", r#"Syntax error; token: "<EOF>", near: ":s""#),
        ("a =", r#"Syntax error; token: "<EOF>", near: "=""#),
        ("= :s", r#"Syntax error; token: "=", near: "= :s""#),
        ("a = = :s", r#"Syntax error; token: "=", near: "= = :s""#),
        ("a = b = c", r#"Syntax error; token: "=", near: "b = c""#),
        ("a = :s)", r#"Syntax error; token: ")", near: ":s)""#),
        ("a = :s :t b", r#"Syntax error; token: ":t", near: ":s :t b""#),
        ("aaa = :s AND bbbb = :t cccc = :u", r#"Syntax error; token: "cccc", near: ":t cccc =""#),
        ("a :s", r#"Syntax error; token: ":s", near: "a :s""#),
        ("a AND b", r#"Syntax error; token: "AND", near: "a AND b""#),
        ("a = :s AND", r#"Syntax error; token: "<EOF>", near: "AND""#),
        ("AND a = :s", r#"Syntax error; token: "AND", near: "AND a""#),
        ("NOT", r#"Syntax error; token: "<EOF>", near: "NOT""#),
        ("NOT a", r#"Syntax error; token: "<EOF>", near: "a""#),
        ("a BETWEEN :s", r#"Syntax error; token: "<EOF>", near: ":s""#),
        ("a BETWEEN :s OR :t", r#"Syntax error; token: "OR", near: ":s OR :t""#),
        ("a IN :s", r#"Syntax error; token: ":s", near: "IN :s""#),
        ("a IN ()", r#"Syntax error; token: ")", near: "()""#),
        ("(a = :s", r#"Syntax error; token: "<EOF>", near: ":s""#),
        ("(a", r#"Syntax error; token: "<EOF>", near: "a""#),
        ("(a)", r#"Syntax error; token: "<EOF>", near: ")""#),
        ("(a = :s) = :t", r#"Syntax error; token: "=", near: ") = :t""#),
        ("a.", r#"Syntax error; token: "<EOF>", near: ".""#),
        ("a[", r#"Syntax error; token: "<EOF>", near: "[""#),
        ("a[x] = :s", r#"Syntax error; token: "x", near: "[x]""#),
        ("a[1 = :s", r#"Syntax error; token: "=", near: "1 = :s""#),
        ("a[01] = :s", r#"Syntax error; token: "1", near: "01]""#),
        ("a[007] = :s", r#"Syntax error; token: "0", near: "007""#),
        ("a = 12", r#"Syntax error; token: "12", near: "= 12""#),
        ("a = :s !", r#"Syntax error; token: "!", near: ":s !""#),
        ("a ! b", r#"Syntax error; token: "!", near: "a ! b""#),
        ("a = é", r#"Syntax error; token: "é", near: "= é""#),
        ("a - :one = :s", r#"Syntax error; token: "-", near: "a - :one""#),
        ("set = :s", r#"Syntax error; token: "set", near: "set =""#),
        ("a.and = :s", r#"Syntax error; token: "and", near: ".and =""#),
        ("a = :undefined AND !", r#"Syntax error; token: "!", near: "AND !""#),
    ];
    check(condition, "ConditionExpression", CASES);
    check(filter, "FilterExpression", CASES);
    check(key_condition, "KeyConditionExpression", CASES);
    check(
        update,
        "UpdateExpression",
        &[
            ("", "The expression can not be empty;"),
            (" ", r#"Syntax error; token: "<EOF>", near: " ""#),
            ("SET", r#"Syntax error; token: "<EOF>", near: "SET""#),
            ("SET a", r#"Syntax error; token: "<EOF>", near: "a""#),
            ("SET a =", r#"Syntax error; token: "<EOF>", near: "=""#),
            ("SET a = :s,", r#"Syntax error; token: "<EOF>", near: ",""#),
            ("SET a = :s x", r#"Syntax error; token: "x", near: ":s x""#),
            ("SET a :s", r#"Syntax error; token: ":s", near: "a :s""#),
            ("SET (a) = :s", r#"Syntax error; token: "(", near: "SET (a""#),
            ("SET a = :s, SET b = :s", r#"Syntax error; token: "SET", near: ", SET b""#),
            ("SET a = :one + :one + :one", r#"Syntax error; token: "+", near: ":one + :one""#),
            ("SET a = (b + :one) - :one", r#"Syntax error; token: "-", near: ") - :one""#),
            ("SET a = b - (:one + :one)", r#"Syntax error; token: "+", near: ":one + :one""#),
            ("SET a = -:one", r#"Syntax error; token: "-", near: "= -:one""#),
            ("SET a = if_not_exists(a, b + :one)", r#"Syntax error; token: "+", near: "b + :one""#),
            ("SET a = ADD", r#"Syntax error; token: "ADD", near: "= ADD""#),
            ("SET a..b = :s", r#"Syntax error; token: ".", near: "..b""#),
            ("REMOVE a :s", r#"Syntax error; token: ":s", near: "a :s""#),
            ("REMOVE a[01]", r#"Syntax error; token: "1", near: "01]""#),
            ("ADD a", r#"Syntax error; token: "<EOF>", near: "a""#),
            ("ADD a b", r#"Syntax error; token: "b", near: "a b""#),
            ("ADD a = :one", r#"Syntax error; token: "=", near: "a = :one""#),
            ("INVALID SYNTAX HERE", r#"Syntax error; token: "INVALID", near: "INVALID SYNTAX""#),
        ],
    );
    check(
        projection,
        "ProjectionExpression",
        &[
            ("", "The expression can not be empty;"),
            ("a,", r#"Syntax error; token: "<EOF>", near: ",""#),
            (",a", r#"Syntax error; token: ",", near: ",a""#),
            ("a b", r#"Syntax error; token: "b", near: "a b""#),
            ("(a)", r#"Syntax error; token: "(", near: "(a""#),
            ("size(a)", r#"Syntax error; token: "(", near: "size(a""#),
            ("a, set", r#"Syntax error; token: "set", near: ", set""#),
            ("!!", r#"Syntax error; token: "!", near: "!!""#),
            (":s", r#"Syntax error; token: ":s", near: ":s""#),
        ],
    );
}

const DISTINCT: &str = "The first operand must be distinct from the remaining operands for this operator or function; operator: ";

#[test]
fn conditions_are_checked_before_any_item_is_seen() {
    check(
        filter,
        "FilterExpression",
        &[
            ("((a = :s))", "The expression has redundant parentheses;"),
            ("((a)) = :s", "The expression has redundant parentheses;"),
            ("a IN (((:s)))", "The expression has redundant parentheses;"),
            ("foo(a)", "Invalid function name; function: foo"),
            ("SIZE(a) = :one", "Invalid function name; function: SIZE"),
            ("size(a)", "The function is not allowed to be used this way in an expression; function: size"),
            (
                "NOT size(a)",
                "The function is not allowed to be used this way in an expression; function: size",
            ),
            (
                "attribute_exists(a) = :s",
                "The function is not allowed to be used this way in an expression; function: attribute_exists",
            ),
            (
                "contains(begins_with(a, :s), :s)",
                "The function is not allowed to be used this way in an expression; function: begins_with",
            ),
            (
                "if_not_exists(a, b)",
                "The function is not allowed in a condition expression; function: if_not_exists",
            ),
            (
                "a = list_append(a, b)",
                "The function is not allowed in a condition expression; function: list_append",
            ),
            ("status = :s", "Attribute name is a reserved keyword; reserved keyword: status"),
            ("a.Status = :s", "Attribute name is a reserved keyword; reserved keyword: Status"),
            ("a[2147483648] = :s", "List index is not within the allowable range; index: [2147483648]"),
            (
                "#nope = :s",
                "An expression attribute name used in the document path is not defined; attribute name: #nope",
            ),
            (
                "a = :nope",
                "An expression attribute value used in expression is not defined; attribute value: :nope",
            ),
            (
                "attribute_exists(a, b)",
                "Incorrect number of operands for operator or function; operator or function: attribute_exists, number of operands: 2",
            ),
            (
                "size(a, b) = :one",
                "Incorrect number of operands for operator or function; operator or function: size, number of operands: 2",
            ),
            (
                "contains(a)",
                "Incorrect number of operands for operator or function; operator or function: contains, number of operands: 1",
            ),
            (
                "attribute_exists(:s)",
                "Operator or function requires a document path; operator or function: attribute_exists",
            ),
            (
                "attribute_not_exists(size(a))",
                "Operator or function requires a document path; operator or function: attribute_not_exists",
            ),
            ("a = a", &format!("{DISTINCT}=, first operand: [a]")),
            ("#a.b[0] < a.b[0]", &format!("{DISTINCT}<, first operand: [a, b, [0]]")),
            ("a IN (b, a)", &format!("{DISTINCT}IN, first operand: [a]")),
            ("a BETWEEN b AND a", &format!("{DISTINCT}BETWEEN, first operand: [a]")),
            ("contains(a, a)", &format!("{DISTINCT}contains, first operand: [a]")),
            (
                "a < :true",
                "Incorrect operand type for operator or function; operator or function: <, operand type: BOOL",
            ),
            (
                ":ss >= a",
                "Incorrect operand type for operator or function; operator or function: >=, operand type: SS",
            ),
            (
                "a BETWEEN :null AND :null",
                "Incorrect operand type for operator or function; operator or function: BETWEEN, operand type: NULL",
            ),
            (
                "begins_with(a, :one)",
                "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
            ),
            (
                "begins_with(size(a), :s)",
                "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
            ),
            (
                "size(:one) = :one",
                "Incorrect operand type for operator or function; operator or function: size, operand type: N",
            ),
            (
                "size(size(a)) = :one",
                "Incorrect operand type for operator or function; operator or function: size, operand type: N",
            ),
            (
                "attribute_type(a, :one)",
                "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: N",
            ),
            (
                "attribute_type(a, b)",
                "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {S,HDS,N,FS,BS,NULL,DOUBLE,NS,DECIMAL,SS,DECIMALSET,BOOL,HD,DICT,INTSET,M,L,B,FLOAT,INT,DOUBLESET}",
            ),
            (
                "attribute_type(a, :t)",
                "Invalid attribute type name found; type: t, valid types: {N,BS,L,B,NULL,M,S,SS,NS,BOOL}",
            ),
            (
                "a BETWEEN :t AND :s",
                "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {S:t}, upper bound operand: AttributeValue: {S:s}",
            ),
            (
                "a BETWEEN :bin AND :one",
                "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: {B:cw==}, upper bound operand: AttributeValue: {N:1}",
            ),
        ],
    );
    let deep = format!("a{} = :s", ".b".repeat(32));
    assert_eq!(
        condition(&deep),
        Err("Invalid ConditionExpression: The document path has too many nesting levels; nesting levels: 33"
            .into())
    );
}

#[test]
fn the_first_fault_of_the_earliest_stage_is_named() {
    check(
        condition,
        "ConditionExpression",
        &[
            ("((status = :s))", "The expression has redundant parentheses;"),
            ("status = :s AND foo(a)", "Attribute name is a reserved keyword; reserved keyword: status"),
            ("foo(a) AND status = :s", "Invalid function name; function: foo"),
            ("a = :nope AND status = :s", "Attribute name is a reserved keyword; reserved keyword: status"),
            ("contains(a, a) AND a = :nope", &format!("{DISTINCT}contains, first operand: [a]")),
            (
                "a = :nope AND contains(a, a)",
                "An expression attribute value used in expression is not defined; attribute value: :nope",
            ),
            (
                "contains(a, :nope, b)",
                "An expression attribute value used in expression is not defined; attribute value: :nope",
            ),
            (
                "contains(#nope, :nope)",
                "An expression attribute name used in the document path is not defined; attribute name: #nope",
            ),
        ],
    );
    check(
        update,
        "UpdateExpression",
        &[
            ("SET a = foo(:s), status = :s", "Invalid function name; function: foo"),
            (
                "SET status = :s, a = foo(:s)",
                "Attribute name is a reserved keyword; reserved keyword: status",
            ),
            ("SET a = :s SET status = :s", "Attribute name is a reserved keyword; reserved keyword: status"),
            (
                "SET a = list_append(:list, :one) SET b = :s",
                "The \"SET\" section can only be used once in an update expression;",
            ),
            (
                "SET a = :nope, b = #nope",
                "An expression attribute name used in the document path is not defined; attribute name: #nope",
            ),
            (
                "SET a = :s + :one, b = :nope",
                "An expression attribute value used in expression is not defined; attribute value: :nope",
            ),
            (
                "SET a = :s + :one, a = :one",
                "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]",
            ),
            (
                "SET a = :s + :one ADD b :s",
                "Incorrect operand type for operator or function; operator: ADD, operand type: STRING, typeSet: ALLOWED_FOR_ADD_OPERAND",
            ),
        ],
    );
}

#[test]
fn updates_are_checked_before_any_item_is_seen() {
    let overlap = |one: &str, two: &str| {
        format!(
            "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: {one}, path two: {two}"
        )
    };
    let conflict = |one: &str, two: &str| overlap(one, two).replace("overlap", "conflict");
    let operand =
        |rest: &str| format!("Incorrect operand type for operator or function; operator or function: {rest}");
    let clause = |operator: &str, kind: &str| {
        format!(
            "Incorrect operand type for operator or function; operator: {operator}, operand type: {kind}, typeSet: ALLOWED_FOR_ADD_OPERAND"
        )
    };
    check(
        update,
        "UpdateExpression",
        &[
            ("SET a = ((b + :one))", "The expression has redundant parentheses;"),
            ("SET a = ((:s))", "The expression has redundant parentheses;"),
            ("REMOVE a REMOVE b", "The \"REMOVE\" section can only be used once in an update expression;"),
            (
                "SET a = :s ADD b :one ADD c :one",
                "The \"ADD\" section can only be used once in an update expression;",
            ),
            ("SET a = List_Append(:list, :list)", "Invalid function name; function: List_Append"),
            ("SET a = size(a)", "The function is not allowed in an update expression; function: size"),
            (
                "SET a = list_append(:list, :list) + :one",
                "The function is not allowed to be used this way in an expression; function: list_append",
            ),
            (
                "SET a = list_append(list_append(:list, :list), :list)",
                "The function is not allowed to be used this way in an expression; function: list_append",
            ),
            (
                "SET a = if_not_exists(a)",
                "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 1",
            ),
            (
                "SET a = list_append(:list, a, b)",
                "Incorrect number of operands for operator or function; operator or function: list_append, number of operands: 3",
            ),
            (
                "SET a = if_not_exists(:s, :one)",
                "Operator or function requires a document path; operator or function: if_not_exists",
            ),
            (
                "SET a = if_not_exists(if_not_exists(a, b), :one)",
                "Operator or function requires a document path; operator or function: if_not_exists",
            ),
            ("SET a = a + :s", &operand("+, operand type: S")),
            ("SET a = :list - a", &operand("-, operand type: L")),
            ("SET a = list_append(a, :one)", &operand("list_append, operand type: N")),
            ("ADD a :s", &clause("ADD", "STRING")),
            ("ADD a :bin", &clause("ADD", "Binary")),
            ("ADD a :true", &clause("ADD", "BOOL")),
            ("ADD a :null", &clause("ADD", "NULL")),
            ("ADD a :list", &clause("ADD", "LIST")),
            ("ADD a :map", &clause("ADD", "MAP")),
            ("DELETE a :one", &clause("DELETE", "NUMBER")),
            ("SET a = :s, a.b = :s", &overlap("[a]", "[a, b]")),
            ("SET a.b = :s, a = :s", &overlap("[a, b]", "[a]")),
            ("SET #a = :s REMOVE a", &overlap("[a]", "[a]")),
            ("REMOVE a[3] SET a[3].c = :s", &overlap("[a, [3]]", "[a, [3], c]")),
            ("SET a[0] = :s, a.b = :s", &conflict("[a, [0]]", "[a, b]")),
            ("SET a[0].c = :s REMOVE a.b.c", &conflict("[a, [0], c]", "[a, b, c]")),
        ],
    );
    for fine in [
        "SET a.b = :s, a.c = :s REMOVE a.d, b[0], b[1]",
        "SET a = (b) + (:one)",
        "SET a = if_not_exists((a), :s)",
    ] {
        assert_eq!(update(fine), Ok(()), "{fine}");
    }
}

#[test]
fn overlaps_are_found_among_many_paths() {
    let many: Vec<String> = (0..40).map(|at| format!("p{at}.q")).collect();
    assert_eq!(update(&format!("REMOVE {}", many.join(", "))), Ok(()));
    let clash = format!("REMOVE {}, p7.q.r", many.join(", "));
    assert_eq!(
        update(&clash),
        Err("Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [p7, q], path two: [p7, q, r]".into())
    );
}

#[test]
fn projections_are_checked() {
    check(
        projection,
        "ProjectionExpression",
        &[
            ("#nope, status", "Attribute name is a reserved keyword; reserved keyword: status"),
            (
                "#nope",
                "An expression attribute name used in the document path is not defined; attribute name: #nope",
            ),
            (
                "a.b, #a",
                "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a, b], path two: [a]",
            ),
            (
                "a[0], a.b",
                "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [a, [0]], path two: [a, b]",
            ),
        ],
    );
}

#[test]
fn an_operator_that_key_conditions_lack_is_named_alone() {
    for (text, operator) in [
        ("pk = :s OR sk = :s", "OR"),
        ("pk = :s AND NOT sk = :s", "NOT"),
        ("pk <> :s", "<>"),
        ("pk IN (:s)", "IN"),
        ("contains(pk, :s)", "contains"),
        ("attribute_exists(pk)", "attribute_exists"),
    ] {
        let message = format!("Invalid operator used in KeyConditionExpression: {operator}");
        assert_eq!(key_condition(text), Err(message), "{text}");
    }
}

#[test]
fn key_conditions_say_less_than_conditions() {
    check(
        key_condition,
        "KeyConditionExpression",
        &[
            ("pk = :s AND size(sk) = :one", "KeyConditionExpressions cannot contain nested operations"),
            ("pk.a = :s", "KeyConditionExpressions cannot have conditions on nested attributes"),
            (
                "pk = :s AND sk > :s AND sk < :s",
                "KeyConditionExpressions must only contain one condition per key",
            ),
            (
                "pk = sk",
                "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition",
            ),
            (":s = :s", "Invalid condition in KeyConditionExpression: No key attribute specified"),
            (
                "begins_with(:s, pk)",
                "Invalid condition in KeyConditionExpression: begins_with operator must have the key attribute as its first operand",
            ),
            (
                ":s BETWEEN pk AND :t",
                "Invalid condition in KeyConditionExpression: BETWEEN operator must have the key attribute as its first operand",
            ),
            (
                "pk = :s AND sk < :true",
                "Incorrect operand type for operator or function; operator or function: <, operand type: BOOL",
            ),
            (
                "pk = :s AND :true >= sk",
                "Incorrect operand type for operator or function; operator or function: >=, operand type: BOOL",
            ),
            (
                "begins_with(pk, :one)",
                "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
            ),
            (
                "pk <> :s AND sk = :nope",
                "An expression attribute value used in expression is not defined; attribute value: :nope",
            ),
            ("((pk = :s))", "The expression has redundant parentheses;"),
        ],
    );
}

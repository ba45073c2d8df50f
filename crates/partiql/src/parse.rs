//! Tokens to a tree: the grammar, nothing else.
//!
//! By recursive descent, as deep as brackets nest; that is bounded. Chains of AND and OR are lists. Keywords have no
//! case.

use std::borrow::Cow;

use larder_expr::Comparator;
use larder_model::limits::STATEMENT_DEPTH_MAX;

use crate::ast::{Expression, Order, Path, Select, Source, Statement, Step, UpdateClause};
use crate::bound::Returning;
use crate::error::{Error, Place, Syntax};
use crate::token::{Kind, Token, tokens};

/// Words that are no names unless they are quoted.
const KEYWORDS: [&str; 26] = [
    "SELECT",
    "FROM",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "IS",
    "NULL",
    "MISSING",
    "TRUE",
    "FALSE",
    "SET",
    "REMOVE",
    "RETURNING",
    "ORDER",
    "BY",
    "INSERT",
    "INTO",
    "UPDATE",
    "DELETE",
    "VALUE",
    "LIKE",
    "AS",
    "EXISTS",
];

pub(crate) fn statement(text: &str) -> Result<Statement<'_>, Error> {
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens, at: 0, parameters: 0, depth: 0 };
    let statement = parser.statement()?;
    let ended = parser.sign(";");
    match parser.peek() {
        None => Ok(statement),
        Some(_) if ended => Err(malformed(Syntax::AfterSemicolon)),
        Some(_) => Err(malformed(Syntax::After)),
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token<'t>>,
    at: usize,
    /// How many `?` there were so far.
    parameters: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn statement(&mut self) -> Result<Statement<'t>, Error> {
        if self.word("SELECT") {
            return self.select().map(Statement::Select);
        }
        if self.word("INSERT") {
            return self.insert();
        }
        if self.word("UPDATE") {
            return self.update();
        }
        if self.word("DELETE") {
            return self.delete();
        }
        if self.word("EXISTS") {
            self.expect_sign("(", "LEFT_PAREN")?;
            self.expect_word("SELECT")?;
            let select = self.select()?;
            self.expect_sign(")", "RIGHT_PAREN")?;
            return Ok(Statement::Exists(select));
        }
        // DynamoDB takes it for an expression, which ends where no operator follows.
        let is_from =
            |token: &Token<'_>| matches!(token.kind, Kind::Word(word) if word.eq_ignore_ascii_case("FROM"));
        let is_term = self.tokens.len() > 1 && !self.tokens.iter().any(is_from);
        Err(malformed(if is_term { Syntax::After } else { Syntax::ExpectedStatement }))
    }

    fn select(&mut self) -> Result<Select<'t>, Error> {
        let columns = if self.sign("*") { None } else { Some(self.list(Self::column)?) };
        self.expect_word("FROM")?;
        if self.peek().is_none() {
            return Err(malformed(Syntax::Term));
        }
        let from = self.source()?;
        if self.is_word("AS") || matches!(self.peek(), Some(Kind::Name(_))) || self.is_alias() {
            return Err(Error::Alias);
        }
        let condition = self.condition()?;
        let mut order = Vec::new();
        if self.word("ORDER") {
            self.expect_word("BY")?;
            order = self.list(Self::order)?;
        }
        Ok(Select { columns, from, condition, order })
    }

    /// A name after a table's, which would be another for it.
    fn is_alias(&self) -> bool {
        let clause = ["LIMIT", "GROUP", "HAVING", "JOIN", "UNION", "OFFSET", "LET"];
        matches!(self.peek(), Some(Kind::Word(word)) if !is_keyword(word))
            && !clause.into_iter().any(|clause| self.is_word(clause))
    }

    fn column(&mut self) -> Result<Path<'t>, Error> {
        match (self.tokens.get(self.at), self.tokens.get(self.at + 1)) {
            (Some(Token { kind: Kind::Word(word), .. }), _) if is_keyword(word) => {
                Err(malformed(Syntax::SelectKeyword(word.to_ascii_lowercase())))
            }
            (Some(Token { kind: Kind::Word(_), .. }), Some(Token { kind: Kind::Sign("("), .. })) => {
                Err(Error::CallOfColumn(self.place()))
            }
            _ => self.path(),
        }
    }

    fn order(&mut self) -> Result<Order<'t>, Error> {
        let path = self.path()?;
        let descending = self.word("DESC");
        if !descending {
            self.word("ASC");
        }
        Ok(Order { path, descending })
    }

    fn insert(&mut self) -> Result<Statement<'t>, Error> {
        if !self.word("INTO") {
            return Err(malformed(Syntax::Keyword));
        }
        let into = self.source()?;
        if !self.word("VALUE") {
            return Err(malformed(Syntax::Keyword));
        }
        Ok(Statement::Insert { into, value: self.term()? })
    }

    fn update(&mut self) -> Result<Statement<'t>, Error> {
        let table = self.source()?;
        let mut changes = Vec::new();
        loop {
            if self.word("SET") {
                changes.extend(self.list(Self::set)?);
            } else if self.word("REMOVE") {
                changes.extend(self.list(|parser| parser.path().map(UpdateClause::Remove))?);
            } else {
                break;
            }
        }
        if changes.is_empty() {
            return Err(malformed(Syntax::ExpectedStatement));
        }
        let condition = self.condition()?;
        Ok(Statement::Update { table, changes, condition, returning: self.returning()? })
    }

    fn set(&mut self) -> Result<UpdateClause<'t>, Error> {
        let path = self.path()?;
        self.expect_sign("=", "EQ")?;
        Ok(UpdateClause::Set(path, self.sum()?))
    }

    fn delete(&mut self) -> Result<Statement<'t>, Error> {
        if !self.word("FROM") {
            return Err(malformed(Syntax::Expected("FROM after DELETE")));
        }
        let from = self.source()?;
        let condition = self.condition()?;
        Ok(Statement::Delete { from, condition, returning: self.returning()? })
    }

    fn returning(&mut self) -> Result<Option<Returning>, Error> {
        if !self.word("RETURNING") {
            return Ok(None);
        }
        let all = self.word("ALL");
        if !all && !self.word("MODIFIED") {
            return Err(malformed(Syntax::Returning));
        }
        let old = self.word("OLD");
        if !old && !self.word("NEW") || !self.sign("*") {
            return Err(malformed(Syntax::Returning));
        }
        Ok(Some(match (all, old) {
            (true, true) => Returning::AllOld,
            (true, false) => Returning::AllNew,
            (false, true) => Returning::ModifiedOld,
            (false, false) => Returning::ModifiedNew,
        }))
    }

    fn source(&mut self) -> Result<Source<'t>, Error> {
        let place = self.place();
        let table = self.name().ok_or_else(|| malformed(Syntax::ExpectedTable))?;
        let mut parts = Vec::new();
        while self.sign(".") {
            parts.push(self.name().ok_or_else(|| malformed(Syntax::Step))?);
        }
        if parts.len() > 1 {
            return Err(Error::SourceParts);
        }
        let index = parts.pop();
        if table.is_empty() || index.as_ref().is_some_and(|index| index.is_empty()) {
            return Err(Error::EmptyName);
        }
        Ok(Source { table, index, place })
    }

    fn condition(&mut self) -> Result<Option<Expression<'t>>, Error> {
        if self.word("WHERE") { self.expression().map(Some) } else { Ok(None) }
    }

    /// `… OR …`
    fn expression(&mut self) -> Result<Expression<'t>, Error> {
        self.nested(|parser| parser.chain("OR", Self::conjunction, Expression::Or))
    }

    /// `… AND …`
    fn conjunction(&mut self) -> Result<Expression<'t>, Error> {
        self.chain("AND", Self::negation, Expression::And)
    }

    fn chain(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Expression<'t>, Error>,
        of: fn(Vec<Expression<'t>>) -> Expression<'t>,
    ) -> Result<Expression<'t>, Error> {
        let first = part(self)?;
        if !self.is_word(word) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.word(word) {
            parts.push(part(self)?);
        }
        Ok(of(parts))
    }

    fn negation(&mut self) -> Result<Expression<'t>, Error> {
        if !self.word("NOT") {
            return self.comparison();
        }
        self.nested(|parser| parser.negation().map(|inner| Expression::Not(Box::new(inner))))
    }

    fn comparison(&mut self) -> Result<Expression<'t>, Error> {
        let left = Box::new(self.sum()?);
        if let Some(comparator) = self.comparator() {
            if self.peek().is_none() {
                return Err(malformed(Syntax::RightSide));
            }
            return Ok(Expression::Compare { left, comparator, right: Box::new(self.sum()?) });
        }
        if self.word("IS") {
            let negated = self.word("NOT");
            let test = if self.word("NULL") {
                Expression::IsNull(left)
            } else if self.word("MISSING") {
                Expression::IsMissing(left)
            } else {
                return Err(malformed(Syntax::TypeName));
            };
            return Ok(negated_if(negated, test));
        }
        let negated = self.word("NOT");
        if self.word("BETWEEN") {
            let low = Box::new(self.sum()?);
            self.expect_word("AND")?;
            let high = Box::new(self.sum()?);
            return Ok(negated_if(negated, Expression::Between { value: left, low, high }));
        }
        if self.word("IN") {
            let list = Box::new(self.members()?);
            return Ok(negated_if(negated, Expression::In { value: left, list }));
        }
        if self.is_word("LIKE") {
            return Err(malformed(Syntax::Like));
        }
        if negated {
            return Err(malformed(Syntax::Keyword));
        }
        Ok(*left)
    }

    fn comparator(&mut self) -> Option<Comparator> {
        let Some(Kind::Sign(sign)) = self.peek() else { return None };
        let comparator = match *sign {
            "=" => Comparator::Equal,
            "<>" | "!=" => Comparator::NotEqual,
            "<" => Comparator::Less,
            "<=" => Comparator::LessOrEqual,
            ">" => Comparator::Greater,
            ">=" => Comparator::GreaterOrEqual,
            _ => return None,
        };
        self.at += 1;
        Some(comparator)
    }

    /// What `IN` is about: a list in round brackets, or any other value.
    fn members(&mut self) -> Result<Expression<'t>, Error> {
        if !self.sign("(") {
            return self.term();
        }
        let list = self.nested(|parser| parser.list(Self::sum))?;
        self.expect_sign(")", "RIGHT_PAREN")?;
        Ok(Expression::List(list))
    }

    /// `… + …`, once: DynamoDB sums two.
    fn sum(&mut self) -> Result<Expression<'t>, Error> {
        let left = self.term()?;
        let plus = self.sign("+");
        if !plus && !self.sign("-") {
            return Ok(left);
        }
        Ok(Expression::Sum { left: Box::new(left), plus, right: Box::new(self.term()?) })
    }

    fn term(&mut self) -> Result<Expression<'t>, Error> {
        let Some(token) = self.tokens.get(self.at) else { return Err(malformed(Syntax::Term)) };
        match token.kind.clone() {
            Kind::Text(text) => self.took(Expression::Text(text)),
            Kind::Number(number) => self.took(Expression::Number(number.into())),
            Kind::Name(_) => self.path().map(Expression::Path),
            Kind::Word(word) => self.word_term(word),
            Kind::Sign(sign) => self.sign_term(sign),
        }
    }

    fn took(&mut self, expression: Expression<'t>) -> Result<Expression<'t>, Error> {
        self.at += 1;
        Ok(expression)
    }

    fn word_term(&mut self, word: &'t str) -> Result<Expression<'t>, Error> {
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        if is("TRUE") || is("FALSE") {
            return self.took(Expression::Bool(is("TRUE")));
        }
        if is("NULL") {
            return self.took(Expression::Null);
        }
        if is("MISSING") {
            return self.took(Expression::Missing);
        }
        if matches!(self.tokens.get(self.at + 1).map(|token| &token.kind), Some(Kind::Sign("("))) {
            let place = self.place();
            self.at += 2;
            let arguments = match self.sign(")") {
                true => return Ok(Expression::Call { function: word, place, arguments: Vec::new() }),
                false => self.nested(|parser| parser.list(Self::sum))?,
            };
            self.expect_sign(")", "RIGHT_PAREN")?;
            return Ok(Expression::Call { function: word, place, arguments });
        }
        self.path().map(Expression::Path)
    }

    fn sign_term(&mut self, sign: &str) -> Result<Expression<'t>, Error> {
        match sign {
            "?" => {
                let parameter = Expression::Parameter(self.parameters);
                self.parameters += 1;
                self.took(parameter)
            }
            "-" | "+" => match self.tokens.get(self.at + 1).map(|token| token.kind.clone()) {
                Some(Kind::Number(number)) => {
                    self.at += 2;
                    let signed = if sign == "-" { Cow::Owned(format!("-{number}")) } else { number.into() };
                    Ok(Expression::Number(signed))
                }
                _ => Err(malformed(Syntax::Term)),
            },
            "(" => {
                self.at += 1;
                let inner = self.expression()?;
                self.expect_sign(")", "RIGHT_PAREN")?;
                Ok(inner)
            }
            "[" => {
                self.at += 1;
                self.collection("]", "RIGHT_BRACKET", Self::term).map(Expression::List)
            }
            "<<" => {
                self.at += 1;
                self.collection(">>", "RIGHT_DOUBLE_ANGLE_BRACKET", Self::term).map(Expression::Bag)
            }
            "{" => {
                self.at += 1;
                self.collection("}", "RIGHT_CURLY", Self::field).map(Expression::Map)
            }
            _ => Err(malformed(Syntax::Term)),
        }
    }

    /// What stands up to a closing bracket, which may be nothing.
    fn collection<T>(
        &mut self,
        close: &'static str,
        name: &'static str,
        member: fn(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        if self.sign(close) {
            return Ok(Vec::new());
        }
        let members = self.nested(|parser| parser.list(member))?;
        self.expect_sign(close, name)?;
        Ok(members)
    }

    fn field(&mut self) -> Result<(Cow<'t, str>, Expression<'t>), Error> {
        let name = match self.peek() {
            Some(Kind::Text(name) | Kind::Name(name)) => name.clone(),
            _ => return Err(malformed(Syntax::Expected("a name in quotes"))),
        };
        self.at += 1;
        self.expect_sign(":", "COLON")?;
        Ok((name, self.term()?))
    }

    fn path(&mut self) -> Result<Path<'t>, Error> {
        let root = self.name().ok_or_else(|| self.unexpected())?;
        let mut steps = Vec::new();
        loop {
            if self.sign(".") {
                let field = self.name().ok_or_else(|| malformed(Syntax::Step))?;
                steps.push(Step::Field(field));
            } else if self.sign("[") {
                let step = match self.peek() {
                    Some(Kind::Number(digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                        Step::Index(digits)
                    }
                    Some(Kind::Text(name)) => Step::Field(name.clone()),
                    _ => return Err(malformed(Syntax::Step)),
                };
                self.at += 1;
                self.expect_sign("]", "RIGHT_BRACKET")?;
                steps.push(step);
            } else {
                return Ok(Path { root, steps });
            }
        }
    }

    /// The name that comes next, if one does.
    fn name(&mut self) -> Option<Cow<'t, str>> {
        let name = match &self.tokens.get(self.at)?.kind {
            Kind::Name(name) => name.clone(),
            Kind::Word(word) if !is_keyword(word) => Cow::Borrowed(*word),
            _ => return None,
        };
        self.at += 1;
        Some(name)
    }

    /// One or more, with commas between them.
    fn list<T>(&mut self, mut member: impl FnMut(&mut Self) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        let mut members = vec![member(self)?];
        while self.sign(",") {
            members.push(member(self)?);
        }
        Ok(members)
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth >= STATEMENT_DEPTH_MAX {
            return Err(malformed(Syntax::Deep));
        }
        self.depth += 1;
        let found = inner(self);
        self.depth -= 1;
        found
    }

    fn peek(&self) -> Option<&Kind<'t>> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    fn is_word(&self, keyword: &str) -> bool {
        matches!(self.peek(), Some(Kind::Word(word)) if word.eq_ignore_ascii_case(keyword))
    }

    /// Takes a keyword, if it is next.
    fn word(&mut self, keyword: &str) -> bool {
        let found = self.is_word(keyword);
        self.at += usize::from(found);
        found
    }

    /// Takes a sign, if it is next.
    fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Kind::Sign(next)) if *next == sign);
        self.at += usize::from(found);
        found
    }

    fn expect_word(&mut self, keyword: &'static str) -> Result<(), Error> {
        if self.word(keyword) { Ok(()) } else { Err(malformed(Syntax::Expected(keyword))) }
    }

    fn expect_sign(&mut self, sign: &str, name: &'static str) -> Result<(), Error> {
        if self.sign(sign) { Ok(()) } else { Err(malformed(Syntax::Expected(name))) }
    }

    /// What is said of the next token where none of its kind belongs.
    fn unexpected(&self) -> Error {
        match self.peek() {
            Some(Kind::Word(_)) => malformed(Syntax::Keyword),
            _ => malformed(Syntax::Term),
        }
    }

    /// Where the next token is.
    fn place(&self) -> Place {
        let (at, length) = match self.tokens.get(self.at) {
            Some(token) => (token.at, self.text[token.at..token.at + token.length].chars().count()),
            None => (self.text.len(), 0),
        };
        Place::of(self.text, at, length)
    }
}

fn malformed(syntax: Syntax) -> Error {
    Error::Malformed(syntax)
}

fn negated_if<'t>(negated: bool, test: Expression<'t>) -> Expression<'t> {
    if negated { Expression::Not(Box::new(test)) } else { test }
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match statement(text) {
            Ok(tree) => panic!("{text} is {tree:?}"),
            Err(error) => error.to_string(),
        };
        let found = found.strip_prefix("Statement wasn't well formed, can't be processed: ");
        assert_eq!(found, Some(expected), "{text}");
    }

    #[test]
    fn what_is_no_statement_is_refused() {
        check("", "Expected data manipulation");
        check("SLECT * FROM t", "Expected data manipulation");
        check("SELECT", "Unexpected term");
        check("SELECT * FROM", "Unexpected term");
        check("SELECT * t", "Expected FROM");
        check("SELECT * FROM ttt WHERE", "Unexpected term");
        check("SELECT * FROM ttt WHERE a = 1 b", "Unexpected token after expression");
        check("SELECT * FROM ttt; SELECT", "Unexpected token after semicolon. (Only one query is allowed.)");
        check("SELECT * FROM ttt LIMIT 5", "Unexpected token after expression");
        check("DROP TABLE ttt", "Unexpected token after expression");
        check("SELECT * FROM ttt WHERE a = ", "Missing right-hand side expression of infix operator");
        check("SELECT * FROM ttt WHERE a IS GOOD", "Expected type name");
        check("SELECT a. FROM ttt", "Invalid path dot component");
        check(
            "SELECT select FROM ttt",
            "Expected identifier or an expression but found unexpected keyword 'select' in a select list.",
        );
        check("INSERT ttt VALUE {}", "Unexpected keyword");
        check("INSERT INTO ttt (a) VALUES (1)", "Unexpected keyword");
        check("INSERT INTO ttt VALUE {'a' 1}", "Expected COLON");
        check("UPDATE", "Expected identifier for simple path");
        check("UPDATE a-b SET c = 1", "Expected data manipulation");
        check("UPDATE ttt SET a = 1 RETURNING *", &Syntax::Returning.to_string());
        check("DELETE ttt", "Expected FROM after DELETE");
        check("SELECT * FROM ttt WHERE (a = 1", "Expected RIGHT_PAREN");
    }

    #[test]
    fn what_dynamodb_lacks_is_named() {
        for (text, error) in [
            ("SELECT * FROM a.b.c", Error::SourceParts),
            ("SELECT * FROM \"\"", Error::EmptyName),
            ("SELECT * FROM ttt t", Error::Alias),
            ("SELECT * FROM ttt AS t", Error::Alias),
            ("SELECT COUNT(*) FROM ttt", Error::CallOfColumn(Place { line: 1, column: 8, length: 5 })),
        ] {
            assert_eq!(statement(text), Err(error), "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        for (open, close) in [("(", ")"), ("NOT ", ""), ("[", "]"), ("<<", ">>"), ("{'a':", "}"), ("f(", ")")]
        {
            let text = |depth: usize| {
                format!("SELECT * FROM ttt WHERE {}1{}", open.repeat(depth), close.repeat(depth))
            };
            assert!(statement(&text(STATEMENT_DEPTH_MAX / 2)).is_ok(), "{open}");
            assert_eq!(statement(&text(4000)), Err(malformed(Syntax::Deep)), "{open}");
        }
    }

    #[test]
    fn a_chain_is_not_nested() {
        let chain = vec!["a=1"; 2000].join(" OR ");
        let text = format!("SELECT * FROM ttt WHERE {chain}");
        let Ok(Statement::Select(Select { condition: Some(Expression::Or(parts)), .. })) = statement(&text)
        else {
            panic!("it is a SELECT with a chain")
        };
        assert_eq!(parts.len(), 2000);
    }

    #[test]
    fn and_binds_closer_than_or_and_not_closest() {
        let text = "SELECT * FROM ttt WHERE NOT a = 1 AND b = 2 OR c = 3";
        let Ok(Statement::Select(Select { condition: Some(Expression::Or(parts)), .. })) = statement(text)
        else {
            panic!("OR is outermost")
        };
        let Expression::And(parts) = &parts[0] else { panic!("AND comes next") };
        assert!(matches!(parts[0], Expression::Not(_)));
    }

    #[test]
    fn keywords_have_no_case_and_a_semicolon_may_end_a_statement() {
        let one = statement("SELECT a FROM \"ttt\".\"i-1\" WHERE b = 'x' ORDER BY b DESC").unwrap();
        let two = statement("select a from \"ttt\".\"i-1\" where b = 'x' order by b desc;").unwrap();
        assert_eq!(one, two);
    }
}

//! Tokens to a tree: the grammar, nothing else.
//!
//! One token of lookahead past the current one. Operands are read by recursive descent of bounded depth;
//! NOT, AND, OR and parentheses wait on a stack of our own, because a condition may nest 300 deep and the
//! thread's stack may be small.

use larder_model::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_OPERATORS_MAX};

use crate::ast::{Call, Clause, Condition, Name, Operand, Path, SetValue, Step, Update};
use crate::token::{Kind, Token, token};
use crate::{Comparator, Fault};

/// Every level of nesting that means something costs an operator.
const DEPTH_MAX: usize = EXPRESSION_OPERATORS_MAX;
/// Calls within calls. Nothing DynamoDB accepts nests more than two, so what is refused here for its depth
/// would be refused for its meaning.
const CALL_DEPTH_MAX: usize = 64;

pub(crate) fn condition(text: &str) -> Result<Condition<'_>, Fault> {
    let mut parser = Parser::new(text)?;
    let condition = parser.condition()?;
    parser.expect(Kind::End)?;
    Ok(condition)
}

pub(crate) fn update(text: &str) -> Result<Update<'_>, Fault> {
    let mut parser = Parser::new(text)?;
    let mut clauses = vec![parser.clause()?];
    while parser.here.kind != Kind::End {
        clauses.push(parser.clause()?);
    }
    Ok(Update { clauses })
}

pub(crate) fn projection(text: &str) -> Result<Vec<Path<'_>>, Fault> {
    let mut parser = Parser::new(text)?;
    let paths = parser.list(Parser::path)?;
    parser.expect(Kind::End)?;
    Ok(paths)
}

struct Parser<'t> {
    text: &'t str,
    before: Option<Token>,
    here: Token,
    next: Token,
    depth: usize,
}

/// What waits for the condition being read.
enum Pending<'t> {
    Open,
    Not,
    And(Condition<'t>),
    Or(Condition<'t>),
}

/// An opening parenthesis may start a condition or an operand; which, shows only later.
enum Term<'t> {
    Condition(Condition<'t>),
    Operand(Operand<'t>),
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Self, Fault> {
        if text.is_empty() {
            return Err(Fault::Empty);
        }
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        let here = token(text, 0);
        Ok(Self { text, before: None, here, next: token(text, here.end), depth: 0 })
    }

    fn slice(&self, token: Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    fn advance(&mut self) -> Token {
        let passed = self.here;
        self.before = Some(passed);
        self.here = self.next;
        self.next = token(self.text, self.here.end);
        passed
    }

    fn take(&mut self, kind: Kind) -> Option<Token> {
        (self.here.kind == kind).then(|| self.advance())
    }

    fn expect(&mut self, kind: Kind) -> Result<Token, Fault> {
        self.take(kind).ok_or_else(|| self.unexpected())
    }

    /// The current token does not fit. What is shown runs from the token before it to the token after it.
    fn unexpected(&self) -> Fault {
        if self.here.kind == Kind::End {
            let near = self.before.map_or(self.text, |before| self.slice(before));
            return Fault::Syntax { token: "<EOF>".into(), near: near.into() };
        }
        let start = self.before.unwrap_or(self.here).start;
        let end = if self.next.kind == Kind::End { self.here.end } else { self.next.end };
        Fault::Syntax { token: self.slice(self.here).into(), near: self.text[start..end].into() }
    }

    fn enter(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > CALL_DEPTH_MAX { Err(self.too_deep()) } else { Ok(()) }
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    fn too_deep(&self) -> Fault {
        let mut last = token(self.text, 0);
        while last.kind != Kind::End {
            let following = token(self.text, last.end);
            if last.kind == Kind::Open && following.kind == Kind::Open {
                return Fault::RedundantParentheses;
            }
            last = following;
        }
        Fault::TooManyOperators(EXPRESSION_OPERATORS_MAX + 1)
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
        let mut list = vec![read(self)?];
        while self.take(Kind::Comma).is_some() {
            list.push(read(self)?);
        }
        Ok(list)
    }

    fn condition(&mut self) -> Result<Condition<'t>, Fault> {
        let mut pending = Vec::new();
        loop {
            while let Some(waiting) = self.prefix() {
                // Each operator may have one pair of parentheses.
                if pending.len() > 2 * DEPTH_MAX {
                    return Err(self.too_deep());
                }
                pending.push(waiting);
            }
            let operand = self.operand()?;
            let mut term = self.comparison(operand)?;
            while self.here.kind == Kind::Close {
                let Some(inner) = self.close(&mut pending, term)? else { return Err(self.unexpected()) };
                term = inner;
            }
            let binary: fn(_) -> _ = match self.here.kind {
                Kind::And => Pending::And,
                Kind::Or => Pending::Or,
                _ => return self.finish(&mut pending, term),
            };
            let left = self.as_condition(term)?;
            let left = join(&mut pending, left, self.here.kind == Kind::Or);
            self.advance();
            pending.push(binary(left));
        }
    }

    fn prefix(&mut self) -> Option<Pending<'t>> {
        let waiting = match self.here.kind {
            Kind::Not => Pending::Not,
            Kind::Open => Pending::Open,
            _ => return None,
        };
        self.advance();
        Some(waiting)
    }

    /// Ends the group a closing parenthesis ends, if one was open. What was in it may be compared with
    /// something, if it was an operand.
    fn close(&mut self, pending: &mut Vec<Pending<'t>>, term: Term<'t>) -> Result<Option<Term<'t>>, Fault> {
        let opened_just_now = matches!(pending.last(), Some(Pending::Open));
        let condition = match term {
            Term::Operand(operand) if opened_just_now => {
                pending.pop();
                self.advance();
                return self.comparison(Operand::Group(Box::new(operand))).map(Some);
            }
            term => self.as_condition(term)?,
        };
        let condition = join(pending, condition, true);
        if pending.pop().is_none() {
            return Ok(None);
        }
        self.advance();
        Ok(Some(Term::Condition(Condition::Group(Box::new(condition)))))
    }

    fn finish(&self, pending: &mut Vec<Pending<'t>>, term: Term<'t>) -> Result<Condition<'t>, Fault> {
        if pending.iter().any(|waiting| matches!(waiting, Pending::Open)) {
            return Err(self.unexpected());
        }
        let condition = self.as_condition(term)?;
        Ok(join(pending, condition, true))
    }

    /// A call can stand as a condition; a path or a value cannot, and what should have followed it is missing.
    fn as_condition(&self, term: Term<'t>) -> Result<Condition<'t>, Fault> {
        let mut operand = match term {
            Term::Condition(condition) => return Ok(condition),
            Term::Operand(operand) => operand,
        };
        let mut groups = 0;
        while let Operand::Group(inner) = operand {
            operand = *inner;
            groups += 1;
        }
        let Operand::Call(call) = operand else { return Err(self.unexpected()) };
        Ok((0..groups).fold(Condition::Call(call), |inner, _| Condition::Group(Box::new(inner))))
    }

    /// What an operand is compared with, if anything.
    fn comparison(&mut self, operand: Operand<'t>) -> Result<Term<'t>, Fault> {
        let comparator = match self.here.kind {
            Kind::Equal => Comparator::Equal,
            Kind::NotEqual => Comparator::NotEqual,
            Kind::Less => Comparator::Less,
            Kind::LessOrEqual => Comparator::LessOrEqual,
            Kind::Greater => Comparator::Greater,
            Kind::GreaterOrEqual => Comparator::GreaterOrEqual,
            Kind::Between => {
                self.advance();
                let low = self.operand()?;
                self.expect(Kind::And)?;
                let high = self.operand()?;
                return Ok(Term::Condition(Condition::Between { value: operand, low, high }));
            }
            Kind::In => {
                self.advance();
                self.expect(Kind::Open)?;
                let list = self.list(Self::operand)?;
                self.expect(Kind::Close)?;
                return Ok(Term::Condition(Condition::In { value: operand, list }));
            }
            _ => return Ok(Term::Operand(operand)),
        };
        self.advance();
        Ok(Term::Condition(Condition::Compare { left: operand, comparator, right: self.operand()? }))
    }

    fn operand(&mut self) -> Result<Operand<'t>, Fault> {
        match self.here.kind {
            Kind::Value => Ok(Operand::Value(self.value()?)),
            Kind::Word if self.next.kind == Kind::Open => {
                let function = self.advance();
                self.advance();
                self.enter()?;
                let mut arguments = vec![self.operand()?];
                while self.take(Kind::Comma).is_some() {
                    arguments.push(self.operand()?);
                }
                self.leave();
                self.expect(Kind::Close)?;
                Ok(Operand::Call(Call { function: self.slice(function), arguments }))
            }
            Kind::Open => {
                self.advance();
                self.enter()?;
                let inner = self.operand()?;
                self.leave();
                self.expect(Kind::Close)?;
                Ok(Operand::Group(Box::new(inner)))
            }
            _ => Ok(Operand::Path(self.path()?)),
        }
    }

    fn value(&mut self) -> Result<&'t str, Fault> {
        self.expect(Kind::Value).map(|token| self.slice(token))
    }

    fn path(&mut self) -> Result<Path<'t>, Fault> {
        let root = self.name()?;
        let mut steps = Vec::new();
        loop {
            if self.take(Kind::Dot).is_some() {
                steps.push(Step::Field(self.name()?));
            } else if self.take(Kind::OpenBracket).is_some() {
                let index = self.expect(Kind::Number)?;
                self.expect(Kind::CloseBracket)?;
                steps.push(Step::Index(self.slice(index)));
            } else {
                return Ok(Path { root, steps });
            }
        }
    }

    fn name(&mut self) -> Result<Name<'t>, Fault> {
        match self.here.kind {
            Kind::Word => {
                let word = self.advance();
                Ok(Name::Word(self.slice(word)))
            }
            _ => self.expect(Kind::Name).map(|token| Name::Placeholder(self.slice(token))),
        }
    }

    fn clause(&mut self) -> Result<Clause<'t>, Fault> {
        match self.here.kind {
            Kind::Set => {
                self.advance();
                self.list(|parser| {
                    let path = parser.path()?;
                    parser.expect(Kind::Equal)?;
                    Ok((path, parser.set_value()?))
                })
                .map(Clause::Set)
            }
            Kind::Remove => {
                self.advance();
                self.list(Self::path).map(Clause::Remove)
            }
            Kind::Add => {
                self.advance();
                self.list(|parser| Ok((parser.path()?, parser.value()?))).map(Clause::Add)
            }
            Kind::Delete => {
                self.advance();
                self.list(|parser| Ok((parser.path()?, parser.value()?))).map(Clause::Delete)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn set_value(&mut self) -> Result<SetValue<'t>, Fault> {
        let left = if self.take(Kind::Open).is_some() {
            self.enter()?;
            let inner = self.set_value()?;
            self.leave();
            self.expect(Kind::Close)?;
            match as_operand(inner) {
                Ok(operand) => Operand::Group(Box::new(operand)),
                Err(sum) => return Ok(SetValue::Group(Box::new(sum))),
            }
        } else {
            self.operand()?
        };
        if self.take(Kind::Plus).is_some() {
            return Ok(SetValue::Plus(left, self.operand()?));
        }
        if self.take(Kind::Minus).is_some() {
            return Ok(SetValue::Minus(left, self.operand()?));
        }
        Ok(SetValue::Is(left))
    }
}

/// Gives a condition to the NOT and AND that wait for it, and to the OR too if `or`.
fn join<'t>(pending: &mut Vec<Pending<'t>>, mut condition: Condition<'t>, or: bool) -> Condition<'t> {
    loop {
        condition = match pending.pop() {
            Some(Pending::Not) => Condition::Not(Box::new(condition)),
            Some(Pending::And(left)) => Condition::And(Box::new(left), Box::new(condition)),
            Some(Pending::Or(left)) if or => Condition::Or(Box::new(left), Box::new(condition)),
            other => {
                pending.extend(other);
                return condition;
            }
        };
    }
}

fn as_operand(value: SetValue<'_>) -> Result<Operand<'_>, SetValue<'_>> {
    match value {
        SetValue::Is(operand) => Ok(operand),
        sum => Err(sum),
    }
}

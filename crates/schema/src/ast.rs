//! What a file says, with the place of every part.
//!
//! Together with the tokens it was read from ([`Tree::tokens`], comments and line ends included) the tree is
//! lossless: a formatter or an editor can give every byte its meaning and its place.

use crate::span::Span;
use crate::token::Token;

/// One file, parsed.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub items: Vec<Item>,
    /// All tokens, comments and line ends included.
    pub tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

/// The `///` lines before an item, without their slashes.
pub type Docs = Vec<String>;

#[derive(Clone, Debug)]
pub enum Item {
    System { name: Name, docs: Docs },
    Include { path: Template },
    Param(Param),
    Type(TypeItem),
    Source { name: Name, settings: Vec<Setting>, docs: Docs },
    Table(Table),
    Block(Block),
    Setting(Setting),
}

#[derive(Clone, Debug)]
pub struct Param {
    pub name: Name,
    pub kind: Name,
    pub default: Literal,
    pub variable: Option<Name>,
    pub unit: Option<Name>,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct TypeItem {
    pub name: Name,
    pub fields: Vec<Data>,
    /// Ends in `..`: attributes it does not know are kept.
    pub open: bool,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub name: Name,
    pub key: Option<Key>,
    pub second_key: Option<Span>,
    pub settings: Vec<Setting>,
    pub indexes: Vec<Index>,
    pub entities: Vec<Entity>,
    pub collections: Vec<Collection>,
    pub docs: Docs,
}

/// `key pk / sk`, or `key "A#{b}" / "C"`.
#[derive(Clone, Debug)]
pub struct Key {
    pub partition: KeyPart,
    pub sort: Option<KeyPart>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum KeyPart {
    Template(Template),
    /// Attribute names, each perhaps with a type. Several make a multi-attribute index key.
    Names(Vec<(Name, Option<Name>)>),
}

#[derive(Clone, Debug)]
pub struct Index {
    pub name: Name,
    pub alias: Option<Name>,
    pub key: Key,
    pub projection: Option<Projection>,
    /// The word `hot`: few partition values are meant to be.
    pub hot: bool,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub enum Projection {
    All,
    Keys,
    Names(Vec<Name>),
}

#[derive(Clone, Debug)]
pub struct Entity {
    pub name: Name,
    pub source: Option<Name>,
    pub key: Option<Key>,
    pub settings: Vec<Setting>,
    pub fields: Vec<Data>,
    pub lifecycles: Vec<Lifecycle>,
    pub docs: Docs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Stored,
    Input,
    Let,
}

/// A value or an equation.
#[derive(Clone, Debug)]
pub struct Data {
    pub role: Role,
    pub name: Name,
    pub stored_as: Option<Name>,
    pub kind: Option<TypeRef>,
    pub checks: Vec<Check>,
    pub equation: Option<Expr>,
    pub on_create: bool,
    pub docs: Docs,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct TypeRef {
    pub kind: TypeKind,
    pub optional: bool,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum TypeKind {
    /// A name and, for some, a word that makes it precise: `instant ms`, `uuid v4`.
    Named(Name, Option<Name>),
    List(Box<TypeRef>),
    /// `set<string>`
    Set(Box<TypeRef>),
    /// `map<string, int>`: what its values are.
    Map(Box<TypeRef>),
    /// `"a" | "b"`
    Choice(Vec<Template>),
}

#[derive(Clone, Debug)]
pub struct Check {
    pub kind: CheckKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum CheckKind {
    Match(String),
    In(Range),
    Len(Range),
    Positive,
    Nonempty,
    Lower,
    Upper,
    Secret,
    Default(Literal),
    Valid { lasts: Literal, from: Name },
}

/// `1..=53`, `0..`, `..=9`.
#[derive(Clone, Debug)]
pub struct Range {
    pub from: Option<Literal>,
    pub to: Option<Literal>,
    pub inclusive: bool,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Literal {
    pub kind: LiteralKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum LiteralKind {
    Number(String),
    /// Milliseconds.
    Duration(i64),
    Bytes(u64),
    /// As written, without the sign: `5`, `0.5`.
    Percent(String),
    /// Dollars, as written.
    Money(String),
    Text(Template),
    Bool(bool),
    /// `[]`
    EmptyList,
}

/// Text in quotes, with or without holes.
#[derive(Clone, Debug)]
pub struct Template {
    pub parts: Vec<TemplatePart>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum TemplatePart {
    Text(String),
    Hole { name: Name, format: Option<Name>, span: Span },
}

impl Template {
    /// The text, if there are no holes.
    pub fn plain(&self) -> Option<String> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(piece) => text.push_str(piece),
                TemplatePart::Hole { .. } => return None,
            }
        }
        Some(text)
    }

    pub fn holes(&self) -> impl Iterator<Item = &Name> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Hole { name, .. } => Some(name),
            TemplatePart::Text(_) => None,
        })
    }
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    Name(Name),
    Member(Box<Expr>, Name),
    Call { receiver: Option<Box<Expr>>, function: Name, arguments: Vec<Expr> },
    Literal(Literal),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
}

impl BinaryOp {
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Or => "or",
            Self::And => "and",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Add => "+",
            Self::Subtract => "-",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Lifecycle {
    pub name: Name,
    pub held_in: Option<Name>,
    pub states: Vec<State>,
    pub transitions: Vec<Transition>,
    pub ready: Option<Expr>,
    pub settings: Vec<Setting>,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct State {
    pub name: Name,
    pub template: Option<Template>,
    pub lease: Option<Literal>,
    pub due: Option<Literal>,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct Transition {
    pub name: Name,
    pub from: Vec<Name>,
    pub to: Name,
    /// A name without an expression becomes a parameter.
    pub set: Vec<(Name, Option<Expr>)>,
    pub docs: Docs,
}

#[derive(Clone, Debug)]
pub struct Collection {
    pub name: Name,
    pub members: Vec<Name>,
    pub docs: Docs,
}

/// `defaults { … }`, `alarms { … }`, `metrics "…" { … }`, `grant app { … }`.
#[derive(Clone, Debug)]
pub struct Block {
    pub name: Name,
    pub values: Vec<Token>,
    pub settings: Vec<Setting>,
    pub docs: Docs,
}

/// A word and what follows it on its line. What it may be is decided where it is used.
#[derive(Clone, Debug)]
pub struct Setting {
    pub name: Name,
    pub values: Vec<Token>,
    pub span: Span,
}

//! Items as bytes: what the embedded store keeps on disk, and the layer keeps in DynamoDB of items that do not fit.
//!
//! An item is a version byte, its size as DynamoDB counts it, and its attributes sorted by name:
//!
//! ```text
//! item  = 0x01 size:varint count:varint { text value }
//! value = tag:u8 payload
//!         S, N: text    B: bytes    BOOL: in the tag    NULL: nothing
//!         SS, NS, BS, L, M: length:u32 count:varint { text | text | bytes | value | text value }
//! text  = bytes = length:varint u8…
//! ```
//!
//! Numbers are kept as the text they are returned as. Reading is lazy and copies nothing: [`open`] hands out
//! [`ValueRef`]s that borrow from the bytes, so an answer can be written straight from them. Bytes are never trusted:
//! whatever they hold, reading gives an item or an error.
//!
//! Whatever has been written in one version stays readable: a change of the format takes the next version byte.

use std::fmt;

use crate::limits::NESTING_DEPTH_MAX;
use crate::{AttributeValue, Item, Number};

const VERSION: u8 = 1;

mod tag {
    pub(super) const S: u8 = 1;
    pub(super) const N: u8 = 2;
    pub(super) const B: u8 = 3;
    pub(super) const FALSE: u8 = 4;
    pub(super) const TRUE: u8 = 5;
    pub(super) const NULL: u8 = 6;
    pub(super) const SS: u8 = 7;
    pub(super) const NS: u8 = 8;
    pub(super) const BS: u8 = 9;
    pub(super) const L: u8 = 10;
    pub(super) const M: u8 = 11;
}

/// Bytes that are not an item.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored item cannot be read: {0}")]
pub struct ItemBytesError(&'static str);

type Result<T> = std::result::Result<T, ItemBytesError>;

/// An item as bytes, to be stored.
pub fn encode(item: &Item) -> Vec<u8> {
    encode_sized(item, item.size())
}

/// As [`encode`], for a caller that knows the item's size already.
pub fn encode_sized(item: &Item, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size + 4 * item.len() + 16);
    out.push(VERSION);
    put_varint(&mut out, size);
    put_map(&mut out, item);
    out
}

fn put_map(out: &mut Vec<u8>, map: &Item) {
    put_varint(out, map.len());
    for (name, value) in map {
        put_bytes(out, name.as_bytes());
        put_value(out, value);
    }
}

fn put_value(out: &mut Vec<u8>, value: &AttributeValue) {
    match value {
        AttributeValue::S(text) => {
            out.push(tag::S);
            put_bytes(out, text.as_bytes());
        }
        AttributeValue::N(number) => {
            out.push(tag::N);
            put_bytes(out, number.to_string().as_bytes());
        }
        AttributeValue::B(bytes) => {
            out.push(tag::B);
            put_bytes(out, bytes);
        }
        AttributeValue::Bool(false) => out.push(tag::FALSE),
        AttributeValue::Bool(true) => out.push(tag::TRUE),
        AttributeValue::Null => out.push(tag::NULL),
        AttributeValue::Ss(set) => put_container(out, tag::SS, |out| {
            put_varint(out, set.len());
            set.iter().for_each(|text| put_bytes(out, text.as_bytes()));
        }),
        AttributeValue::Ns(set) => put_container(out, tag::NS, |out| {
            put_varint(out, set.len());
            set.iter().for_each(|number| put_bytes(out, number.to_string().as_bytes()));
        }),
        AttributeValue::Bs(set) => put_container(out, tag::BS, |out| {
            put_varint(out, set.len());
            set.iter().for_each(|bytes| put_bytes(out, bytes));
        }),
        AttributeValue::L(list) => put_container(out, tag::L, |out| {
            put_varint(out, list.len());
            list.iter().for_each(|value| put_value(out, value));
        }),
        AttributeValue::M(map) => put_container(out, tag::M, |out| put_map(out, map)),
    }
}

fn put_container(out: &mut Vec<u8>, tag: u8, content: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    content(out);
    let length = u32::try_from(out.len() - at - 4).expect("an item is at most 400 KB");
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut n: usize) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// The item that bytes hold.
pub fn decode(bytes: &[u8]) -> Result<Item> {
    open(bytes)?.1.decode(0)
}

/// The size of the item that bytes hold, as DynamoDB counts it, and its attributes.
pub fn open(bytes: &[u8]) -> Result<(usize, MapRef<'_>)> {
    let mut reader = Reader(bytes);
    if reader.byte()? != VERSION {
        return Err(ItemBytesError("it is of a version this program does not know"));
    }
    let size = reader.varint()?;
    Ok((size, members(reader)?))
}

/// A value inside a stored item.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    S(&'a str),
    /// Canonical decimal text.
    N(&'a str),
    B(&'a [u8]),
    Bool(bool),
    Null,
    Ss(Members<'a, &'a str>),
    /// Canonical decimal texts, in numeric order.
    Ns(Members<'a, &'a str>),
    Bs(Members<'a, &'a [u8]>),
    L(Members<'a, ValueRef<'a>>),
    M(MapRef<'a>),
}

/// The named values of an item or map, in name order.
pub type MapRef<'a> = Members<'a, (&'a str, ValueRef<'a>)>;

/// The members of a set, list or map, each read when it is asked for. An error ends them.
#[derive(Clone, Copy)]
pub struct Members<'a, T> {
    left: usize,
    reader: Reader<'a>,
    member: fn(&mut Reader<'a>) -> Result<T>,
}

fn members<'a, T: Member<'a>>(mut reader: Reader<'a>) -> Result<Members<'a, T>> {
    Ok(Members { left: reader.varint()?, reader, member: T::read })
}

impl<T> Members<'_, T> {
    pub fn len(&self) -> usize {
        self.left
    }

    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<T> Iterator for Members<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        self.left = self.left.checked_sub(1)?;
        let member = (self.member)(&mut self.reader);
        if member.is_err() {
            self.left = 0;
        }
        Some(member)
    }
}

impl<T> fmt::Debug for Members<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} members", self.left)
    }
}

impl<'a> MapRef<'a> {
    /// The attribute of that name.
    pub fn find(self, name: &str) -> Result<Option<ValueRef<'a>>> {
        for member in self {
            let (found, value) = member?;
            match found.cmp(name) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(Some(value)),
                std::cmp::Ordering::Greater => break,
            }
        }
        Ok(None)
    }

    fn decode(self, depth: usize) -> Result<Item> {
        self.map(|member| member.and_then(|(name, value)| Ok((name, value.decode(depth)?)))).collect()
    }
}

impl ValueRef<'_> {
    pub fn to_value(self) -> Result<AttributeValue> {
        self.decode(0)
    }

    fn decode(self, depth: usize) -> Result<AttributeValue> {
        if depth > NESTING_DEPTH_MAX {
            return Err(ItemBytesError("it is nested too deep"));
        }
        Ok(match self {
            Self::S(text) => AttributeValue::S(text.to_owned()),
            Self::N(text) => AttributeValue::N(number(text)?),
            Self::B(bytes) => AttributeValue::B(bytes.to_owned()),
            Self::Bool(value) => AttributeValue::Bool(value),
            Self::Null => AttributeValue::Null,
            Self::Ss(set) => {
                AttributeValue::Ss(set.map(|text| text.map(str::to_owned)).collect::<Result<_>>()?)
            }
            Self::Ns(set) => AttributeValue::Ns(set.map(|text| number(text?)).collect::<Result<_>>()?),
            Self::Bs(set) => AttributeValue::Bs(set.map(|b| b.map(<[u8]>::to_vec)).collect::<Result<_>>()?),
            Self::L(list) => AttributeValue::L(list.map(|v| v?.decode(depth + 1)).collect::<Result<_>>()?),
            Self::M(map) => AttributeValue::M(map.decode(depth + 1)?),
        })
    }
}

fn number(text: &str) -> Result<Number> {
    text.parse().map_err(|_| ItemBytesError("a number in it is none"))
}

/// What can stand in a set, list or map.
trait Member<'a>: Sized {
    fn read(reader: &mut Reader<'a>) -> Result<Self>;
}

impl<'a> Member<'a> for &'a [u8] {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let length = reader.varint()?;
        reader.take(length)
    }
}

impl<'a> Member<'a> for &'a str {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        std::str::from_utf8(<&[u8]>::read(reader)?).map_err(|_| ItemBytesError("a text in it is not UTF-8"))
    }
}

impl<'a> Member<'a> for (&'a str, ValueRef<'a>) {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        Ok((<&str>::read(reader)?, ValueRef::read(reader)?))
    }
}

impl<'a> Member<'a> for ValueRef<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(match reader.byte()? {
            tag::S => ValueRef::S(<&str>::read(reader)?),
            tag::N => ValueRef::N(<&str>::read(reader)?),
            tag::B => ValueRef::B(<&[u8]>::read(reader)?),
            tag::FALSE => ValueRef::Bool(false),
            tag::TRUE => ValueRef::Bool(true),
            tag::NULL => ValueRef::Null,
            tag::SS => ValueRef::Ss(members(reader.container()?)?),
            tag::NS => ValueRef::Ns(members(reader.container()?)?),
            tag::BS => ValueRef::Bs(members(reader.container()?)?),
            tag::L => ValueRef::L(members(reader.container()?)?),
            tag::M => ValueRef::M(members(reader.container()?)?),
            _ => return Err(ItemBytesError("a value in it is of an unknown type")),
        })
    }
}

#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.0.split_first().ok_or(ItemBytesError("it ends too early"))?;
        self.0 = rest;
        Ok(*first)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(ItemBytesError("it ends too early"))?;
        self.0 = rest;
        Ok(head)
    }

    fn container(&mut self) -> Result<Self> {
        let length = self.take(4)?.try_into().map(u32::from_le_bytes).expect("four bytes were taken");
        self.take(length as usize).map(Self)
    }

    fn varint(&mut self) -> Result<usize> {
        let mut n = 0usize;
        for shift in (0..=28).step_by(7) {
            let byte = self.byte()?;
            n |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(ItemBytesError("a length in it is too large"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores and tables hold items as these bytes: what an earlier version wrote has to be read by every later one.
    #[test]
    fn the_bytes_of_version_1_stay_as_they_are() {
        let list = vec![AttributeValue::Null, AttributeValue::Bool(true)];
        let numbers = ["-1", "2.5"].into_iter().map(|text| text.parse().unwrap()).collect();
        let map: Item = [("a", AttributeValue::Bool(false))].into_iter().collect();
        let item: Item = [
            ("b", AttributeValue::B(vec![0, 255])),
            ("l", AttributeValue::L(list)),
            ("m", AttributeValue::M(map)),
            ("n", AttributeValue::N("12.5".parse().unwrap())),
            ("ns", AttributeValue::Ns(numbers)),
            ("s", AttributeValue::from("é")),
        ]
        .into_iter()
        .collect();
        let bytes = b"\x01\x21\x06\
            \x01b\x03\x02\x00\xff\
            \x01l\x0a\x03\0\0\0\x02\x06\x05\
            \x01m\x0b\x04\0\0\0\x01\x01a\x04\
            \x01n\x02\x0412.5\
            \x02ns\x08\x08\0\0\0\x02\x02-1\x032.5\
            \x01s\x01\x02\xc3\xa9";
        assert_eq!(decode(bytes), Ok(item.clone()));
        assert_eq!(encode(&item), bytes);
    }
}

//! What stands between the bytes of a backup and its files: names by content, compression, encryption.
//!
//! The backup of an encrypted store is encrypted, with AES-256-GCM-SIV: what is changed is found, not only what is
//! read hidden. The repository has a random key of its own, which is kept wrapped (RFC 3394) by a master key; another
//! master key needs one small file written. Names are keyed hashes, so that nobody can tell from a name whether a
//! content that he knows is there. A nonce comes from the content, so the same content is the same file.

use crate::{Error, Key};
use aes_gcm_siv::aead::{Aead, Payload};
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use std::fmt;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
/// The last byte tells the version.
const MARK: [u8; 7] = *b"LARDER\x01";
const COMPRESSED: u8 = 1;
const SEALED: u8 = 2;
/// The mark, what was done, and how long the content is.
const HEADER_BYTES: usize = MARK.len() + 1 + 4;
/// No content is longer.
pub(crate) const CONTENT_BYTES_MAX: usize = 256 << 20;

/// BLAKE3 of something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub(crate) [u8; 32]);

impl Hash {
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        unhex(text)?.try_into().ok().map(Self)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How the files of a repository are written.
#[derive(Clone)]
pub(crate) enum Vault {
    Plain,
    Sealed(Box<Keys>),
}

#[derive(Clone)]
pub(crate) struct Keys {
    repository: [u8; KEY_BYTES],
    names: [u8; KEY_BYTES],
    cipher: Aes256GcmSiv,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_sealed() { "Vault(sealed)" } else { "Vault(plain)" })
    }
}

impl Vault {
    /// Encrypts with a new key.
    pub(crate) fn random() -> Result<Self, Error> {
        let mut key = [0; KEY_BYTES];
        fill(&mut key)?;
        Ok(Self::of(key))
    }

    fn of(repository: [u8; KEY_BYTES]) -> Self {
        let derived = |name: &str| keyed(&repository, &[name.as_bytes()]);
        let cipher = Aes256GcmSiv::new(&derived("content").into());
        Self::Sealed(Box::new(Keys { repository, names: derived("names"), cipher }))
    }

    /// Its key, wrapped by a master key; absent if it does not encrypt.
    pub(crate) fn wrap(&self, master: Key) -> Option<String> {
        match self {
            Self::Plain => None,
            Self::Sealed(keys) => Some(hex(&master.wrap(&keys.repository))),
        }
    }

    /// Absent if the master key is another.
    pub(crate) fn unwrap(wrapped: &str, master: Key) -> Option<Self> {
        let key = master.unwrap(&unhex(wrapped)?)?;
        Some(Self::of(key.try_into().ok()?))
    }

    pub(crate) fn is_sealed(&self) -> bool {
        matches!(self, Self::Sealed(_))
    }

    /// The name of the file with this content.
    pub(crate) fn name(&self, content: &Hash) -> Hash {
        match self {
            Self::Plain => *content,
            Self::Sealed(keys) => Hash(keyed(&keys.names, &[b"file", &content.0])),
        }
    }

    /// A checksum that only who has the key can make, if there is a key.
    pub(crate) fn sum(&self, parts: &[&[u8]]) -> Hash {
        match self {
            Self::Plain => Hash::of(parts),
            Self::Sealed(keys) => {
                let mut all = vec![&b"sum"[..]];
                all.extend(parts);
                Hash(keyed(&keys.names, &all))
            }
        }
    }

    /// The file of a content. `label` says what it is: opened with another, it is damaged.
    pub(crate) fn close(&self, label: &[u8], content: &[u8]) -> Result<Vec<u8>, Error> {
        let compressed = lz4_flex::block::compress(content);
        let (mut kind, body) = match compressed.len() < content.len() {
            true => (COMPRESSED, compressed),
            false => (0, content.to_vec()),
        };
        if self.is_sealed() {
            kind |= SEALED;
        }
        let mut file = Vec::with_capacity(HEADER_BYTES + NONCE_BYTES + body.len() + 16);
        file.extend_from_slice(&MARK);
        file.push(kind);
        file.extend_from_slice(&(content.len() as u32).to_le_bytes());
        match self {
            Self::Plain => file.extend_from_slice(&body),
            Self::Sealed(keys) => {
                // Of what is encrypted rather than of the content: that changes if the compression does.
                let nonce = keyed(&keys.names, &[b"nonce", label, &body]);
                let (nonce, _) = nonce.split_first_chunk::<NONCE_BYTES>().expect("a hash is longer");
                let payload = Payload { msg: &body, aad: &[&file, label].concat() };
                let sealed = keys.cipher.encrypt(&Nonce::from(*nonce), payload);
                file.extend_from_slice(nonce);
                file.extend_from_slice(&sealed.map_err(|_| io_error("cannot encrypt so much at once"))?);
            }
        }
        Ok(file)
    }

    /// The content of a file, or what is wrong with it. Of a plain file only the caller can tell whether the content
    /// is right.
    pub(crate) fn open(&self, label: &[u8], file: &[u8]) -> Result<Vec<u8>, &'static str> {
        let (header, body) = file.split_first_chunk::<HEADER_BYTES>().ok_or("it was cut short")?;
        let (mark, rest) = header.split_at(MARK.len());
        if mark != MARK {
            return Err("it does not begin as a file of this version");
        }
        let (kind, length) = (rest[0], u32::from_le_bytes([rest[1], rest[2], rest[3], rest[4]]) as usize);
        if length > CONTENT_BYTES_MAX || kind & !(COMPRESSED | SEALED) != 0 {
            return Err("its header makes no sense");
        }
        let opened;
        let body = match (self, kind & SEALED != 0) {
            (Self::Plain, false) => body,
            (Self::Sealed(keys), true) => {
                let (nonce, sealed) = body.split_first_chunk::<NONCE_BYTES>().ok_or("it was cut short")?;
                let payload = Payload { msg: sealed, aad: &[header, label].concat() };
                opened = keys
                    .cipher
                    .decrypt(&Nonce::from(*nonce), payload)
                    .map_err(|_| "it is not what was written with this key")?;
                &opened
            }
            (Self::Plain, true) => return Err("it is encrypted, and the others are not"),
            (Self::Sealed(_), false) => return Err("it is not encrypted, and the others are"),
        };
        if kind & COMPRESSED == 0 {
            return (body.len() == length).then(|| body.to_vec()).ok_or("it is not as long as it says");
        }
        let content = lz4_flex::block::decompress(body, length).map_err(|_| "it cannot be decompressed")?;
        (content.len() == length).then_some(content).ok_or("it is not as long as it says")
    }
}

pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|error| io_error(&error.to_string()))
}

fn io_error(cause: &str) -> Error {
    std::io::Error::other(cause.to_owned()).into()
}

fn keyed(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |letter: u8| match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

//! Encryption of every byte that the log and the tree write.
//!
//! AES-256 in XTS mode, by sectors of 512 bytes, which is what disks write whole: it keeps sizes and places, so
//! what a power loss can do to the file is the same with it as without. XTS hides and does not prove: that a byte
//! was changed is noticed by the tags of pages and of the log's records, whose key comes from the data key.
//!
//! The data key is made once, at random. The file's header holds it wrapped (RFC 3394) by the master key, so a new
//! master key needs one sector written, not the store.
//!
//! A block of zeros on disk is a block of zeros: that is how a file looks where nothing was ever written.

use crate::{Disk, Error};
use aes::Aes256;
use aes::cipher::KeyInit;
use aes_kw::KwAes256;
use highway::{HighwayHash, HighwayHasher};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use xts_mode::{Xts128, get_tweak_default};

const SECTOR_BYTES: u64 = 512;
const BLOCK_BYTES: usize = 16;
const DATA_KEY_BYTES: usize = 64;
pub(crate) const WRAPPED_BYTES: usize = DATA_KEY_BYTES + 8;

const NOT_A_KEY: &str = "it does not hold 64 hexadecimal digits";

/// A master key. It is shown to nobody.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key in `LARDER_KEY`, or in the file that `LARDER_KEY_FILE` names; none if neither is set.
    pub fn from_env() -> Result<Option<Self>, Error> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        match (set("LARDER_KEY"), set("LARDER_KEY_FILE")) {
            (Some(text), _) => {
                let key = text.to_str().and_then(Self::from_hex);
                key.map(Some)
                    .ok_or(Error::NoKey { place: "LARDER_KEY".to_owned(), cause: NOT_A_KEY.to_owned() })
            }
            (None, Some(path)) => Self::from_file(Path::new(&path)).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The key in a file, as 64 hexadecimal digits. A file that others may read or write is refused.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let no_key = |cause: String| Error::NoKey { place: path.display().to_string(), cause };
        #[cfg(unix)]
        if let Ok(file) = std::fs::metadata(path)
            && std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o077 != 0
        {
            return Err(Error::OpenKey { path: path.to_owned() });
        }
        let text = std::fs::read_to_string(path).map_err(|error| no_key(error.to_string()))?;
        Self::from_hex(&text).ok_or_else(|| no_key(NOT_A_KEY.to_owned()))
    }

    /// Reads 64 hexadecimal digits, with white space around them.
    pub fn from_hex(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl Key {
    /// Another key, under this one.
    pub(crate) fn wrap(self, key: &[u8; 32]) -> Vec<u8> {
        let mut wrapped = vec![0; key.len() + 8];
        KwAes256::new(&self.0.into()).wrap_key(key, &mut wrapped).expect("the lengths are right");
        wrapped
    }

    /// Absent if it was wrapped under another.
    pub(crate) fn unwrap(self, wrapped: &[u8]) -> Option<Vec<u8>> {
        let mut key = vec![0; wrapped.len().checked_sub(8)?];
        KwAes256::new(&self.0.into()).unwrap_key(wrapped, &mut key).ok()?;
        Some(key)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The key that the bytes are encrypted with.
pub(crate) struct DataKey([u8; DATA_KEY_BYTES]);

impl DataKey {
    pub(crate) fn random() -> Result<Self, Error> {
        let mut bytes = [0; DATA_KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(bytes))
    }

    pub(crate) fn wrap(&self, master: Key) -> [u8; WRAPPED_BYTES] {
        let mut wrapped = [0; WRAPPED_BYTES];
        KwAes256::new(&master.0.into()).wrap_key(&self.0, &mut wrapped).expect("the lengths are right");
        wrapped
    }

    /// A key for tags, which is of no use to who would know the data key.
    pub(crate) fn tag_key(&self, salt: [u64; 4]) -> [u64; 4] {
        let mut hasher = HighwayHasher::new(highway::Key(salt));
        hasher.append(&self.0);
        hasher.finalize256()
    }

    /// Absent if the master key is another.
    pub(crate) fn unwrap(wrapped: &[u8; WRAPPED_BYTES], master: Key) -> Option<Self> {
        let mut bytes = [0; DATA_KEY_BYTES];
        KwAes256::new(&master.0.into()).unwrap_key(wrapped, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

/// A disk whose bytes are encrypted from `start` on, which is where a sector begins.
pub(crate) struct Sealed {
    disk: Arc<dyn Disk>,
    start: u64,
    cipher: Xts128<Aes256>,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("disk", &self.disk).finish_non_exhaustive()
    }
}

impl Sealed {
    pub(crate) fn new(disk: Arc<dyn Disk>, start: u64, key: &DataKey) -> Self {
        let (first, second) = key.0.split_at(DATA_KEY_BYTES / 2);
        let half = |bytes| Aes256::new_from_slice(bytes).expect("half of the data key is a key");
        Self { disk, start, cipher: Xts128::new(half(first), half(second)) }
    }

    /// Whole sectors from `offset` on, decrypted; zeros past the end of the disk.
    fn read_sectors(&self, offset: u64, sectors: &mut [u8]) -> io::Result<()> {
        let there = self.disk.len()?.saturating_sub(offset).min(sectors.len() as u64) as usize;
        let (present, absent) = sectors.split_at_mut(there);
        if !present.is_empty() {
            self.disk.read(offset, present)?;
        }
        absent.fill(0);
        self.decrypt(offset, sectors);
        Ok(())
    }

    fn decrypt(&self, offset: u64, sectors: &mut [u8]) {
        let blank: Vec<usize> =
            blocks(sectors).filter(|(_, block)| is_zero(block)).map(|(at, _)| at).collect();
        self.cipher.decrypt_area(sectors, SECTOR_BYTES as usize, sector(offset), get_tweak_default);
        for at in blank {
            sectors[at..at + BLOCK_BYTES].fill(0);
        }
    }
}

fn blocks(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    bytes.chunks(BLOCK_BYTES).enumerate().map(|(number, block)| (number * BLOCK_BYTES, block))
}

fn is_zero(block: &[u8]) -> bool {
    block.iter().all(|byte| *byte == 0)
}

fn sector(offset: u64) -> u128 {
    u128::from(offset / SECTOR_BYTES)
}

/// The whole sectors that a range of bytes touches: where they begin, and how many bytes they are.
fn around(offset: u64, length: usize) -> (u64, usize) {
    let first = offset - offset % SECTOR_BYTES;
    let end = (offset + length as u64).next_multiple_of(SECTOR_BYTES);
    (first, (end - first) as usize)
}

impl Disk for Sealed {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset < self.start {
            return self.disk.read(offset, out);
        }
        let (first, bytes) = around(offset, out.len());
        if (first, bytes) == (offset, out.len()) {
            self.disk.read(offset, out)?;
            self.decrypt(offset, out);
            return Ok(());
        }
        if offset + out.len() as u64 > self.disk.len()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut sectors = vec![0; bytes];
        self.read_sectors(first, &mut sectors)?;
        let skipped = (offset - first) as usize;
        out.copy_from_slice(&sectors[skipped..skipped + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset < self.start {
            return self.disk.write(offset, data);
        }
        let (first, bytes) = around(offset, data.len());
        let mut sectors = vec![0; bytes];
        let (skipped, end) = ((offset - first) as usize, (offset - first) as usize + data.len());
        // What surrounds the data is written as it was: its blocks are encrypted one by one, to the same bytes.
        if skipped > 0 {
            self.read_sectors(first, &mut sectors[..SECTOR_BYTES as usize])?;
        }
        if end < bytes {
            let last = bytes - SECTOR_BYTES as usize;
            self.read_sectors(first + last as u64, &mut sectors[last..])?;
        }
        sectors[skipped..end].copy_from_slice(data);
        self.cipher.encrypt_area(&mut sectors, SECTOR_BYTES as usize, sector(first), get_tweak_default);
        self.disk.write(first, &sectors)
    }
}

//! `Content-Encoding` of requests and responses: gzip, deflate, or neither.
//!
//! "deflate" is a zlib stream by the book and a bare deflate stream from some clients: both are read, and
//! zlib is written. Old SDKs send `amz-1.0`, which means nothing was done to the body.
//!
//! Promise: however small the compressed body, no more than the limit is ever unpacked.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};

/// Below this a packed answer saves nothing worth the work.
const PACKED_BYTES_MIN: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Gzip,
    Deflate,
}

/// Why a body cannot be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnpackError {
    Damaged,
    TooLarge,
}

impl Encoding {
    /// How a request's body is packed. `Err` names an encoding that is not known here.
    pub(crate) fn of_content(header: &str) -> Result<Option<Self>, &str> {
        match header.trim() {
            name if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") => {
                Ok(Some(Self::Gzip))
            }
            name if name.eq_ignore_ascii_case("deflate") => Ok(Some(Self::Deflate)),
            name if name.is_empty()
                || name.eq_ignore_ascii_case("identity")
                || name.eq_ignore_ascii_case("amz-1.0") =>
            {
                Ok(None)
            }
            other => Err(other),
        }
    }

    /// How the answer may be packed, given the request's `Accept-Encoding` and the answer's size.
    pub(crate) fn accepted(header: &str, body_bytes: usize) -> Option<Self> {
        if body_bytes < PACKED_BYTES_MIN {
            return None;
        }
        let accepts = |wanted: &str| {
            header.split(',').any(|offer| {
                let (name, quality) = offer.split_once(';').unwrap_or((offer, ""));
                let refused = quality
                    .trim()
                    .strip_prefix("q=")
                    .is_some_and(|q| q.trim().parse::<f32>().is_ok_and(|q| q <= 0.0));
                name.trim().eq_ignore_ascii_case(wanted) && !refused
            })
        };
        if accepts("gzip") {
            Some(Self::Gzip)
        } else if accepts("deflate") {
            Some(Self::Deflate)
        } else {
            None
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }

    pub(crate) fn unpack(self, body: &[u8], limit: usize) -> Result<Vec<u8>, UnpackError> {
        match self {
            Self::Gzip => read_up_to(limit, MultiGzDecoder::new(body)),
            Self::Deflate if is_zlib(body) => read_up_to(limit, ZlibDecoder::new(body)),
            Self::Deflate => read_up_to(limit, DeflateDecoder::new(body)),
        }
    }

    pub(crate) fn pack(self, body: &[u8]) -> Vec<u8> {
        let packed = Vec::with_capacity(body.len() / 4);
        match self {
            Self::Gzip => written(body, GzEncoder::new(packed, Compression::fast()), GzEncoder::finish),
            Self::Deflate => {
                written(body, ZlibEncoder::new(packed, Compression::fast()), ZlibEncoder::finish)
            }
        }
        .expect("writing to memory does not fail")
    }
}

fn read_up_to(limit: usize, mut decoder: impl Read) -> Result<Vec<u8>, UnpackError> {
    let mut body = Vec::new();
    let one_over = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    decoder.by_ref().take(one_over).read_to_end(&mut body).map_err(|_| UnpackError::Damaged)?;
    if body.len() > limit { Err(UnpackError::TooLarge) } else { Ok(body) }
}

fn written<E: Write>(
    body: &[u8],
    mut encoder: E,
    finish: impl FnOnce(E) -> io::Result<Vec<u8>>,
) -> io::Result<Vec<u8>> {
    encoder.write_all(body)?;
    finish(encoder)
}

/// Whether the two bytes of a zlib header come first.
fn is_zlib(body: &[u8]) -> bool {
    match body {
        [method, flags, ..] => method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]).is_multiple_of(31),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use flate2::write::DeflateEncoder;

    use super::*;

    const TEXT: &[u8] = br#"{"TableName": "fruit", "Key": {"name": {"S": "apple"}}}"#;

    #[test]
    fn what_is_packed_unpacks() {
        for encoding in [Encoding::Gzip, Encoding::Deflate] {
            assert_eq!(encoding.unpack(&encoding.pack(TEXT), TEXT.len()), Ok(TEXT.to_vec()));
        }
    }

    #[test]
    fn bare_deflate_unpacks_too() {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(TEXT).unwrap();
        assert_eq!(Encoding::Deflate.unpack(&encoder.finish().unwrap(), 1000), Ok(TEXT.to_vec()));
    }

    #[test]
    fn a_body_that_unpacks_over_the_limit_is_refused() {
        for encoding in [Encoding::Gzip, Encoding::Deflate] {
            let bomb = encoding.pack(&vec![b' '; 1 << 20]);
            assert_eq!(encoding.unpack(&bomb, (1 << 20) - 1), Err(UnpackError::TooLarge));
            assert_eq!(encoding.unpack(&bomb, 1 << 20).map(|body| body.len()), Ok(1 << 20));
        }
    }

    #[test]
    fn damaged_bodies_are_refused() {
        for encoding in [Encoding::Gzip, Encoding::Deflate] {
            let whole = encoding.pack(TEXT);
            assert_eq!(encoding.unpack(b"not packed at all", 1000), Err(UnpackError::Damaged));
            assert_eq!(encoding.unpack(&whole[..whole.len() - 5], 1000), Err(UnpackError::Damaged));
        }
    }

    #[test]
    fn only_large_answers_are_packed_and_only_when_asked() {
        for (header, bytes, expected) in [
            ("gzip, deflate, br", 5000, Some(Encoding::Gzip)),
            ("deflate", 5000, Some(Encoding::Deflate)),
            ("gzip;q=0, deflate;q=0.5", 5000, Some(Encoding::Deflate)),
            ("GZIP;q=1.0", 5000, Some(Encoding::Gzip)),
            ("gzip", 100, None),
            ("identity", 5000, None),
            ("br", 5000, None),
            ("", 5000, None),
        ] {
            assert_eq!(Encoding::accepted(header, bytes), expected, "{header}");
        }
    }

    #[test]
    fn unknown_encodings_are_named() {
        assert_eq!(Encoding::of_content("br"), Err("br"));
        assert_eq!(Encoding::of_content("amz-1.0"), Ok(None));
        assert_eq!(Encoding::of_content(" GZip "), Ok(Some(Encoding::Gzip)));
    }
}

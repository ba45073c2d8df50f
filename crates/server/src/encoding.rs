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
use hyper::body::Bytes;
use larder_model::ApiError;
use larder_model::limits::REQUEST_BODY_BYTES_MAX;

use crate::pipeline::Refused;

/// What AWS sends as it is.
const UNPACKED_BYTES_MAX: usize = 4096;

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

/// The body of a request, packed as its `Content-Encoding` says.
pub(crate) fn unpacked(header: &str, body: Bytes) -> Result<Bytes, Refused> {
    let Some(encoding) = Encoding::of_content(header)
        .map_err(|unknown| ApiError::Serialization(format!("Unsupported Content-Encoding: {unknown}")))?
    else {
        return Ok(body);
    };
    match encoding.unpack(&body, REQUEST_BODY_BYTES_MAX) {
        Ok(body) => Ok(body.into()),
        Err(UnpackError::TooLarge) => Err(Refused::TooLarge),
        // As AWS has it, although it is not the server that is at fault.
        Err(UnpackError::Damaged) => {
            let cause = format!("the body is not valid {}", encoding.name());
            Err(ApiError::Internal { cause }.into())
        }
    }
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
        if body_bytes <= UNPACKED_BYTES_MAX {
            return None;
        }
        // Of what is wanted as much, gzip.
        let (gzip, deflate) = (wanted(header, "gzip"), wanted(header, "deflate"));
        if gzip <= 0.0 && deflate <= 0.0 {
            None
        } else if gzip >= deflate {
            Some(Self::Gzip)
        } else {
            Some(Self::Deflate)
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

/// How much an `Accept-Encoding` wants an encoding: 1 unless it says, 0 when it does not name it.
fn wanted(header: &str, encoding: &str) -> f32 {
    let offers = header.split(',').map(|offer| offer.split_once(';').unwrap_or((offer, "")));
    let quality = |quality: &str| match quality.trim().strip_prefix("q=") {
        Some(said) => said.trim().parse::<f32>().ok().filter(|said| said.is_finite()).unwrap_or(1.0),
        None => 1.0,
    };
    let mut named = offers.filter(|(name, _)| name.trim().eq_ignore_ascii_case(encoding));
    named.next().map_or(0.0, |(_, said)| quality(said))
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
            ("gzip;q=0.5, deflate", 5000, Some(Encoding::Deflate)),
            ("deflate, gzip", 5000, Some(Encoding::Gzip)),
            ("gzip", 4096, None),
            ("gzip", 4097, Some(Encoding::Gzip)),
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

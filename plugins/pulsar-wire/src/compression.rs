//! What producers compress their entries by. We only read it; what isn't right is told, and costs no more memory than the entry says.

use std::io::Read as _;

const NONE: i32 = 0;
const LZ4: i32 = 1;
const ZLIB: i32 = 2;
const ZSTD: i32 = 3;
const SNAPPY: i32 = 4;

/// The payload of an entry as it was before it was compressed to these bytes: `size` of them.
///
/// # Errors
/// What is wrong with it; a size of more than `max` bytes.
pub(crate) fn decompress(kind: i32, bytes: &[u8], size: usize, max: usize) -> Result<Vec<u8>, &'static str> {
    if kind == NONE {
        return Ok(bytes.to_vec());
    }
    if size > max {
        return Err("an entry is larger than a source may hold");
    }
    let plain = match kind {
        LZ4 => lz4_flex::block::decompress(bytes, size).map_err(|_| "an entry isn't compressed by LZ4 as it says")?,
        ZLIB => miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(bytes, size)
            .map_err(|_| "an entry isn't compressed by zlib as it says")?,
        ZSTD => zstandard(bytes, size).ok_or("an entry isn't compressed by Zstandard as it says")?,
        SNAPPY => snap::raw::decompress_len(bytes)
            .ok()
            .filter(|length| *length == size)
            .and_then(|_| snap::raw::Decoder::new().decompress_vec(bytes).ok())
            .ok_or("an entry isn't compressed by Snappy as it says")?,
        _ => return Err("an entry is compressed in a way that isn't known here"),
    };
    if plain.len() == size { Ok(plain) } else { Err("an entry has another size than it says") }
}

fn zstandard(bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(bytes).ok()?;
    let mut plain = Vec::with_capacity(size);
    // One byte more shows that there is more.
    decoder.take(u64::try_from(size).ok()?.saturating_add(1)).read_to_end(&mut plain).ok()?;
    Some(plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_compressed_is_read_back() {
        let plain = b"waybill ".repeat(100);
        let zlib = miniz_oxide::deflate::compress_to_vec_zlib(&plain, 6);
        let lz4 = lz4_flex::block::compress(&plain);
        let snappy = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
        let zstd = ruzstd::encoding::compress_to_vec(plain.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
        for (kind, bytes) in [(LZ4, lz4), (ZLIB, zlib), (SNAPPY, snappy), (ZSTD, zstd)] {
            assert_eq!(decompress(kind, &bytes, plain.len(), 10_000).as_deref(), Ok(plain.as_slice()), "{kind}");
            for size in [0, plain.len() - 1, plain.len() + 1] {
                assert!(decompress(kind, &bytes, size, 10_000).is_err(), "{kind} {size}");
            }
            assert!(decompress(kind, b"\x01garbage", 100, 10_000).is_err(), "{kind}");
            assert!(decompress(kind, &bytes, plain.len(), 10).is_err(), "{kind}");
        }
        assert_eq!(decompress(NONE, b"as it is", 0, 1), Ok(b"as it is".to_vec()));
        assert!(decompress(9, b"", 0, 1).is_err());
    }
}

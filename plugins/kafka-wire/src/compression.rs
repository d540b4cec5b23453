//! The four ways in which a batch's records are made smaller.

use std::io::{self, Read, Write as _};

use ruzstd::encoding::CompressionLevel;
use serde::Deserialize;

/// Most bytes of a batch's records when they are whole again: more than a server takes by its defaults, less than a guest has.
pub const DECOMPRESSED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How the Java client begins what it makes smaller with Snappy: a name and two versions.
const SNAPPY_HEAD: [u8; 16] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];
/// Bytes of one block behind that head.
const SNAPPY_BLOCK: usize = 32 * 1024;

/// How records are made smaller. The numbers are the protocol's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Compression {
    /// They stay as they are.
    #[default]
    None = 0,
    /// RFC 1952.
    Gzip = 1,
    /// In blocks, as the Java client writes them.
    Snappy = 2,
    /// The frame format.
    Lz4 = 3,
    /// RFC 8878. Kafka 2.1 and newer.
    Zstd = 4,
}

impl Compression {
    /// By the attributes of a batch; none for one that isn't known.
    pub fn of_attributes(attributes: i16) -> Option<Self> {
        Some(match attributes & 7 {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            _ => return None,
        })
    }

    /// Makes records smaller.
    ///
    /// # Errors
    /// None in memory; the codecs' own signatures have one.
    pub fn compress(self, records: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(records),
            Self::Gzip => {
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                gzip.write_all(&records)?;
                gzip.finish()
            }
            Self::Snappy => {
                let (mut out, mut encoder) = (SNAPPY_HEAD.to_vec(), snap::raw::Encoder::new());
                for block in records.chunks(SNAPPY_BLOCK) {
                    let block = encoder.compress_vec(block)?;
                    out.extend_from_slice(&u32::try_from(block.len()).unwrap_or(u32::MAX).to_be_bytes());
                    out.extend_from_slice(&block);
                }
                Ok(out)
            }
            Self::Lz4 => {
                let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
                lz4.write_all(&records)?;
                Ok(lz4.finish()?)
            }
            Self::Zstd => Ok(ruzstd::encoding::compress_to_vec(records.as_slice(), CompressionLevel::Fastest)),
        }
    }

    /// Makes them whole again.
    ///
    /// # Errors
    /// They are broken, or larger than [`DECOMPRESSED_BYTES_MAX`].
    pub fn decompress(self, records: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(records.to_vec()),
            Self::Gzip => whole(flate2::read::MultiGzDecoder::new(records)),
            Self::Snappy => snappy(records),
            Self::Lz4 => whole(lz4_flex::frame::FrameDecoder::new(records)),
            Self::Zstd => {
                // The window is memory, too, and the frame's head alone says how much.
                let most = DECOMPRESSED_BYTES_MAX as u64;
                let decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(records, most);
                whole(decoder.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?)
            }
        }
    }
}

fn whole(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let most = DECOMPRESSED_BYTES_MAX as u64;
    reader.take(most + 1).read_to_end(&mut out)?;
    if out.len() > DECOMPRESSED_BYTES_MAX { Err(too_large()) } else { Ok(out) }
}

/// Blocks behind the Java client's head, or one without it, as other clients write it.
fn snappy(records: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let Some(mut rest) = records.starts_with(&SNAPPY_HEAD[..8]).then(|| records.get(16..).unwrap_or_default()) else {
        block(records, &mut out)?;
        return Ok(out);
    };
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (bytes, behind) = behind.split_at_checked(length).ok_or_else(cut_short)?;
        block(bytes, &mut out)?;
        rest = behind;
    }
    if rest.is_empty() { Ok(out) } else { Err(cut_short()) }
}

fn block(bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    if snap::raw::decompress_len(bytes)?.saturating_add(out.len()) > DECOMPRESSED_BYTES_MAX {
        return Err(too_large());
    }
    out.extend_from_slice(&snap::raw::Decoder::new().decompress_vec(bytes)?);
    Ok(())
}

fn too_large() -> io::Error {
    io::Error::other(format!("its records have more than {DECOMPRESSED_BYTES_MAX} bytes"))
}

fn cut_short() -> io::Error {
    io::Error::from(io::ErrorKind::UnexpectedEof)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    #[test]
    fn what_was_made_smaller_is_made_whole_again() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(|number| (number / 7).to_be_bytes()).collect();
        for compression in ALL {
            for bytes in [text.as_slice(), b"", b"a"] {
                let small = compression.compress(bytes.to_vec()).unwrap();
                assert!(bytes.len() < 1_000 || compression == Compression::None || small.len() < bytes.len());
                assert_eq!(compression.decompress(&small).unwrap(), bytes, "{compression:?}");
            }
            assert_eq!(Compression::of_attributes(compression as i16), Some(compression));
        }
        assert_eq!(Compression::of_attributes(7), None);
    }

    #[test]
    fn a_block_of_snappy_without_a_head_is_read_too() {
        let raw = snap::raw::Encoder::new().compress_vec(b"hello hello hello").unwrap();
        assert_eq!(Compression::Snappy.decompress(&raw).unwrap(), b"hello hello hello");
    }

    #[test]
    fn garbage_is_an_error_and_a_bomb_too() {
        for compression in &ALL[1..] {
            assert!(compression.decompress(b"garbage, and more of it").is_err(), "{compression:?}");
        }
        for compression in &ALL[1..] {
            let bomb = compression.compress(vec![0; DECOMPRESSED_BYTES_MAX + 1]).unwrap();
            assert!(compression.decompress(&bomb).is_err(), "{compression:?}");
        }
    }

    #[test]
    fn a_frame_of_zstd_asks_for_no_window_beyond_the_bound() {
        // Magic, no single segment, a window of 2^(10 + 16) bytes, and one empty last block.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 16 << 3, 1, 0, 0];
        let error = Compression::Zstd.decompress(&frame).unwrap_err();
        assert!(error.to_string().to_lowercase().contains("window"), "{error}");
        let smaller = [0x28, 0xb5, 0x2f, 0xfd, 0, 10 << 3, 1, 0, 0];
        assert_eq!(Compression::Zstd.decompress(&smaller).unwrap(), b"");
    }
}

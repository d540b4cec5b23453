//! Numbers of variable length, signs folded in, as records hold them.

pub(crate) fn push(out: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while rest >= 0x80 {
        // Seven bits fit into a byte.
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a length, or -1 for what isn't there.
pub(crate) fn push_length(out: &mut Vec<u8>, length: Option<usize>) {
    push(out, length.map_or(-1, |length| i64::try_from(length).unwrap_or(i64::MAX)));
}

/// Takes a number off the front; none if it isn't whole or longer than any number is.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for (place, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            *bytes = bytes.get(place + 1..)?;
            return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
    None
}

/// Takes as many bytes off the front as the length before them says; none inside for a length of -1.
pub(crate) fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = take(bytes)?;
    if length < 0 {
        return Some(None);
    }
    let (head, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(Some(head))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for number in [0, -1, 1, 63, -64, 64, 300, -300, i64::from(i32::MAX), i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            push(&mut out, number);
            let mut rest = out.as_slice();
            assert_eq!((take(&mut rest), rest.len()), (Some(number), 0), "{number}");
            assert_eq!(take(&mut &out[..out.len() - 1]), None, "{number}");
        }
        assert_eq!(take(&mut [0xff; 11].as_slice()), None);
    }

    #[test]
    fn small_numbers_are_small() {
        let mut out = Vec::new();
        push_length(&mut out, None);
        push_length(&mut out, Some(63));
        assert_eq!(out, [1, 126]);
        let mut bytes: &[u8] = &[4, b'a', b'b', 1, 6, b'c'];
        assert_eq!(take_bytes(&mut bytes).unwrap(), Some(&b"ab"[..]));
        assert_eq!(take_bytes(&mut bytes).unwrap(), None);
        assert_eq!(take_bytes(&mut bytes), None);
    }
}

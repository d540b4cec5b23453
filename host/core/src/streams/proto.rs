//! The few words of protobuf's wire format that an envelope needs. A whole library would have to be told of every field anyway, and
//! what is stored here is copied to readers as it is, so the bytes are ours to make.

/// Why bytes aren't protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    #[error("it ends within a field")]
    Cut,
    #[error("it holds a number that is too long")]
    Varint,
    #[error("it holds a field of a kind that isn't known")]
    Kind,
    #[error("field {0} isn't text")]
    Text(u32),
    #[error("field {0} has another kind than it should")]
    Field(u32),
}

/// Appends a number in seven bits a byte, the lowest first.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while let Some(low) = u8::try_from(value & 0x7F).ok().filter(|_| value > 0x7F) {
        out.push(low | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value & 0x7F).unwrap_or(0));
}

/// Takes a number from the front.
pub fn take_varint(from: &mut &[u8]) -> Result<u64, ProtoError> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = from.split_first().ok_or(ProtoError::Cut)?;
        *from = rest;
        if shift == 63 && *first > 1 {
            return Err(ProtoError::Varint);
        }
        value |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ProtoError::Varint)
}

/// Takes so many bytes from the front.
pub fn take_bytes<'a>(from: &mut &'a [u8], length: u64) -> Result<&'a [u8], ProtoError> {
    let length = usize::try_from(length).map_err(|_| ProtoError::Cut)?;
    let (bytes, rest) = from.split_at_checked(length).ok_or(ProtoError::Cut)?;
    *from = rest;
    Ok(bytes)
}

/// Appends a number, unless it is the default 0.
pub fn put_number(out: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        put_varint(out, u64::from(field) << 3);
        put_varint(out, value);
    }
}

/// Appends bytes, empty or not.
pub fn put_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends a text, unless it is empty.
pub fn put_text(out: &mut Vec<u8>, field: u32, value: &str) {
    if !value.is_empty() {
        put_bytes(out, field, value.as_bytes());
    }
}

/// One field as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Eight or four bytes: nothing here has such a field, and an unknown one may.
    Fixed,
}

impl<'a> Value<'a> {
    pub fn number(self, field: u32) -> Result<u64, ProtoError> {
        match self {
            Self::Number(number) => Ok(number),
            _ => Err(ProtoError::Field(field)),
        }
    }
    pub fn bytes(self, field: u32) -> Result<&'a [u8], ProtoError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(ProtoError::Field(field)),
        }
    }
    pub fn text(self, field: u32) -> Result<&'a str, ProtoError> {
        std::str::from_utf8(self.bytes(field)?).map_err(|_| ProtoError::Text(field))
    }
}

/// The fields of a message, in the order of their bytes.
#[derive(Clone, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self) -> Result<(u32, Value<'a>), ProtoError> {
        let tag = take_varint(&mut self.0)?;
        let field = u32::try_from(tag >> 3).map_err(|_| ProtoError::Kind)?;
        let value = match tag & 7 {
            0 => Value::Number(take_varint(&mut self.0)?),
            1 => take_bytes(&mut self.0, 8).map(|_| Value::Fixed)?,
            2 => {
                let length = take_varint(&mut self.0)?;
                Value::Bytes(take_bytes(&mut self.0, length)?)
            }
            5 => take_bytes(&mut self.0, 4).map(|_| Value::Fixed)?,
            _ => return Err(ProtoError::Kind),
        };
        Ok((field, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), ProtoError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let taken = self.take();
        if taken.is_err() {
            self.0 = &[];
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut rest = out.as_slice();
            assert_eq!((take_varint(&mut rest), rest.len()), (Ok(value), 0));
            for cut in 0..out.len() {
                assert_eq!(take_varint(&mut &out[..cut]), Err(ProtoError::Cut));
            }
        }
        assert_eq!(take_varint(&mut [0xFF_u8; 11].as_slice()), Err(ProtoError::Varint));
    }

    #[test]
    fn fields_are_as_the_documentation_of_protobuf_shows_them() {
        let mut out = Vec::new();
        put_number(&mut out, 1, 150);
        put_text(&mut out, 2, "testing");
        put_number(&mut out, 3, 0);
        assert_eq!(out, [0x08, 0x96, 0x01, 0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6E, 0x67]);
        let fields: Result<Vec<_>, _> = Fields(&out).collect();
        assert_eq!(fields, Ok(vec![(1, Value::Number(150)), (2, Value::Bytes(b"testing"))]));
        assert!(Fields(&out[..7]).any(|field| field.is_err()));
    }
}

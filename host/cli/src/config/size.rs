//! Sizes as people write them.

/// `"64MiB"`, `"4 KiB"`, `"1048576"`.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.replace('_', "").parse().ok()?;
    let factor = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// The shortest exact way to write a size.
pub fn format_size(bytes: u64) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_exactly() {
        for (text, bytes) in [("64MiB", 64 << 20), ("4 KiB", 4096), ("262_144", 262_144), ("1GiB", 1 << 30), ("7", 7)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        assert_eq!(format_size(262_144), "256KiB");
        assert_eq!(format_size(1001), "1001");
        for text in ["", "MiB", "1MB", "1.5MiB", "-1"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}

//! What a misspelt name was meant to be.

/// Jaro-Winkler similarity from which two names count as the same one misspelt.
const NEAR: f64 = 0.8;

/// The nearest of `known` to `word`, if it is near enough to be meant: alike from the beginning on, or, for short names, at most a
/// third of the letters apart.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    let alike = known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(near, _)| *near >= NEAR)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    let close = || {
        let apart = known.iter().map(|candidate| (strsim::osa_distance(word, candidate), candidate));
        let (apart, candidate) = apart.min_by_key(|(apart, _)| *apart)?;
        let longest = word.chars().count().max(candidate.chars().count());
        (apart * 3 <= longest).then_some(candidate)
    };
    alike.map(|(_, candidate)| candidate).or_else(close).map(|candidate| (*candidate).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_what_was_meant() {
        let known = ["action", "compensation", "idempotent", "timeout_ms", "bus"];
        for (word, meant) in [
            ("acton", Some("action")),
            ("timeuot_ms", Some("timeout_ms")),
            ("compensate", Some("compensation")),
            ("bsu", Some("bus")),
            ("colour", None),
        ] {
            assert_eq!(nearest(word, known).as_deref(), meant, "{word}");
        }
    }
}

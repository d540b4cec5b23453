//! Keys of settings: their names, other names, and what is documented of them.

/// Another name for a key in the file, and what its value is multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    pub name: &'static str,
    /// For numbers: value in the key's unit (milliseconds for durations) = value as written times this.
    pub factor: u64,
}

/// A key of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: &'static str,
    /// Other names in the file.
    pub aliases: &'static [Alias],
    /// Other names in the environment, without our prefix.
    pub env_aliases: &'static [Alias],
}

impl Key {
    /// A key without other names.
    pub const fn new(name: &'static str) -> Self {
        Self { name, aliases: &[], env_aliases: &[] }
    }
    /// With other names in the file.
    #[must_use]
    pub const fn aliases(mut self, aliases: &'static [Alias]) -> Self {
        self.aliases = aliases;
        self
    }
    /// With other names in the environment.
    #[must_use]
    pub const fn env(mut self, aliases: &'static [Alias]) -> Self {
        self.env_aliases = aliases;
        self
    }
}

impl From<&'static str> for Key {
    fn from(name: &'static str) -> Self {
        Self::new(name)
    }
}

/// An alias of the same unit.
pub const fn same(name: &'static str) -> Alias {
    Alias { name, factor: 1 }
}

/// An alias with another unit.
pub const fn times(name: &'static str, factor: u64) -> Alias {
    Alias { name, factor }
}

/// A key as documented: gathered while reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Section as documented, e.g. `outbox.backoff`, `transport.NAME`, `route`.
    pub section: String,
    pub key: Key,
    /// Also accepted with `_ms` behind its name.
    pub milliseconds: bool,
    pub takes: String,
    /// Value when nobody sets it; none = it has to be set, or nothing happens without it.
    pub default: Option<String>,
    /// Environment variable; none for sections with names of their own.
    pub env: Option<String>,
}

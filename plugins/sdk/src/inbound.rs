//! What sources, handlers and tables share. See `wit/inbound/`.

/// The contract as generated from `wit/inbound/`: the interface `inbound-types`, and `handling`, which a handler tells early verdicts by.
#[allow(missing_docs, clippy::all, clippy::restriction)]
pub mod bindings {
    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/inbound"],
        inline: "package waybill:sdk; world shared { import waybill:inbound/inbound-types@0.1.0; import waybill:inbound/handling@0.1.0; }",
        world: "waybill:sdk/shared",
        additional_derives: [PartialEq],
        with: {
            "waybill:plugin/types@0.1.0": crate::transport::bindings::waybill::plugin::types,
            "waybill:inbound/inbound-types@0.1.0": generate,
            "waybill:inbound/handling@0.1.0": generate,
        },
    });
}

pub use bindings::waybill::inbound::inbound_types::{Notices, Token};

impl Notices {
    /// Nothing to tell.
    pub fn new() -> Self {
        Self { revoked: Vec::new(), lost: Vec::new(), waiting: false, attributes: Vec::new() }
    }

    /// Something new waits.
    pub fn waiting() -> Self {
        Self { waiting: true, ..Self::new() }
    }

    /// Adds an attribute, e.g. `lag`.
    #[must_use]
    pub fn with_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }
}

impl Default for Notices {
    fn default() -> Self {
        Self::new()
    }
}

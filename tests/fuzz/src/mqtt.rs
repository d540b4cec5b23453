//! MQTT's packets, through the modules of the plugins that read them, which look for each other beside them.
#![allow(dead_code, unreachable_pub, unused_imports, clippy::indexing_slicing)]

#[path = "../../../plugins/mqtt-wire/src/packet.rs"]
pub(crate) mod packet;
#[path = "../../../plugins/mqtt-wire/src/property.rs"]
pub(crate) mod property;
#[path = "../../../plugins/mqtt-wire/src/topic.rs"]
mod topic;

/// As the plugins have it beside these modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V311,
    V5,
}

//! An event outside of the store: as JSON, as a message for a relay's transport, and as a component leaves it.
//!
//! | file | holds |
//! |---|---|
//! | `json` | the envelope as JSON |
//! | `broker` | what a relay's transport speaks, and the names that events have there |
//! | `template` | where an event goes, as text with places for what it has |
//! | `mapping` | an event as a message |
//! | `followup` | the event that a step or a handler leaves |

mod broker;
mod followup;
mod json;
mod mapping;
mod template;

pub use broker::{Broker, SOURCE_TOPIC};
pub use followup::{EventAttribute, LeftEvent};
pub use json::{AnyJson, Base64Json, EnvelopeJson, HeadersMapJson, OpJson};
pub use mapping::{EXCHANGE, Mapping, WireError};
pub use template::{EventPlace, Template, TemplateError};

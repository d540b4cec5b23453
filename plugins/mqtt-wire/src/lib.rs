//! What the bundled transport and source for MQTT have in common: one connection, logged in, by version 5 or 3.1.1.
//!
//! - [`packet`]: what a server sends; [`write`]: what is sent to it; [`property`]: properties of version 5 in both directions
//! - [`reason`]: what a server's reason codes mean; [`topic`]: names and filters as the protocol allows them
//! - [`Connection`]: login, what the server says of itself, signs of life; [`Login`], [`Credentials`]: who we are
//! - [`cloudevent`]: a message with its envelope as one JSON document, for version 3.1.1, which has no properties
//! - [`keys`]: settings that both have
//!
//! The packets are our own, because the crate for them that is small enough, `mqttbytes`, takes a DISCONNECT without a reason for
//! an error, the CONNACK of an older server and a malformed packet for ones that aren't whole yet, and writes the length of a long
//! text without its upper bits; a test holds ours against it.
//!
//! What this doesn't do: send or bring messages, quality of service 2, wills, extended authentication, WebSocket.

mod beat;
pub mod cloudevent;
mod connection;
mod credentials;
mod incoming;
pub mod keys;
pub mod packet;
pub mod property;
pub mod reason;
pub mod topic;
pub mod write;

pub use beat::Beat;
pub use connection::{Connection, Limits, Login, broken, no_mqtt, stale};
pub use credentials::Credentials;
pub use incoming::Incoming;
pub use keys::Version;

//! Reading: pages of what is stored, and readers that go on with what is new.
//!
//! The store is the law, memory a hint: a live entry that is lost or cut costs a reader a look at the store, never an event. A reader
//! replays, joins the ring, looks at the store once more, and only then believes the ring.
//!
//! | file | holds |
//! |---|---|
//! | `page` | one page of one stream |
//! | `ring` | what was published of late, for those who listen |
//! | `named` | a reader of one named stream; its cursor is a seq |
//! | `token` | the cursor of a reader of many streams |
//! | `scan` | replaying many streams by name |
//! | `follow` | a reader of many streams: scan, feed, live |
//! | `wants` | what that one asks for, and how it ends |
//! | `positions` | where it begins in streams of which its client kept a number |

mod follow;
mod named;
mod page;
mod positions;
mod ring;
mod scan;
#[cfg(test)]
mod tests;
mod token;
mod wants;

pub use follow::FeedReader;
pub use named::{NamedReader, NamedWants};
pub use page::{Page, PageError, PageLimits, page};
pub use ring::{LiveEntry, LivePart, Looked, Ring};
pub use token::{Place, Token, TokenError};
pub use wants::{FeedWants, Followed, Restart};

use super::chunk::StoredEvent;
use super::envelope::EventHead;
use super::name::{StreamKey, StreamName};

/// Which events a reader of many streams wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Streams whose names begin with this.
    Prefix(String),
    /// All streams with events of a node.
    Node(String),
    /// Events of resources of a type whose ids begin with this.
    Resource { resource_type: String, id_prefix: String },
    /// Events of this resource. Streams are read as far as the index of resources doesn't say that they have none.
    OneResource { resource_type: String, resource_id: String },
}

impl Selector {
    /// Whether a stream may have such events, by its name alone.
    pub fn may_take(&self, name: &StreamName) -> bool {
        match self {
            Self::Prefix(prefix) => name.as_str().starts_with(prefix.as_str()),
            Self::Node(_) | Self::Resource { .. } | Self::OneResource { .. } => true,
        }
    }

    /// Whether an event is wanted. One that can't be read is: its reader is told, and nothing is skipped.
    pub fn takes(&self, event: &StoredEvent) -> bool {
        let Ok(head) = EventHead::of(&event.packed) else { return true };
        match self {
            Self::Prefix(_) => true,
            Self::Node(node) => head.node_uuid == node,
            Self::Resource { resource_type, id_prefix } => {
                head.resource_type == resource_type && head.resource_id.starts_with(id_prefix.as_str())
            }
            Self::OneResource { resource_type, resource_id } => {
                head.resource_type == resource_type && head.resource_id == resource_id
            }
        }
    }

    /// A type, and which resources of it this is about, where the index of resources may be asked for them.
    pub fn resources(&self) -> Option<(&str, ResourceIds<'_>)> {
        match self {
            Self::OneResource { resource_type, resource_id } => {
                Some((resource_type.as_str(), ResourceIds::One(resource_id)))
            }
            Self::Resource { resource_type, id_prefix } if !id_prefix.is_empty() => {
                Some((resource_type.as_str(), ResourceIds::Beginning(id_prefix)))
            }
            Self::Prefix(_) | Self::Node(_) | Self::Resource { .. } => None,
        }
    }

    /// Short hash of it, so that a token isn't used with another one.
    pub fn hash(&self) -> u32 {
        let mut hash = crc32fast::Hasher::new();
        let mut part = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        match self {
            Self::Prefix(prefix) => ["prefix", prefix].map(&mut part),
            Self::Node(node) => ["node", node].map(&mut part),
            Self::Resource { resource_type, id_prefix } => {
                part("type");
                [resource_type.as_str(), id_prefix].map(&mut part)
            }
            Self::OneResource { resource_type, resource_id } => {
                part("resource");
                [resource_type.as_str(), resource_id].map(&mut part)
            }
        };
        hash.finalize()
    }
}

/// Some resources of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceIds<'a> {
    One(&'a str),
    /// Those whose ids begin with this.
    Beginning(&'a str),
}

impl ResourceIds<'_> {
    pub fn take(self, id: &str) -> bool {
        match self {
            Self::One(one) => id == one,
            Self::Beginning(prefix) => id.starts_with(prefix),
        }
    }
}

/// An event for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub stream: StreamKey,
    pub event: StoredEvent,
}

//! The optional texts of a message, in one table. Whatever carries a message goes through it: the check of a new message, stored
//! records, columns, the doorstep, requests and views of the API, filters, flags of `waybill send`, what plugins get and hand over.
//!
//! Where a text can't be carried by the table alone (the SurrealQL function, the author's crate, the contract's page), the crate that
//! depends on the place refuses to compile until the place names it.

use crate::error::{InputError, InputResult};
use crate::limits::TEXT_BYTES_MAX;
use crate::new_message::is_traceparent;

/// The table. Hands its rows to the macro `$with`: the variant, its name, its number in stored records, and what is known of it.
///
/// The name is that in JSON, in columns, on the doorstep and in filters; `dashed` is that of flags, attributes and headers. A number
/// is never given twice, and never again: `waybill-store` has those that are missing here. `request` describes it in requests,
/// `view` in views.
#[macro_export]
macro_rules! annotation_rows {
    ($with:ident) => {
        $with! {
            AggregateType = aggregate_type (12) {
                dashed: "aggregate-type", kind: Text, carried: Attribute,
                request: "Type of the aggregate the event is about.",
                view: "Type of the aggregate the event is about.",
            }
            AggregateId = aggregate_id (13) {
                dashed: "aggregate-id", kind: Id, carried: Attribute,
                request: "Id of that aggregate, up to 512 bytes.",
                view: "Id of that aggregate.",
            }
            EnvelopeId = envelope_id (14) {
                dashed: "envelope-id", kind: Id, carried: Member,
                request: "Trace chain of the business operation.",
                view: "Trace chain of the business operation.",
            }
            CorrelationId = correlation_id (15) {
                dashed: "correlation-id", kind: Id, carried: Member,
                request: "Ties a reply to its request.",
                view: "Ties a reply to its request.",
            }
            CausationId = causation_id (16) {
                dashed: "causation-id", kind: Id, carried: Member,
                request: "Id of the message that caused this one.",
                view: "Id of the message that caused it; of the dead letter, when it is an edited copy.",
            }
            ReplyTo = reply_to (17) {
                dashed: "reply-to", kind: Text, carried: Member,
                request: "Where a reply is expected.",
                view: "Where a reply is expected.",
            }
            Traceparent = traceparent (18) {
                dashed: "traceparent", kind: TraceContext, carried: Header,
                request: "W3C trace context; the request's `traceparent` header if absent.",
                view: "W3C trace context of the message or of its enqueue request.",
            }
            ContentType = content_type (6) {
                dashed: "content-type", kind: Text, carried: Member,
                request: "Media type; `application/json` for `payload`, `application/octet-stream` for `payload_base64`.",
                view: "Media type of the payload.",
            }
        }
    };
}

/// What may stand in a text of at most [`TEXT_BYTES_MAX`] bytes without control characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// JSON may have a number in its place.
    Id,
    /// A W3C trace context.
    TraceContext,
}

/// How plugins get an annotation, and how they hand it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// As a member of the contract's records. They are closed, so there will be no more of these.
    Member,
    /// As a header of its name.
    Header,
    /// As an attribute of its dashed name.
    Attribute,
}

/// What the table says of one annotation.
struct Row {
    name: &'static str,
    dashed: &'static str,
    kind: Kind,
    carried: Carried,
    request_doc: &'static str,
    view_doc: &'static str,
}

macro_rules! define {
    ($($variant:ident = $name:ident ($number:literal) {
        dashed: $dashed:literal, kind: $kind:ident, carried: $carried:ident, request: $request:literal, view: $view:literal,
    })*) => {
        /// An optional text of a message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Annotation {
            $(#[doc = $view] $variant,)*
        }

        impl Annotation {
            /// All there are, in the table's order.
            pub const ALL: [Self; [$($dashed),*].len()] = [$(Self::$variant),*];

            const fn row(self) -> &'static Row {
                match self {
                    $(Self::$variant => &Row {
                        name: stringify!($name),
                        dashed: $dashed,
                        kind: Kind::$kind,
                        carried: Carried::$carried,
                        request_doc: $request,
                        view_doc: $view,
                    },)*
                }
            }
        }
    };
}

annotation_rows!(define);

impl Annotation {
    pub const COUNT: usize = Self::ALL.len();

    /// The one with this name in JSON.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|annotation| annotation.name() == name)
    }

    /// Its name in JSON, in columns, on the doorstep and in filters: `reply_to`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Its name in flags, attributes and headers: `reply-to`.
    pub const fn dashed(self) -> &'static str {
        self.row().dashed
    }

    pub const fn kind(self) -> Kind {
        self.row().kind
    }

    pub const fn carried(self) -> Carried {
        self.row().carried
    }

    /// What it is, for who may give it.
    pub const fn request_doc(self) -> &'static str {
        self.row().request_doc
    }

    /// What it is, for who sees a message.
    pub const fn view_doc(self) -> &'static str {
        self.row().view_doc
    }

    /// Its text among pairs of names and texts, whichever of its names it has there.
    pub fn among(self, pairs: &[(String, String)]) -> Option<&str> {
        let is_it = |name: &str| name.eq_ignore_ascii_case(self.dashed()) || name.eq_ignore_ascii_case(self.name());
        pairs.iter().find(|(name, _)| is_it(name)).map(|(_, text)| text.as_str())
    }

    /// Whether a text may be its value.
    pub fn check(self, text: &str) -> InputResult<()> {
        match self.kind() {
            Kind::Text | Kind::Id => check_text(self.name(), text),
            Kind::TraceContext if is_traceparent(text) => Ok(()),
            Kind::TraceContext => Err(InputError::TraceParent { text: text.to_owned() }),
        }
    }
}

/// Whether a short text is one.
pub(crate) fn check_text(field: &'static str, text: &str) -> InputResult<()> {
    if text.is_empty() {
        Err(InputError::Empty { field })
    } else if text.len() > TEXT_BYTES_MAX {
        Err(InputError::TooLong { field, bytes: text.len(), bytes_max: TEXT_BYTES_MAX })
    } else if text.chars().any(char::is_control) {
        Err(InputError::ControlCharacter { field })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_its_dashed_form_are_one_word() {
        for annotation in Annotation::ALL {
            assert_eq!(annotation.name().replace('_', "-"), annotation.dashed());
            assert_eq!(Annotation::named(annotation.name()), Some(annotation));
        }
        assert_eq!(Annotation::named("topic"), None);
    }

    #[test]
    fn an_annotation_is_found_under_each_of_its_names() {
        for name in ["reply-to", "reply_to", "Reply-To"] {
            let pairs = [("reply".to_owned(), "no".to_owned()), (name.to_owned(), "replies".to_owned())];
            assert_eq!(Annotation::ReplyTo.among(&pairs), Some("replies"), "{name}");
        }
        assert_eq!(Annotation::ReplyTo.among(&[]), None);
    }

    #[test]
    fn each_kind_refuses_what_it_cannot_hold() {
        for annotation in Annotation::ALL {
            for wrong in ["", "a\nb", &"x".repeat(TEXT_BYTES_MAX + 1)] {
                assert!(annotation.check(wrong).is_err(), "{annotation:?} {wrong:?}");
            }
            assert_eq!(annotation.check("17").is_ok(), annotation.kind() != Kind::TraceContext, "{annotation:?}");
        }
    }
}

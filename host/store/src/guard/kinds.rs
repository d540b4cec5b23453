//! Types, as casts, LETs and closures name them.

use surrealdb_expr::expr::{Kind, KindLiteral};

use super::walk::{Walked, other, table};

/// A type may name no table of Waybill.
pub fn kind(of: &Kind) -> Walked {
    match of {
        Kind::Table(tables) | Kind::Record(tables) => tables.iter().try_for_each(|name| table(name.as_str())),
        Kind::Either(kinds) => kinds.iter().try_for_each(kind),
        Kind::Set(inner, _) | Kind::Array(inner, _) => kind(inner),
        Kind::Function(arguments, returns) => {
            arguments.iter().flatten().try_for_each(kind)?;
            returns.iter().try_for_each(|of| kind(of))
        }
        Kind::Literal(KindLiteral::Array(kinds)) => kinds.iter().try_for_each(kind),
        Kind::Literal(KindLiteral::Object(fields)) => fields.values().try_for_each(kind),
        Kind::Literal(
            KindLiteral::String(_)
            | KindLiteral::Integer(_)
            | KindLiteral::Float(_)
            | KindLiteral::Decimal(_)
            | KindLiteral::Duration(_)
            | KindLiteral::Bool(_),
        )
        | Kind::None
        | Kind::Null
        | Kind::Bool
        | Kind::Bytes
        | Kind::Datetime
        | Kind::Decimal
        | Kind::Duration
        | Kind::Float
        | Kind::Int
        | Kind::Number
        | Kind::Object
        | Kind::String
        | Kind::Uuid
        | Kind::Geometry(_)
        | Kind::Range
        | Kind::File(_)
        | Kind::Any => Ok(()),
        Kind::Regex => other("regular expressions aren't taken, since compiling one takes much memory"),
    }
}

/// Whether a cast to this type can make record ids, tables or files out of texts. What isn't known to be harmless counts as such.
pub fn cast_names_records(of: &Kind) -> bool {
    match of {
        Kind::Record(_) | Kind::Table(_) | Kind::File(_) | Kind::Function(_, _) | Kind::Literal(_) => true,
        Kind::Either(kinds) => kinds.iter().any(cast_names_records),
        Kind::Set(inner, _) | Kind::Array(inner, _) => cast_names_records(inner),
        Kind::None
        | Kind::Null
        | Kind::Bool
        | Kind::Bytes
        | Kind::Datetime
        | Kind::Decimal
        | Kind::Duration
        | Kind::Float
        | Kind::Int
        | Kind::Number
        | Kind::Object
        | Kind::String
        | Kind::Uuid
        | Kind::Regex
        | Kind::Geometry(_)
        | Kind::Range
        | Kind::Any => false,
    }
}

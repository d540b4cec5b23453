//! Which of SurrealDB's functions a caller's statement may call.
//!
//! Each is named here: one that a later SurrealDB adds isn't taken before somebody has looked at what it does and how large its
//! answer can become. A test holds the lists against SurrealDB's own.

/// What they answer is small, whatever they are given.
const SMALL: &str = "
    array::all array::any array::every array::find_index array::includes array::index_of array::is_empty array::len array::some
    bytes::len count
    crypto::blake3 crypto::joaat crypto::md5 crypto::sha1 crypto::sha256 crypto::sha512
    duration::days duration::hours duration::micros duration::millis duration::mins duration::nanos duration::secs duration::weeks
    duration::years duration::from_days duration::from_hours duration::from_micros duration::from_millis duration::from_mins
    duration::from_nanos duration::from_secs duration::from_weeks
    geo::area geo::bearing geo::centroid geo::distance geo::hash::decode geo::hash::encode geo::is_valid
    math::abs math::acos math::acot math::asin math::atan math::ceil math::clamp math::cos math::cot math::deg2rad math::fixed
    math::floor math::interquartile math::lerp math::lerpangle math::ln math::log math::log10 math::log2 math::max math::mean
    math::median math::midhinge math::min math::mode math::nearestrank math::percentile math::pow math::product math::rad2deg
    math::round math::sign math::sin math::spread math::sqrt math::stddev math::sum math::tan math::trimean math::variance
    not object::is_empty object::len
    rand rand::bool rand::duration rand::float rand::id rand::int rand::time rand::ulid rand::uuid rand::uuid::v4 rand::uuid::v7
    record::exists record::is_edge search::score sequence::nextval
    session::ac session::db session::id session::ip session::ns session::origin session::rd session::token
    set::all set::any set::contains set::is_empty set::len
    string::contains string::ends_with string::is_alpha string::is_alphanum string::is_ascii string::is_datetime string::is_domain
    string::is_email string::is_hexadecimal string::is_ip string::is_ipv4 string::is_ipv6 string::is_latitude string::is_longitude
    string::is_numeric string::is_semver string::is_ulid string::is_url string::is_uuid string::len
    string::semver::compare string::semver::major string::semver::minor string::semver::patch string::starts_with
    time::ceil time::day time::floor time::from_micros time::from_millis time::from_nanos time::from_secs time::from_ulid
    time::from_unix time::from_uuid time::group time::hour time::is_leap_year time::max time::micros time::millis time::min
    time::minute time::month time::nano time::now time::round time::second time::set_day time::set_hour time::set_minute
    time::set_month time::set_nanosecond time::set_second time::set_year time::timezone time::unix time::wday time::week time::yday
    time::year
    type::bool type::datetime type::decimal type::duration type::float type::int type::is_array type::is_bool type::is_bytes
    type::is_collection type::is_datetime type::is_decimal type::is_duration type::is_float type::is_geometry type::is_int
    type::is_line type::is_multiline type::is_multipoint type::is_multipolygon type::is_none type::is_null type::is_number
    type::is_object type::is_point type::is_polygon type::is_range type::is_record type::is_set type::is_string type::is_uuid
    type::number type::of type::point type::uuid
    vector::angle vector::dot vector::magnitude vector::distance::chebyshev vector::distance::euclidean vector::distance::hamming
    vector::distance::knn vector::distance::manhattan vector::distance::minkowski vector::similarity::cosine
    vector::similarity::jaccard vector::similarity::pearson vector::similarity::spearman";

/// They answer at most a few times what they are given.
const LINEAR: &str = "
    array::add array::append array::at array::boolean_and array::boolean_not array::boolean_or array::boolean_xor array::clump
    array::complement array::concat array::difference array::distinct array::first array::flatten array::group array::insert
    array::intersect array::last array::logical_and array::logical_or array::logical_xor array::matches array::max array::min
    array::pop array::prepend array::push array::remove array::reverse array::shuffle array::slice array::sort array::sort::asc
    array::sort::desc array::sort_lexical array::sort_natural array::sort_natural_lexical array::swap array::union
    encoding::base64::decode encoding::base64::encode encoding::cbor::encode
    math::bottom math::top meta::id meta::tb
    object::entries object::extend object::from_entries object::keys object::remove object::values
    parse::email::host parse::email::user parse::url::domain parse::url::fragment parse::url::host parse::url::path parse::url::port
    parse::url::query parse::url::scheme
    rand::enum record::id record::table record::tb
    set::add set::at set::complement set::difference set::first set::flatten set::intersect set::last set::max set::min set::remove
    set::slice set::union
    string::capitalize string::lowercase string::reverse string::slice string::trim string::uppercase
    string::semver::inc::major string::semver::inc::minor string::semver::inc::patch string::semver::set::major
    string::semver::set::minor string::semver::set::patch
    type::bytes type::geometry type::string_lossy value::expect
    vector::add vector::cross vector::divide vector::multiply vector::normalize vector::project vector::scale vector::subtract
    vector::sum";

/// They answer many times what they are given, but no more: every part of it becomes a value or a text of its own.
const WIDE: &str = "
    encoding::json::decode encoding::json::encode rand::string string::concat string::html::encode string::slug string::split string::words
    time::format type::string";

/// What one argument has is put between or in place of the parts of another.
const PRODUCT: &str = "array::join set::join string::join string::replace";

/// They call a closure for every item.
const CLOSURE: &str = "
    array::filter array::filter_index array::find array::map set::filter set::find set::map value::chain";

/// They make a table or a record id out of their first argument.
const NAMING: &str = "type::record type::table";

/// How a function is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It may be called.
    Allowed,
    /// Its first argument has to be a text that is known and names no table of Waybill.
    Naming,
    /// It may not be called, and why.
    Refused(&'static str),
}

fn has(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed.eq_ignore_ascii_case(name))
}

/// How much larger than what it is given a function's answer can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Growth {
    /// A number, a flag or an instant.
    Scalar,
    /// A short text or a small list, whatever it is given.
    Short,
    /// What it is given, or parts of it.
    Linear,
    /// What a closure makes of each item, or the items that it chooses.
    Closure,
    /// A random text of a length that is asked for.
    Random,
    /// What it is given, as text.
    Text,
    /// A value for every byte that it is given, at worst.
    Wide,
    /// One argument between, or in place of, the parts of another.
    Product,
}

/// Of functions in [`WIDE`]: those that make a text.
const TEXTS: &str = "encoding::json::encode string::concat string::html::encode string::slug time::format type::string";

/// Families whose small answers can be texts; those of the others are numbers, flags and times.
const SHORT: [&str; 6] = ["crypto", "geo", "rand", "sequence", "session", "type"];

/// How a function of this name grows; one that isn't in the lists isn't called at all.
pub fn growth(name: &str) -> Growth {
    let short = name.split("::").next().is_some_and(|family| SHORT.iter().any(|own| own.eq_ignore_ascii_case(family)));
    match name {
        _ if has(PRODUCT, name) => Growth::Product,
        _ if has(TEXTS, name) => Growth::Text,
        _ if has("rand::string rand::id", name) => Growth::Random,
        _ if has(WIDE, name) => Growth::Wide,
        _ if has(CLOSURE, name) => Growth::Closure,
        _ if has(SMALL, name) => {
            if short {
                Growth::Short
            } else {
                Growth::Scalar
            }
        }
        _ => Growth::Linear,
    }
}

/// How a method of this name grows: as the worst of the functions that it may be.
pub fn method_growth(name: &str) -> Growth {
    let lower = name.to_ascii_lowercase();
    let listed = [SMALL, LINEAR, WIDE, PRODUCT, CLOSURE].iter().flat_map(|list| list.split_ascii_whitespace());
    let worst = listed.filter(|path| is_method(path, &lower)).map(growth).max();
    match (worst, lower.as_str()) {
        (Some(worst), _) => worst,
        (None, "to_string" | "to_string_lossy") => Growth::Text,
        (None, "chain") => Growth::Closure,
        (None, _) => Growth::Linear,
    }
}

/// Whether a function can be called as this method.
fn is_method(path: &str, method: &str) -> bool {
    path.split_once("::").is_some_and(|(family, member)| {
        let member = member.replace("::", "_");
        member == method || format!("{family}_{member}") == method
    })
}

/// Why a function isn't in a list above.
fn why(name: &str) -> &'static str {
    let family = name.split("::").next().unwrap_or("");
    match family {
        "http" | "file" | "api" | "eval" | "sleep" | "ml" | "schema" => "it reaches outside the caller's data",
        "crypto" => "it takes too much time and memory: hash passwords in your application",
        // It parses a text as SurrealQL, regular expressions included.
        "string" if name.eq_ignore_ascii_case("string::is_record") => "it parses what it is given",
        "encoding" | "type" => "it can make record ids or tables out of data",
        _ => "what it answers can be far larger than what it is given",
    }
}

/// They compare each item of their first argument with each of the others'.
const PAIRS: &str = "array::add array::difference array::intersect";
/// They may move all items of their first argument for each of the others'.
const MOVES: &str = "object::extend object::remove set::add set::remove";
/// They may move all items of a set for each that they put in.
const ITSELF: &str = "set::flatten set::map";

/// How many steps a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// It looks at what it is given once.
    Once,
    /// It looks at one argument as often as the others have items.
    Pairs,
    /// The same, if they are sets or objects.
    Moves,
    /// It looks at what it is given as often as that has items, if that is a set.
    Itself,
    /// It writes as many digits as its second argument says.
    Digits,
}

/// How many steps a function or method of this name takes, in small letters: the worst of those that a method may be.
pub fn steps(name: &str) -> Steps {
    let listed = |list: &str| list.split_ascii_whitespace().any(|path| path == name || is_method(path, name));
    match name {
        _ if listed("math::fixed") => Steps::Digits,
        _ if listed(PAIRS) => Steps::Pairs,
        _ if listed(MOVES) => Steps::Moves,
        _ if listed(ITSELF) => Steps::Itself,
        _ => Steps::Once,
    }
}

/// How a function of this name is treated.
pub fn treatment(name: &str) -> Treatment {
    if has(NAMING, name) {
        return Treatment::Naming;
    }
    match [SMALL, LINEAR, WIDE, PRODUCT, CLOSURE].iter().any(|list| has(list, name)) {
        true => Treatment::Allowed,
        false => Treatment::Refused(why(name)),
    }
}

/// Methods that are functions of other names.
const METHODS: &str = "
    chain is_array is_bool is_bytes is_collection is_datetime is_decimal is_duration is_float is_geometry is_int is_line is_multiline
    is_multipoint is_multipolygon is_none is_null is_number is_object is_point is_polygon is_range is_set is_string is_uuid
    to_bool to_bytes to_datetime to_decimal to_duration to_float to_geometry to_int to_number to_point to_string to_string_lossy
    to_uuid id tb table is_edge exists expect";

/// Why a method isn't taken, if it isn't.
pub fn method_refusal(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if lower == "is_record" {
        return Some(
            "method is_record isn't taken: of a text it parses what it is given. type::is_record is taken".into(),
        );
    }
    let listed = [SMALL, LINEAR, WIDE, PRODUCT, CLOSURE]
        .iter()
        .any(|list| list.split_ascii_whitespace().any(|path| is_method(path, &lower)));
    match listed || has(METHODS, name) {
        true => None,
        false => Some(format!(
            "method {name} isn't taken: it isn't one that only computes, or its answer can be far larger than what it is given"
        )),
    }
}

#[cfg(test)]
pub mod tests {
    use super::{CLOSURE, LINEAR, NAMING, PRODUCT, SMALL, WIDE};

    /// Every function that may be called.
    pub fn allowed() -> Vec<&'static str> {
        [SMALL, LINEAR, WIDE, PRODUCT, CLOSURE, NAMING].iter().flat_map(|list| list.split_ascii_whitespace()).collect()
    }

    #[test]
    fn every_function_in_the_lists_exists_and_stands_there_once() {
        let mut names = allowed();
        for name in &names {
            assert!(surrealdb_syn::parse(&format!("RETURN {name}()")).is_ok(), "SurrealDB has no {name}");
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a function stands in two lists");
    }
}

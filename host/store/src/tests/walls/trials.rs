//! How each function that callers may call is tried: by the arguments of a call that works.
//!
//! All names but `$few` grow.

/// Functions by their arguments.
pub const TRIALS: &[(&str, &str)] = &[
    (
        "$list, |$v| $v != NONE",
        "array::all array::any array::every array::find_index array::some array::filter array::filter_index \
        array::find array::map",
    ),
    ("$list, 1", "array::includes array::index_of array::at array::matches array::clump array::remove array::slice"),
    (
        "$list",
        "array::is_empty array::len array::boolean_not array::distinct array::first array::flatten array::group array::last \
        array::max array::min array::pop array::reverse array::shuffle array::sort array::sort::asc array::sort::desc \
        array::sort_lexical array::sort_natural array::sort_natural_lexical count rand::enum",
    ),
    ("object::entries($object)", "object::from_entries"),
    (
        "$list, $list",
        "array::add array::append array::boolean_and array::boolean_or array::boolean_xor array::complement \
        array::concat array::difference array::insert array::intersect array::logical_and array::logical_or array::logical_xor \
        array::prepend array::push array::union",
    ),
    ("$list, 0, 1", "array::swap"),
    ("$list, $text", "array::join"),
    ("<set> $list, |$v| $v != NONE", "set::all set::any set::filter set::find set::map"),
    ("<set> $list, 1", "set::contains set::at set::add set::remove set::slice"),
    ("<set> $list", "set::is_empty set::len set::first set::last set::max set::min set::flatten"),
    ("<set> $list, <set> $list", "set::complement set::difference set::intersect set::union"),
    ("<set> $list, $text", "set::join"),
    ("<bytes> $text", "bytes::len encoding::base64::encode type::string_lossy type::is_bytes type::bytes"),
    ("$encoded", "encoding::base64::decode"),
    ("$rows", "encoding::cbor::encode encoding::json::encode type::string type::of not"),
    ("$json", "encoding::json::decode"),
    (
        "$text",
        "crypto::blake3 crypto::joaat crypto::md5 crypto::sha1 crypto::sha256 crypto::sha512 string::len string::capitalize \
        string::lowercase string::reverse string::trim string::uppercase string::html::encode string::slug string::words \
        string::is_alpha string::is_alphanum string::is_ascii string::is_datetime string::is_domain string::is_email \
        string::is_hexadecimal string::is_ip string::is_ipv4 string::is_ipv6 string::is_latitude string::is_longitude \
        string::is_numeric string::is_semver string::is_ulid string::is_url string::is_uuid type::is_array \
        type::is_bool type::is_collection type::is_datetime type::is_decimal type::is_duration type::is_float type::is_geometry \
        type::is_int type::is_line type::is_multiline type::is_multipoint type::is_multipolygon type::is_none type::is_null \
        type::is_number type::is_object type::is_point type::is_polygon type::is_range type::is_record type::is_set type::is_string \
        type::is_uuid",
    ),
    ("$text, $text", "string::contains string::ends_with string::starts_with string::concat"),
    ("$text, 0, 5", "string::slice"),
    ("$text, ','", "string::split"),
    ("',', $text, $text", "string::join"),
    ("$text, ',', $text", "string::replace"),
    ("$text, |$v| [$v]", "value::chain"),
    ("$text, |$v| true, 'there is one'", "value::expect"),
    ("$object", "object::is_empty object::len object::entries object::keys object::values"),
    ("$object, $object", "object::extend"),
    ("$object, 'k1'", "object::remove"),
    (
        "$numbers",
        "math::interquartile math::max math::mean math::median math::midhinge math::min math::mode math::product \
        math::spread math::stddev math::sum math::trimean math::variance vector::magnitude vector::normalize",
    ),
    ("$numbers, 3", "math::bottom math::top math::nearestrank math::percentile vector::scale"),
    (
        "$numbers, $numbers",
        "vector::angle vector::dot vector::add vector::divide vector::multiply vector::project vector::subtract \
        vector::distance::chebyshev vector::distance::euclidean vector::distance::hamming vector::distance::manhattan \
        vector::similarity::cosine vector::similarity::jaccard vector::similarity::pearson vector::similarity::spearman",
    ),
    ("$numbers, $numbers, 3", "vector::distance::minkowski"),
    ("[1, 2, 3], [4, 5, 6]", "vector::cross"),
    ("[$numbers, $numbers]", "vector::sum"),
    (
        "",
        "vector::distance::knn search::score rand rand::bool rand::float rand::id rand::int rand::time rand::ulid \
        rand::uuid rand::uuid::v4 rand::uuid::v7 session::ac session::db session::id session::ip session::ns session::origin \
        session::rd session::token time::now",
    ),
    ("1s, 2s", "rand::duration"),
    ("60000", "rand::string"),
    (
        "0.5",
        "math::abs math::acos math::acot math::asin math::atan math::ceil math::cos math::cot math::deg2rad math::floor \
        math::ln math::log10 math::log2 math::rad2deg math::round math::sign math::sin math::sqrt math::tan type::decimal \
        type::float type::number",
    ),
    (
        "7",
        "duration::from_days duration::from_hours duration::from_micros duration::from_millis duration::from_mins \
        duration::from_nanos duration::from_secs duration::from_weeks time::from_micros time::from_millis time::from_nanos \
        time::from_secs time::from_unix type::int",
    ),
    ("7, 2", "math::fixed math::log math::pow"),
    ("1, 2, 3", "math::clamp math::lerp math::lerpangle"),
    (
        "1h",
        "duration::days duration::hours duration::micros duration::millis duration::mins duration::nanos duration::secs \
        duration::weeks duration::years type::duration",
    ),
    ("(1.0, 2.0), (3.0, 4.0)", "geo::bearing geo::distance"),
    ("(1.0, 2.0)", "geo::area geo::centroid geo::hash::encode geo::is_valid type::point type::geometry"),
    ("'ezs42'", "geo::hash::decode"),
    ("orders:1", "record::exists record::is_edge record::id record::tb record::table meta::id meta::tb"),
    ("'numbers'", "sequence::nextval"),
    ("'1.2.3', '1.2.4'", "string::semver::compare"),
    (
        "'1.2.3'",
        "string::semver::major string::semver::minor string::semver::patch string::semver::inc::major \
        string::semver::inc::minor string::semver::inc::patch",
    ),
    ("'1.2.3', 4", "string::semver::set::major string::semver::set::minor string::semver::set::patch"),
    ("time::now(), 1h", "time::ceil time::floor time::round"),
    ("time::now(), 'day'", "time::group"),
    (
        "time::now(), 1",
        "time::set_day time::set_hour time::set_minute time::set_month time::set_nanosecond time::set_second \
        time::set_year",
    ),
    (
        "time::now()",
        "time::day time::hour time::is_leap_year time::micros time::millis time::minute time::month time::nano \
        time::second time::unix time::wday time::week time::yday time::year type::datetime",
    ),
    ("[time::now(), time::now()]", "time::max time::min"),
    ("rand::ulid()", "time::from_ulid"),
    ("rand::uuid::v7()", "time::from_uuid type::uuid"),
    ("", "time::timezone"),
    ("time::now(), $format", "time::format"),
    ("true", "type::bool"),
    ("$mail", "parse::email::host parse::email::user"),
    (
        "$url",
        "parse::url::domain parse::url::fragment parse::url::host parse::url::path parse::url::port parse::url::query \
        parse::url::scheme",
    ),
    ("'orders', $text", "type::record"),
    ("'orders'", "type::table"),
];

/// A call of a function, if there is a line for it.
pub fn call(function: &str) -> Option<String> {
    TRIALS
        .iter()
        .find(|(_, names)| names.split_ascii_whitespace().any(|name| name == function))
        .map(|(arguments, _)| format!("{function}({arguments})"))
}

/// Arguments that have about this many bytes, as bindings.
pub fn bindings(bytes: usize) -> serde_json::Map<String, serde_json::Value> {
    // Few items that are long: what compares each with each would take minutes otherwise.
    let items = (bytes / 64).clamp(4, 400);
    let long = |n: usize| format!("{n}{}", "x".repeat(bytes / items));
    let list: Vec<_> = (0..items).map(long).collect();
    let rows: Vec<_> = (0..items).map(|n| serde_json::json!({ "n": n, "name": long(n) })).collect();
    let object: serde_json::Map<_, _> = (0..items).map(|n| (format!("k{n}"), long(n).into())).collect();
    let numbers: Vec<_> = (0..(bytes / 64).max(3)).map(|n| n % 1_000 + 1).collect();
    let text = "a,\"".repeat(bytes / 3);
    let value = serde_json::json!({
        "text": text, "list": list, "rows": rows, "object": object, "numbers": numbers,
        "json": format!("[1{}]", ",1".repeat(bytes / 2)), "encoded": "QUJD".repeat(bytes / 4), "format": "%A ".repeat(bytes / 3),
        "mail": format!("{}@example.org", "x".repeat(bytes)), "url": format!("https://example.org/{}", "x".repeat(bytes)),
        "few": (0..20).collect::<Vec<_>>(),
    });
    let serde_json::Value::Object(all) = value else { unreachable!("it is an object") };
    all
}

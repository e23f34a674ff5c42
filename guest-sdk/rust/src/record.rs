//! What [`record!`](crate::record) calls.

#[cfg(not(feature = "serde"))]
use crate::{convert::ToJson, error::Error, json};

/// The member that a field is: a raw identifier loses its `r#`.
#[inline]
#[must_use]
pub fn member(field: &str) -> &str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// Appends a field to an object that was begun in `out`.
#[cfg(not(feature = "serde"))]
#[inline]
pub fn write_member(out: &mut Vec<u8>, field: &str, value: &impl ToJson) -> Result<(), Error> {
    let name = member(field); // an identifier, which needs no escape
    out.reserve(name.len() + 24);
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    value.append_json(out)
}

#[cfg(not(feature = "serde"))]
type SetMember<'a> = dyn FnMut(&str, &[u8]) -> Result<(), Error> + 'a;

/// Calls `set` for each member of the object `text`.
#[cfg(not(feature = "serde"))]
pub fn read_record(text: &[u8], set: &mut SetMember<'_>) -> Result<(), Error> {
    json::each_member(text, |name, value| {
        set(&name, value).map_err(|e| e.context(&name))
    })
}

/// The error, with the field in which it came up before it.
#[cfg(feature = "serde")]
pub fn in_field<E: serde::de::Error>(field: &str, error: &E) -> E {
    E::custom(format_args!("{field}: {error}"))
}

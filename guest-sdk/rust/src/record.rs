//! What [`record!`](crate::record) calls.

use crate::error::Error;
use crate::json;

pub const fn count(fields: &[&str]) -> usize {
    fields.len()
}

/// The member that a field is: a raw identifier loses its `r#`.
pub fn member(field: &str) -> &str {
    field.strip_prefix("r#").unwrap_or(field)
}

pub fn write_record(fields: &[(&str, Vec<u8>)]) -> Vec<u8> {
    json::write_object(
        fields
            .iter()
            .map(|(name, value)| (member(name), value.as_slice())),
    )
}

type SetMember<'a> = dyn FnMut(&str, &[u8]) -> Result<(), Error> + 'a;

/// Calls `set` for each member of the object `text`.
pub fn read_record(text: &[u8], set: &mut SetMember<'_>) -> Result<(), Error> {
    for (name, value) in json::members(text)? {
        set(&name, value).map_err(|e| e.context(&name))?;
    }
    Ok(())
}

//! What [`record!`](crate::record) calls.

use crate::convert::ToJson;
use crate::error::Error;
use crate::json;

pub const fn count(fields: &[&str]) -> usize {
    fields.len()
}

/// The member that a field is: a raw identifier loses its `r#`.
pub fn member(field: &str) -> &str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// Appends an object with these fields.
pub fn write_record(out: &mut Vec<u8>, fields: &[(&str, &dyn ToJson)]) -> Result<(), Error> {
    out.push(b'{');
    for (n, (name, value)) in fields.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        json::write_string(out, member(name));
        out.push(b':');
        value.append_json(out)?;
    }
    out.push(b'}');
    Ok(())
}

type SetMember<'a> = dyn FnMut(&str, &[u8]) -> Result<(), Error> + 'a;

/// Calls `set` for each member of the object `text`.
pub fn read_record(text: &[u8], set: &mut SetMember<'_>) -> Result<(), Error> {
    for (name, value) in json::members(text)? {
        set(&name, value).map_err(|e| e.context(&name))?;
    }
    Ok(())
}

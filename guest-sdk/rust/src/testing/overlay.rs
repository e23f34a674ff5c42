//! The state that a turn sees and changes, with the rules of the ABI.

use crate::codec::{self, MAX_STATE_KEY};
use crate::host::{Code, Format};
use crate::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) format: Format,
    pub(super) bytes: Vec<u8>,
}

impl Value {
    pub(super) fn json(text: &[u8]) -> Value {
        Value {
            format: Format::Json,
            bytes: text.to_vec(),
        }
    }
}

pub(super) type Entries = BTreeMap<String, Value>;

pub(super) struct Overlay {
    pub(super) entries: Entries,
    pub(super) revision: u64,
    pub(super) read_only: bool,
    /// Gives numbers that no state had before.
    revisions: Rc<Cell<u64>>,
    stateless: bool,
    /// Whether the turn has ended its actor's life.
    passed: Rc<Cell<bool>>,
}

impl Overlay {
    pub(super) fn new(
        entries: Entries,
        revision: u64,
        revisions: Rc<Cell<u64>>,
        stateless: bool,
        passed: Rc<Cell<bool>>,
    ) -> Overlay {
        Overlay {
            entries,
            revision,
            read_only: false,
            revisions,
            stateless,
            passed,
        }
    }

    fn readable(&self) -> Result<(), Code> {
        if self.stateless {
            return Err(Code::NO_STATE);
        }
        Ok(())
    }

    fn writable(&self) -> Result<(), Code> {
        self.readable()?;
        if self.read_only {
            return Err(Code::READ_ONLY);
        }
        if self.passed.get() {
            return Err(Code::OVER);
        }
        Ok(())
    }

    /// Goes back to what a savepoint had.
    pub(super) fn restore(&mut self, entries: Entries) {
        self.entries = entries;
        self.changed();
    }

    fn changed(&mut self) {
        self.revision = next(&self.revisions);
    }

    pub(super) fn get(&self, key: &str) -> Result<&Value, Code> {
        self.readable()?;
        check_key(key)?;
        self.entries.get(key).ok_or(Code::NOT_FOUND)
    }

    pub(super) fn set(&mut self, key: &str, value: &[u8], format: Format) -> Result<(), Code> {
        self.writable()?;
        check_key(key)?;
        if format == Format::Json && json::single(value).is_err() {
            return Err(Code::INVALID);
        }
        let bytes = value.to_vec();
        self.put(key, Value { format, bytes });
        Ok(())
    }

    fn put(&mut self, key: &str, value: Value) {
        if self.entries.get(key) != Some(&value) {
            self.entries.insert(key.to_string(), value);
            self.changed();
        }
    }

    pub(super) fn delete(&mut self, key: &str) -> Result<bool, Code> {
        self.writable()?;
        check_key(key)?;
        let existed = self.entries.remove(key).is_some();
        if existed {
            self.changed();
        }
        Ok(existed)
    }

    pub(super) fn delete_all(&mut self) -> Result<u32, Code> {
        self.writable()?;
        let count = self.entries.len() as u32;
        if count > 0 {
            self.entries.clear();
            self.changed();
        }
        Ok(count)
    }

    pub(super) fn keys(&self, prefix: &str) -> Result<Vec<u8>, Code> {
        self.readable()?;
        let keys = self.entries.keys().map(String::as_str);
        Ok(codec::encode_key_list(
            keys.filter(|key| key.starts_with(prefix)),
        ))
    }

    pub(super) fn json(&self) -> Result<Vec<u8>, Code> {
        self.readable()?;
        Ok(object(&self.entries))
    }

    pub(super) fn patch(&mut self, before: &[u8], after: &[u8]) -> Result<u32, Code> {
        self.writable()?;
        let before = members(before)?;
        let after = members(after)?;
        let mut changed = 0;
        for (key, value) in &after {
            if before.get(key) != Some(value) {
                self.put(key, Value::json(value));
                changed += 1;
            }
        }
        for key in before.keys().filter(|key| !after.contains_key(*key)) {
            changed += u32::from(self.delete(key)?);
        }
        Ok(changed)
    }

    /// Bytes at rest: one JSON object, or the envelope of `abi/SPEC.md` section 4
    /// when a value is not JSON.
    pub(super) fn size(&self) -> u64 {
        if self.entries.values().all(|v| v.format == Format::Json) {
            return object(&self.entries).len() as u64;
        }
        let entries = self.entries.iter();
        let bytes = entries.map(|(key, value)| 9 + key.len() + value.bytes.len());
        4 + bytes.sum::<usize>() as u64 + 4
    }
}

/// The members of an object, or of nothing; each key once, the last one counts.
fn members(object: &[u8]) -> Result<BTreeMap<String, &[u8]>, Code> {
    if object.is_empty() {
        return Ok(BTreeMap::new());
    }
    let members = json::members(object).map_err(|_| Code::INVALID)?;
    if members.iter().all(|(key, _)| valid_key(key)) {
        return Ok(members
            .into_iter()
            .map(|(key, value)| (key.into_owned(), value))
            .collect());
    }
    Err(Code::INVALID)
}

pub(super) fn valid_key(key: &str) -> bool {
    !key.is_empty() && key.len() <= MAX_STATE_KEY
}

fn check_key(key: &str) -> Result<(), Code> {
    if valid_key(key) {
        return Ok(());
    }
    Err(Code::INVALID)
}

/// One object of the keys with JSON values.
pub(super) fn object(entries: &Entries) -> Vec<u8> {
    let json = entries.iter().filter(|(_, v)| v.format == Format::Json);
    json::write_object(json.map(|(key, v)| (key.as_str(), v.bytes.as_slice())))
}

pub(super) fn next(counter: &Cell<u64>) -> u64 {
    counter.set(counter.get() + 1);
    counter.get()
}

//! The state of an actor, key by key.

use crate::actor::State;
use crate::codec;
use crate::context::{Context, Deleted, ReadContext};
use crate::convert::{FromJson, ToJson};
use crate::error::{Error, Status};
use crate::host::{Code, Format};
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::Deref;

impl ReadContext {
    /// The actor's state, key by key, to read.
    ///
    /// The fields of a typed state are keys too, with the values that they had
    /// when the method began: the struct is saved after the method.
    #[must_use]
    pub fn state(&self) -> StateReader<'_> {
        StateReader { ctx: self }
    }
}

impl Context {
    /// The actor's state, key by key, to read and change. A failed turn changes
    /// nothing.
    #[must_use]
    pub fn state(&self) -> StateWriter<'_> {
        StateWriter {
            reader: StateReader { ctx: self },
        }
    }
}

/// Reads keys; from [`ReadContext::state`].
///
/// Every function that takes a key refuses one that is empty or longer than 512
/// bytes, as `invalid`, and fails as `no_state` in a stateless type.
#[derive(Clone, Copy, Debug)]
pub struct StateReader<'c> {
    ctx: &'c ReadContext,
}

impl<'c> StateReader<'c> {
    /// The value of a key; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// `bad_json`: the value is not a `T`.
    pub fn get<T: FromJson>(&self, key: &str) -> Result<Option<T>, Error> {
        match self.get_bytes(key)? {
            Some(text) => T::from_json(&text)
                .map(Some)
                .map_err(|e| e.context(&format!("state key {key:?}"))),
            None => Ok(None),
        }
    }

    /// The bytes of a key, whatever their format; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// The host refuses the key.
    pub fn get_bytes(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        match self.ctx.host().state_get(key) {
            Ok((_, value)) => Ok(Some(value)),
            Err(Code::NOT_FOUND) => Ok(None),
            Err(code) => Err(code.error(&format!("read state key {key:?}"))),
        }
    }

    /// The keys that begin with `prefix`, in ascending byte order; all of them
    /// for an empty one.
    ///
    /// # Errors
    ///
    /// The type is stateless.
    pub fn keys(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let list = self
            .ctx
            .host()
            .state_keys(prefix)
            .map_err(|code| code.error("list the state's keys"))?;
        match codec::decode_key_list(&list) {
            Ok(keys) => Ok(keys.into_iter().map(str::to_string).collect()),
            Err(e) => Err(Error::new(Status::Internal, "bad_frame", e.to_string())),
        }
    }

    /// The keys that begin with `prefix` and their values, in ascending byte order.
    ///
    /// The keys are those of the moment when `each` is called. The values are read
    /// one by one as the iterator comes to them, so it is no harm to set or delete
    /// keys meanwhile: a key that is deleted before its turn is left out.
    ///
    /// ```
    /// # use greenroom::prelude::*;
    /// # struct Shelf;
    /// # impl Shelf {
    /// fn pages(&self, ctx: &ReadContext) -> Result<u64, Error> {
    ///     let mut pages = 0;
    ///     for entry in ctx.state().each::<u64>("book/") {
    ///         let (_key, count) = entry?;
    ///         pages += count;
    ///     }
    ///     Ok(pages)
    /// }
    /// # }
    /// ```
    ///
    /// An item is an error where `keys` or `get` would return one: the type is
    /// stateless, or the value is not a `T` (`bad_json`). After one that `keys`
    /// would return there are no more items.
    #[must_use]
    pub fn each<T: FromJson>(&self, prefix: &str) -> Each<'c, T> {
        let (keys, failed) = match self.keys(prefix) {
            Ok(keys) => (keys, None),
            Err(e) => (Vec::new(), Some(e)),
        };
        Each {
            state: *self,
            keys: keys.into_iter(),
            failed,
            value: PhantomData,
        }
    }

    /// The keys with JSON values as the fields of a struct: for a migration to
    /// read the older form.
    ///
    /// # Errors
    ///
    /// `bad_json`: they do not fit it.
    pub fn load<T: State>(&self) -> Result<T, Error> {
        let mut text = Vec::new();
        self.ctx
            .host()
            .state_json(&mut text)
            .map_err(|code| code.error("load the state"))?;
        T::load(&text)
    }

    /// The stored version that the turn reads; 0 if nothing is stored.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.ctx.host().state_version()
    }
}

/// Keys and their values; from [`StateReader::each`].
#[derive(Debug)]
pub struct Each<'c, T> {
    state: StateReader<'c>,
    keys: std::vec::IntoIter<String>,
    /// Why the keys could not be listed.
    failed: Option<Error>,
    value: PhantomData<fn() -> T>,
}

impl<T: FromJson> Iterator for Each<'_, T> {
    type Item = Result<(String, T), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(e) = self.failed.take() {
            return Some(Err(e));
        }
        loop {
            let key = self.keys.next()?;
            match self.state.get(&key) {
                Ok(Some(value)) => return Some(Ok((key, value))),
                Ok(None) => {} // deleted meanwhile
                Err(e) => return Some(Err(e)),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.keys.len() + 1))
    }
}

impl<T: FromJson> FusedIterator for Each<'_, T> {}

/// Reads and changes keys; from [`Context::state`].
///
/// A field of a typed state is better changed in the struct: what the struct
/// says is saved after the method, over what was set here.
#[derive(Clone, Copy, Debug)]
pub struct StateWriter<'c> {
    reader: StateReader<'c>,
}

impl<'c> Deref for StateWriter<'c> {
    type Target = StateReader<'c>;

    fn deref(&self) -> &StateReader<'c> {
        &self.reader
    }
}

impl StateWriter<'_> {
    /// Sets a key to a value, as JSON.
    ///
    /// # Errors
    ///
    /// JSON has no form for the value, or the host refuses it.
    pub fn set<T: ToJson + ?Sized>(&self, key: &str, value: &T) -> Result<(), Error> {
        let text = value
            .to_json()
            .map_err(|e| e.context(&format!("state key {key:?}")))?;
        self.put(key, &text, Format::Json)
    }

    /// Sets a key to opaque bytes.
    ///
    /// # Errors
    ///
    /// The host refuses the key or the size.
    pub fn set_bytes(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        self.put(key, value, Format::Bytes)
    }

    fn put(&self, key: &str, value: &[u8], format: Format) -> Result<(), Error> {
        let ctx = self.reader.ctx;
        ctx.note_key_change();
        ctx.host()
            .state_set(key, value, format)
            .map_err(|code| code.error(&format!("set state key {key:?}")))
    }

    /// Removes a key. Returns whether it was there.
    ///
    /// # Errors
    ///
    /// The host refuses the key.
    pub fn delete(&self, key: &str) -> Result<bool, Error> {
        let ctx = self.reader.ctx;
        ctx.note_key_change();
        ctx.host()
            .state_delete(key)
            .map_err(|code| code.error(&format!("delete state key {key:?}")))
    }

    /// Removes every key and sets the actor to its first value, so that it is as if
    /// it had never been: `ctx.state().delete_all(self)?`. What the method changes in
    /// the struct afterwards is saved. Returns how many keys there were.
    ///
    /// # Errors
    ///
    /// The type is stateless.
    pub fn delete_all<A: State>(&self, actor: &mut A) -> Result<u32, Error> {
        let count = self.remove_all(Deleted::KeysAndStruct)?;
        *actor = A::default();
        Ok(count)
    }

    /// Removes every key, for a method that takes `&self` and for a migration. Returns
    /// how many there were.
    ///
    /// A method that has `&mut self` calls [`delete_all`](StateWriter::delete_all)
    /// instead. After `clear` a struct that the method leaves as it was stays removed,
    /// and one that it changes is saved, with the fields that it did not change.
    ///
    /// # Errors
    ///
    /// The type is stateless.
    pub fn clear(&self) -> Result<u32, Error> {
        self.remove_all(Deleted::Keys)
    }

    fn remove_all(&self, deleted: Deleted) -> Result<u32, Error> {
        let ctx = self.reader.ctx;
        ctx.note_deleted(deleted);
        ctx.host()
            .state_delete_all()
            .map_err(|code| code.error("delete the state"))
    }
}

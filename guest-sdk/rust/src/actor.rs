//! What makes a struct an actor.

use crate::context::Context;
use crate::convert::{FromJson, Input, Output, Payload, ToJson};
use crate::error::Error;
use crate::json;
use crate::spec::TypeSpec;

/// An actor type. [`actors!`](crate::actors) implements it.
///
/// The struct is the actor's state: before a method it is made from the keys of
/// the state that have its fields' names, and after the method the fields that
/// changed are saved to them. Keys that are no field of it are left alone, and a
/// field that is not stored has the value that it has in the struct's `Default`.
pub trait Actor: State {
    /// What the manifest says of the type.
    const SPEC: TypeSpec;

    /// Runs a method; `None` if there is none with this name.
    fn call(
        &mut self,
        ctx: &mut Context,
        method: &str,
        content_type: &str,
        payload: &[u8],
    ) -> Option<Result<Payload, Error>>;

    /// Brings state that was written under an older `state_schema` to this one.
    /// It works on the keys, in the same commit as the method that follows.
    ///
    /// # Errors
    ///
    /// What it returns fails the call, which then changes nothing.
    // Not `migrate`, which an actor's own function is likely to be called: where
    // that one is missing from the type, `Type::migrate` would be this method, and
    // `actors!` would make it call itself.
    fn migrate_state(ctx: &mut Context, from: u32) -> Result<(), Error> {
        let _ = (ctx, from);
        Ok(())
    }
}

/// A struct whose fields are keys of the state: everything that is [`Default`],
/// [`ToJson`] and [`FromJson`] and has an object as JSON.
pub trait State: Default + 'static {
    /// Makes it from a JSON object of keys; an empty text counts as none.
    ///
    /// # Errors
    ///
    /// `bad_json`: a value does not fit its field.
    fn load(keys: &[u8]) -> Result<Self, Error>;

    /// Its fields as a JSON object.
    ///
    /// # Errors
    ///
    /// JSON has no form for it.
    fn save(&self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(64);
        self.save_to(&mut out)?;
        Ok(out)
    }

    /// Makes `out` what [`save`](State::save) returns.
    #[doc(hidden)]
    fn save_to(&self, out: &mut Vec<u8>) -> Result<(), Error>;
}

impl<T: ToJson + FromJson + Default + 'static> State for T {
    fn load(keys: &[u8]) -> Result<T, Error> {
        if matches!(keys, b"" | b"{}") {
            return Ok(T::default());
        }
        match T::from_json(keys) {
            Ok(state) => Ok(state),
            // A field that is not stored yet, perhaps: as in a new actor.
            Err(e) => T::from_json(&with_defaults::<T>(keys)?).map_err(|_| e),
        }
    }

    fn save_to(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.clear();
        self.append_json(out)?;
        match out.as_slice() {
            [b'{', ..] => Ok(()),
            b"null" => {
                // A struct without fields.
                out.clear();
                out.extend_from_slice(b"{}");
                Ok(())
            }
            _ => Err(Error::new(
                crate::Status::Internal,
                "bad_state",
                "an actor's state must be a struct with named fields",
            )),
        }
    }
}

/// `keys` and, for every field that is not among them, the default.
fn with_defaults<T: State>(keys: &[u8]) -> Result<Vec<u8>, Error> {
    let defaults = T::default().save()?;
    let mut members = json::members(keys)?;
    for (name, value) in json::members(&defaults)? {
        if !members.iter().any(|(key, _)| *key == name) {
            members.push((name, value));
        }
    }
    Ok(json::write_object(
        members.iter().map(|(key, value)| (key.as_ref(), *value)),
    ))
}

/// A function that can be a method of `A`: it takes the actor, the context and
/// at most one argument, and returns a `Result`.
///
/// The actor is taken by `&mut self` or `&self`, the context by `&mut` or `&`;
/// the error is [`Error`] or anything that converts to it. `Form` tells the
/// implementations apart and is always inferred.
pub trait Method<A, Form> {
    #[doc(hidden)]
    fn run(self, actor: &mut A, ctx: &mut Context, content_type: &str, payload: &[u8]) -> Reply;
}

/// A function that can be a read-only method of `A`: as [`Method`], with `&self`
/// and `&Context`.
pub trait ReadMethod<A, Form> {
    #[doc(hidden)]
    fn run(self, actor: &A, ctx: &Context, content_type: &str, payload: &[u8]) -> Reply;
}

#[doc(hidden)]
pub type Reply = Result<Payload, Error>;

fn reply<O: Output, E: Into<Error>>(result: Result<O, E>) -> Reply {
    match result {
        Ok(output) => output.into_payload(),
        Err(e) => Err(e.into()),
    }
}

macro_rules! methods {
    ($trait:ident($actor:ty, $ctx:ty): $($form:ident($self:ty, $context:ty))+) => {$(
        #[doc(hidden)]
        pub struct $form;

        impl<A, F, O, E> $trait<A, ($form, O, E)> for F
        where
            F: FnOnce($self, $context) -> Result<O, E>,
            O: Output,
            E: Into<Error>,
        {
            fn run(self, actor: $actor, ctx: $ctx, _: &str, _: &[u8]) -> Reply {
                reply(self(actor, ctx))
            }
        }

        impl<A, F, I, O, E> $trait<A, ($form, I, O, E)> for F
        where
            F: FnOnce($self, $context, I) -> Result<O, E>,
            I: Input,
            O: Output,
            E: Into<Error>,
        {
            fn run(self, actor: $actor, ctx: $ctx, content_type: &str, payload: &[u8]) -> Reply {
                let input = I::from_payload(content_type, payload)?;
                reply(self(actor, ctx, input))
            }
        }
    )+};
}

methods! { Method(&mut A, &mut Context):
    MutMut(&mut A, &mut Context)
    MutRef(&mut A, &Context)
    RefMut(&A, &mut Context)
    RefRef(&A, &Context)
}

methods! { ReadMethod(&A, &Context): Read(&A, &Context) }

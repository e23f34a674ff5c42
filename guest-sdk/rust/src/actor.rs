//! What makes a struct an actor.

use crate::context::{Context, ReadContext};
use crate::convert::{FromJson, Input, Output, Payload, ToJson};
use crate::error::Error;
use crate::json;
use crate::spec::{MethodSpec, TypeSpec};
use std::marker::PhantomData;

/// An actor type. [`actors!`](crate::actors) implements it, and so does the
/// attribute `actor` of the feature `macros`; it is not to be implemented by hand.
///
/// The struct is the actor's state: before a method it is made from the keys of
/// the state that have its fields' names, and after the method the fields that
/// changed are saved to them. Keys that are no field of it are left alone, and a
/// field that is not stored has the value that it has in the struct's `Default`.
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "`{Self}` is not an actor type",
        label = "not an actor type",
        note = "write `#[greenroom::actor]` over the `impl` block that has its methods, or list it in `greenroom::actors!`"
    )
)]
pub trait Actor: State {
    /// What the manifest says of the type.
    #[doc(hidden)]
    const SPEC: TypeSpec;

    /// Runs a method; `None` if there is none with this name.
    #[doc(hidden)]
    fn call(
        &mut self,
        ctx: &Context,
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
    #[doc(hidden)]
    fn migrate_state(ctx: &Context, from: u32) -> Result<(), Error> {
        let _ = (ctx, from);
        Ok(())
    }
}

/// A struct whose fields are keys of the state: everything that is [`Default`],
/// [`ToJson`] and [`FromJson`] and has an object as JSON.
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "`{Self}` cannot be the state of an actor",
        label = "not a state",
        note = "a state is a struct with named fields. With the feature `serde` of the crate greenroom, write `#[derive(Default, Serialize, Deserialize)]` over it; without, `#[derive(Default)]` in `greenroom::record!`"
    )
)]
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

#[cfg_attr(greenroom_do_not_recommend, diagnostic::do_not_recommend)]
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

/// A function that can be a method of `A`. It takes the actor, a context and at
/// most one argument, and returns a `Result`. Its types say what it may do:
///
/// | form | what it is |
/// |---|---|
/// | `fn(&mut self, &Context, T) -> Result<R, E>` | a method that may change things |
/// | `fn(&self, &Context, T) -> Result<R, E>` | the same, for one that changes keys and not the struct |
/// | `fn(&self, &ReadContext, T) -> Result<R, E>` | a read-only method, of a state that may be 100 ms old |
///
/// `T`, which may be left out, is an [`Input`], and `R` is an [`Output`]. `E` is
/// [`Error`] or anything that converts to it.
///
/// `Form` tells the implementations apart and is always inferred. The trait is
/// implemented for every function of these forms, and not to be implemented by
/// hand.
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "`{Self}` does not have the form of a method of `{A}`",
        label = "this function cannot be called as a method",
        note = "a method that changes the actor is written: fn name(&mut self, ctx: &Context, argument: T) -> Result<R, Error>",
        note = "a read-only method is written: fn name(&self, ctx: &ReadContext, argument: T) -> Result<R, Error>",
        note = "the context is always there, as `_: &Context` if it is not used; the argument may be left out, and for several of them make a struct"
    )
)]
pub trait Method<A, Form> {
    #[doc(hidden)]
    const READ_ONLY: bool;
    #[doc(hidden)]
    type Argument;
    #[doc(hidden)]
    type Returned;

    #[doc(hidden)]
    fn invoke(
        self,
        actor: Target<'_, A>,
        ctx: &Context,
        argument: Self::Argument,
    ) -> Self::Returned;
}

/// The argument of a method that has none: whatever the caller sends is ignored.
#[doc(hidden)]
pub struct NoArgument;

impl Input for NoArgument {
    fn from_payload(_: &str, _: &[u8]) -> Result<NoArgument, Error> {
        Ok(NoArgument)
    }
}

macro_rules! methods {
    ($($form:ident($actor:ty, $context:ty, read_only: $read_only:literal))+) => {$(
        #[doc(hidden)]
        pub struct $form;

        impl<A, F, R> Method<A, ($form, R)> for F
        where
            F: FnOnce($actor, $context) -> R,
        {
            const READ_ONLY: bool = $read_only;
            type Argument = NoArgument;
            type Returned = R;

            #[inline]
            fn invoke(self, actor: Target<'_, A>, ctx: &Context, _: NoArgument) -> R {
                self(actor.0, ctx)
            }
        }

        impl<A, F, I, R> Method<A, ($form, I, R)> for F
        where
            F: FnOnce($actor, $context, I) -> R,
        {
            const READ_ONLY: bool = $read_only;
            type Argument = I;
            type Returned = R;

            #[inline]
            fn invoke(self, actor: Target<'_, A>, ctx: &Context, argument: I) -> R {
                self(actor.0, ctx, argument)
            }
        }
    )+};
}

methods! {
    Write(&mut A, &Context, read_only: false)
    WriteKeys(&A, &Context, read_only: false)
    Read(&A, &ReadContext, read_only: true)
}

// The traits below are over the method `M` for their messages alone: `actors!` has no
// place to point at, so that they name the function.

/// What a method takes: an [`Input`].
#[doc(hidden)]
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "`{Self}` cannot be the argument of a method",
        label = "the argument of `{M}` cannot be read from JSON",
        note = "with the feature `serde` of the crate greenroom, write `#[derive(Deserialize)]` over it; without, declare it in `greenroom::record!`; for bytes of another kind, take a `Payload`"
    )
)]
pub trait Argument<M>: Input {}

#[cfg_attr(greenroom_do_not_recommend, diagnostic::do_not_recommend)]
impl<M, I: Input> Argument<M> for I {}

/// What a method returns: a `Result`.
#[doc(hidden)]
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "a method returns a `Result`, and not `{Self}`",
        label = "`{M}` returns `{Self}`",
        note = "write `-> Result<{Self}, Error>`, and `Ok(…)` around what it returns; a method that answers nothing returns `Result<(), Error>`"
    )
)]
pub trait Outcome<M> {
    fn into_reply(self) -> Reply;
}

impl<M, O: Answer<M>, E: IntoError<M>> Outcome<M> for Result<O, E> {
    #[inline]
    fn into_reply(self) -> Reply {
        match self {
            Ok(output) => output.into_payload(),
            Err(e) => Err(e.into_error()),
        }
    }
}

/// What a method answers with: an [`Output`].
#[doc(hidden)]
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "a method cannot answer with `{Self}`",
        label = "the answer of `{M}` cannot be written as JSON",
        note = "with the feature `serde` of the crate greenroom, write `#[derive(Serialize)]` over it; without, declare it in `greenroom::record!`; for bytes of another kind, return a `Payload`"
    )
)]
pub trait Answer<M>: Output {}

#[cfg_attr(greenroom_do_not_recommend, diagnostic::do_not_recommend)]
impl<M, O: Output> Answer<M> for O {}

/// What a method can fail with: an [`Error`], or what converts to one.
#[doc(hidden)]
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "a method cannot fail with `{Self}`: there is no `From<{Self}>` for `greenroom::Error`",
        label = "`{M}` fails with `{Self}`",
        note = "for an error type of your own, write `impl From<{Self}> for greenroom::Error`",
        note = "for one of a library, return `Result<_, greenroom::Error>`, and give the error a code where it comes up: `.code(\"bad_number\")?`"
    )
)]
pub trait IntoError<M> {
    fn into_error(self) -> Error;
}

#[cfg_attr(greenroom_do_not_recommend, diagnostic::do_not_recommend)]
impl<M, E: Into<Error>> IntoError<M> for E {
    #[inline]
    fn into_error(self) -> Error {
        self.into()
    }
}

#[doc(hidden)]
pub type Reply = Result<Payload, Error>;

/// A function that has the form of a method of `A`, with the argument `I` and what it
/// returns, `R`.
#[doc(hidden)]
pub struct Checked<A, M, I, R> {
    method: M,
    invoke: fn(M, Target<'_, A>, &Context, I) -> R,
    read_only: bool,
}

/// A `&mut A`, which a constant function of Rust 1.63 may not even mention.
#[doc(hidden)]
pub struct Target<'a, A>(&'a mut A);

/// Names a type to [`checked`], which then need not be told its other parameters: the
/// compiler complains about the argument of a call only where all are inferred.
#[doc(hidden)]
#[must_use]
pub const fn of_type<A>() -> PhantomData<fn() -> A> {
    PhantomData
}

/// The macros say each method twice, once for what it is and once to run it. Both go
/// by way of this function, and what follows asks no more of the function than that it
/// was here: so the complaint about its form is the same both times, and comes once.
#[doc(hidden)]
#[inline]
pub const fn checked<A, Form, M: Method<A, Form>>(
    _: PhantomData<fn() -> A>,
    method: M,
) -> Checked<A, M, M::Argument, M::Returned> {
    Checked {
        method,
        invoke: M::invoke,
        read_only: M::READ_ONLY,
    }
}

/// `spec`, which is read-only if its method is so by its types.
#[doc(hidden)]
#[must_use]
pub const fn described<A, M, I, R>(checked: &Checked<A, M, I, R>, spec: MethodSpec) -> MethodSpec {
    if checked.read_only {
        spec.read_only()
    } else {
        spec
    }
}

/// Runs a method from the payload to the reply.
#[doc(hidden)]
#[inline]
pub fn run<A, M, I: Argument<M>, R: Outcome<M>>(
    checked: Checked<A, M, I, R>,
    actor: &mut A,
    ctx: &Context,
    content_type: &str,
    payload: &[u8],
) -> Reply {
    let argument = match I::from_payload(content_type, payload) {
        Ok(argument) => argument,
        // The method takes events alone, and the next ones do not wait for it.
        Err(_) if crate::event::is_end_of_publisher(ctx) => return Ok(Payload::default()),
        Err(e) => return Err(e),
    };
    (checked.invoke)(checked.method, Target(actor), ctx, argument).into_reply()
}

/// For a method that was declared `read_only`: its types must say so, too.
#[doc(hidden)]
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "`{Self}` is declared `read_only`, but its types let it change `{A}`",
        label = "this method is not read-only",
        note = "write it as: fn name(&self, ctx: &ReadContext, argument: T) -> Result<R, Error>; or remove the word `read_only`"
    )
)]
pub trait ReadMethod<A, Form>: Method<A, Form> {}

impl<A, F, R> ReadMethod<A, (Read, R)> for F where F: FnOnce(&A, &ReadContext) -> R {}
impl<A, F, I, R> ReadMethod<A, (Read, I, R)> for F where F: FnOnce(&A, &ReadContext, I) -> R {}

/// As [`checked`], for a method that was declared `read_only`.
#[doc(hidden)]
#[inline]
pub const fn checked_read_only<A, Form, M: ReadMethod<A, Form>>(
    actor: PhantomData<fn() -> A>,
    method: M,
) -> Checked<A, M, M::Argument, M::Returned> {
    checked(actor, method)
}

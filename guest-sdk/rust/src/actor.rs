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

/// A function that can be a method of `A`. It takes the actor, a context and at
/// most one argument, and returns a `Result`. Its types say what it may do:
///
/// | form | what it is |
/// |---|---|
/// | `fn(&mut self, &Context, T) -> Result<R, E>` | a method that may change things |
/// | `fn(&self, &Context, T) -> Result<R, E>` | the same, for one that changes keys and not the struct |
/// | `fn(&self, &ReadContext, T) -> Result<R, E>` | a read-only method |
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
    fn invoke(self, actor: &mut A, ctx: &Context, argument: Self::Argument) -> Self::Returned;
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
            fn invoke(self, actor: &mut A, ctx: &Context, _: NoArgument) -> R {
                self(actor, ctx)
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
            fn invoke(self, actor: &mut A, ctx: &Context, argument: I) -> R {
                self(actor, ctx, argument)
            }
        }
    )+};
}

methods! {
    Write(&mut A, &Context, read_only: false)
    WriteKeys(&A, &Context, read_only: false)
    Read(&A, &ReadContext, read_only: true)
}

/// What a method returns.
#[doc(hidden)]
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "a method returns a `Result`, and not `{Self}`",
        label = "this method returns `{Self}`",
        note = "write `-> Result<{Self}, Error>`, and `Ok(…)` around what it returns; a method that answers nothing returns `Result<(), Error>`"
    )
)]
pub trait Outcome {
    fn into_reply(self) -> Reply;
}

impl<O: Output, E: IntoError> Outcome for Result<O, E> {
    #[inline]
    fn into_reply(self) -> Reply {
        match self {
            Ok(output) => output.into_payload(),
            Err(e) => Err(e.into_error()),
        }
    }
}

/// What a method can fail with.
#[doc(hidden)]
#[cfg_attr(
    greenroom_on_unimplemented,
    diagnostic::on_unimplemented(
        message = "a method cannot fail with `{Self}`: there is no `From<{Self}>` for `greenroom::Error`",
        label = "this method fails with `{Self}`",
        note = "for an error type of your own, write `impl From<{Self}> for greenroom::Error`",
        note = "for one of a library, return `Result<_, greenroom::Error>`, and give the error a code where it comes up: `.code(\"bad_number\")?`"
    )
)]
pub trait IntoError {
    fn into_error(self) -> Error;
}

#[cfg_attr(greenroom_do_not_recommend, diagnostic::do_not_recommend)]
impl<E: Into<Error>> IntoError for E {
    #[inline]
    fn into_error(self) -> Error {
        self.into()
    }
}

#[doc(hidden)]
pub type Reply = Result<Payload, Error>;

/// A function that has the form of a method of `A`.
#[doc(hidden)]
pub struct Checked<A, Form, M> {
    method: M,
    form: PhantomData<fn(&mut A) -> Form>,
}

/// The macros say each method twice, once for what it is and once to run it. Both go
/// by way of this function, so that the compiler's complaints about its form are the
/// same and come once.
#[doc(hidden)]
pub const fn checked<A, Form, M: Method<A, Form>>(method: M) -> Checked<A, Form, M> {
    Checked {
        method,
        form: PhantomData,
    }
}

/// `spec`, which is read-only if its method is so by its types.
#[doc(hidden)]
pub const fn described<A, Form, M: Method<A, Form>>(
    _: &Checked<A, Form, M>,
    spec: MethodSpec,
) -> MethodSpec {
    if M::READ_ONLY {
        spec.read_only()
    } else {
        spec
    }
}

/// Runs a method from the payload to the reply.
#[doc(hidden)]
#[inline]
pub fn run<A, Form, M: Method<A, Form>>(
    checked: Checked<A, Form, M>,
    actor: &mut A,
    ctx: &Context,
    content_type: &str,
    payload: &[u8],
) -> Reply
where
    M::Argument: Input,
    M::Returned: Outcome,
{
    let argument = M::Argument::from_payload(content_type, payload)?;
    checked.method.invoke(actor, ctx, argument).into_reply()
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
pub const fn checked_read_only<A, Form, M: ReadMethod<A, Form>>(method: M) -> Checked<A, Form, M> {
    checked(method)
}

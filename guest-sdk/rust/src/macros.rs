//! The two macros: one says what the actors are, the other stands in for
//! serde's derive.

/// Makes structs actors, and the crate a module.
///
/// Use it once, at the root of a crate of type `cdylib`. Each entry names a
/// struct that is in scope:
///
/// ```
/// use greenroom::prelude::*;
///
/// #[derive(Default)]
/// # #[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
/// struct Counter { count: i64 }
/// # #[cfg(not(feature = "serde"))] use greenroom::*;
/// # #[cfg(not(feature = "serde"))] impl ToJson for Counter { fn to_json(&self) -> Result<Vec<u8>, Error> { Ok(vec![]) } }
/// # #[cfg(not(feature = "serde"))] impl FromJson for Counter { fn from_json(_: &[u8]) -> Result<Self, Error> { Ok(Counter::default()) } }
///
/// impl Counter {
///     fn add(&mut self, _: &mut Context, n: i64) -> Result<i64, Error> {
///         self.count += n;
///         Ok(self.count)
///     }
///     fn reset(&mut self, ctx: &mut Context) -> Result<(), Error> {
///         ctx.state_mut().delete_all()?;
///         Ok(())
///     }
///     fn get(&self, _: &Context) -> Result<i64, Error> {
///         Ok(self.count)
///     }
///     fn migrate(ctx: &mut Context, from: u32) -> Result<(), Error> {
///         if from < 2 {
///             let old: Option<i64> = ctx.state().get("total")?;
///             ctx.state_mut().set("count", &old.unwrap_or_default())?;
///             ctx.state_mut().delete("total")?;
///         }
///         Ok(())
///     }
/// }
///
/// greenroom::actors! {
///     Counter {
///         methods: {
///             "Add" => add,
///             "Reset" => idempotent reset,
///             "Get" => read_only get,
///         },
///         // All the rest may be left out.
///         placement: ring,
///         instance: shared,
///         pool: user,
///         state_schema: 2,
///         migrate: migrate,
///         limits: { state_bytes: 64 << 10, turn_ms: 500 },
///         capabilities: { http: ["api.example.com"], secrets: ["api_key"] },
///     }
/// }
/// # fn main() {}
/// ```
///
/// - **`methods`**: the name that callers use, then any of `read_only`,
///   `idempotent` and `reentrant`, then the name of an associated function; its
///   form is that of [`Method`](crate::Method), for `read_only` ones of
///   [`ReadMethod`](crate::ReadMethod).
/// - **`placement`**: `any`, `ring` (the default), `sticky` or `stateless`.
/// - **`instance`**: `shared` or `dedicated`; **`pool`**: `user` (the default)
///   or `batch`.
/// - **`state_schema`**: the version of the state's form, 0 at first.
/// - **`migrate`**: the associated function that brings older state to this
///   schema, as [`Actor::migrate_state`](crate::Actor::migrate_state). A function
///   outside of the type's `impl` does not compile:
///
///   ```compile_fail
///   # use greenroom::prelude::*;
///   # greenroom::record! { #[derive(Default)] pub struct Counter { count: i64 } }
///   # impl Counter { fn get(&self, _: &Context) -> Result<i64, Error> { Ok(self.count) } }
///   fn migrate(ctx: &mut Context, from: u32) -> Result<(), Error> { Ok(()) }
///
///   greenroom::actors! {
///       Counter { methods: { "Get" => read_only get }, state_schema: 2, migrate: migrate }
///   }
///   # fn main() {}
///   ```
/// - **`limits`**: any of the fields of [`Limits`](crate::spec::Limits).
/// - **`capabilities`**: what the type uses beyond its own state, any of the fields
///   of [`Capabilities`](crate::spec::Capabilities).
///
/// `Counter as "shop.Counter" { … }` gives the type another name than the
/// struct's. Several entries follow one another without a separator. A name that
/// a host would refuse does not compile.
#[macro_export]
macro_rules! actors {
    ($($actor:ident $(as $name:literal)? { $($option:ident : $value:tt),+ $(,)? })+) => {
        $($crate::__actor! { $actor, $crate::__name!($actor $($name)?), $($option: $value),+ })+

        /// The actor types of this module.
        #[doc(hidden)]
        pub static GREENROOM_MODULE: $crate::__private::Module = {
            const TYPES: &[$crate::__private::Entry] = &[$($crate::__private::Entry::of::<$actor>()),+];
            $crate::__private::Module::new(TYPES)
        };

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            #[no_mangle]
            extern "C" fn greenroom_alloc(size: u32) -> u32 {
                $crate::__private::alloc(size)
            }
            #[no_mangle]
            extern "C" fn greenroom_manifest() -> i64 {
                $crate::__private::manifest(&GREENROOM_MODULE)
            }
            #[no_mangle]
            extern "C" fn greenroom_turn(ptr: u32, len: u32) -> i32 {
                // SAFETY: the host hands over a frame as the ABI says.
                unsafe { $crate::__private::turn(&GREENROOM_MODULE, ptr, len) }
            }
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __name {
    ($actor:ident) => {
        stringify!($actor)
    };
    ($actor:ident $name:literal) => {
        $name
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __actor {
    ($actor:ident, $name:expr, $($option:ident : $value:tt),+) => {
        impl $crate::Actor for $actor {
            const SPEC: $crate::spec::TypeSpec = {
                let mut spec = $crate::spec::TypeSpec::new($name, &[]);
                $($crate::__option! { spec, $option: $value })+
                spec.checked()
            };

            fn call(
                &mut self,
                ctx: &mut $crate::Context,
                method: &str,
                content_type: &str,
                payload: &[u8],
            ) -> ::core::option::Option<$crate::__private::Reply> {
                $($crate::__call! { $option: $value; $actor, self, ctx, method, content_type, payload })+
                ::core::option::Option::None
            }

            $($crate::__migrate! { $option: $value; $actor })+
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __option {
    ($spec:ident, placement: any) => { $spec.placement = $crate::spec::Placement::Any; };
    ($spec:ident, placement: ring) => { $spec.placement = $crate::spec::Placement::Ring; };
    ($spec:ident, placement: sticky) => { $spec.placement = $crate::spec::Placement::Sticky; };
    ($spec:ident, placement: stateless) => { $spec.placement = $crate::spec::Placement::Stateless; };
    ($spec:ident, placement: $other:tt) => {
        compile_error!("placement is one of: any, ring, sticky, stateless");
    };
    ($spec:ident, instance: shared) => {
        $spec.instance = ::core::option::Option::Some($crate::spec::Instance::Shared);
    };
    ($spec:ident, instance: dedicated) => {
        $spec.instance = ::core::option::Option::Some($crate::spec::Instance::Dedicated);
    };
    ($spec:ident, instance: $other:tt) => {
        compile_error!("instance is one of: shared, dedicated");
    };
    ($spec:ident, pool: user) => { $spec.pool = $crate::spec::Pool::User; };
    ($spec:ident, pool: batch) => { $spec.pool = $crate::spec::Pool::Batch; };
    ($spec:ident, pool: $other:tt) => {
        compile_error!("pool is one of: user, batch");
    };
    ($spec:ident, state_schema: $schema:tt) => { $spec.state_schema = $schema; };
    ($spec:ident, migrate: $function:ident) => { $spec.migrate = true; };
    ($spec:ident, limits: { $($limit:ident : $value:expr),* $(,)? }) => {
        $($spec.limits.$limit = $value;)*
    };
    ($spec:ident, capabilities: { $($capability:ident : [ $($name:expr),+ $(,)? ]),* $(,)? }) => {
        $($spec.capabilities.$capability = &[$($name),+];)*
    };
    ($spec:ident, capabilities: $other:tt) => {
        compile_error!("capabilities are written as: { http: [\"api.example.com\"], config: [\"region\"], secrets: [\"key\"] }");
    };
    ($spec:ident, methods: { $($method:literal => $($word:ident)+),+ $(,)? }) => {
        const METHODS: &[$crate::spec::MethodSpec] =
            &[$($crate::__method!($crate::spec::MethodSpec::new($method); $($word)+)),+];
        $spec.methods = METHODS;
    };
    ($spec:ident, methods: $other:tt) => {
        compile_error!("methods are written as: { \"Add\" => add, \"Get\" => read_only get }");
    };
    ($spec:ident, $other:ident : $value:tt) => {
        compile_error!(concat!(
            "no option `", stringify!($other),
            "`; there are: methods, placement, instance, pool, state_schema, migrate, limits, capabilities"
        ));
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __method {
    ($spec:expr; read_only $($rest:ident)+) => { $crate::__method!($spec.read_only(); $($rest)+) };
    ($spec:expr; idempotent $($rest:ident)+) => { $crate::__method!($spec.idempotent(); $($rest)+) };
    ($spec:expr; reentrant $($rest:ident)+) => { $crate::__method!($spec.reentrant(); $($rest)+) };
    ($spec:expr; $function:ident) => { $spec };
    ($spec:expr; $other:ident $($rest:ident)+) => {
        compile_error!(concat!(
            "`", stringify!($other), "` is none of: read_only, idempotent, reentrant"
        ))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __call {
    (methods: { $($method:literal => $($word:ident)+),+ $(,)? };
     $actor:ident, $self:ident, $ctx:ident, $name:ident, $content_type:ident, $payload:ident) => {
        match $name {
            $($method => {
                return ::core::option::Option::Some($crate::__run!(
                    write; $($word)+; $actor, $self, $ctx, $content_type, $payload
                ));
            })+
            _ => {}
        }
    };
    ($($other_option:tt)*) => {};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __run {
    ($how:ident; read_only $($rest:ident)+; $($to:tt)+) => { $crate::__run!(read; $($rest)+; $($to)+) };
    ($how:ident; idempotent $($rest:ident)+; $($to:tt)+) => { $crate::__run!($how; $($rest)+; $($to)+) };
    ($how:ident; reentrant $($rest:ident)+; $($to:tt)+) => { $crate::__run!($how; $($rest)+; $($to)+) };
    (write; $function:ident; $actor:ident, $self:ident, $ctx:ident, $content_type:ident, $payload:ident) => {
        $crate::Method::run($actor::$function, $self, $ctx, $content_type, $payload)
    };
    (read; $function:ident; $actor:ident, $self:ident, $ctx:ident, $content_type:ident, $payload:ident) => {
        $crate::ReadMethod::run($actor::$function, &*$self, &*$ctx, $content_type, $payload)
    };
    ($($wrong:tt)*) => { ::core::unreachable!() }; // __method! has said what is wrong
}

#[doc(hidden)]
#[macro_export]
macro_rules! __migrate {
    (migrate: $function:ident; $actor:ident) => {
        fn migrate_state(
            ctx: &mut $crate::Context,
            from: u32,
        ) -> ::core::result::Result<(), $crate::Error> {
            $actor::$function(ctx, from)
        }
    };
    ($($other_option:tt)*) => {};
}

/// Declares structs that convert to and from JSON without serde: states,
/// arguments and results of methods.
///
/// ```
/// greenroom::record! {
///     /// A list of things to do.
///     #[derive(Debug, Default, PartialEq)]
///     pub struct List {
///         pub title: String,
///         pub items: Vec<String>,
///         pub done: Option<u32>,
///     }
/// }
/// use greenroom::{FromJson, ToJson};
///
/// let list = List::from_json(br#"{"title": "today", "other": 1}"#)?;
/// assert_eq!(list, List { title: "today".into(), ..List::default() });
/// assert_eq!(list.to_json()?, br#"{"title":"today","items":[],"done":null}"#);
/// # Ok::<(), greenroom::Error>(())
/// ```
///
/// Every field's type must convert, and the struct must have a `Default`, which
/// gives the fields that a text lacks. Members of the text that are no fields are
/// ignored. With the `serde` feature on, serde's derive does all this and more.
#[macro_export]
macro_rules! record {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident : $type:ty),* $(,)?
        }
    )+) => {$(
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $type),*
        }

        impl $crate::ToJson for $name {
            fn to_json(&self) -> ::core::result::Result<::std::vec::Vec<u8>, $crate::Error> {
                let mut out = ::std::vec::Vec::with_capacity(64);
                $crate::ToJson::append_json(self, &mut out)?;
                ::core::result::Result::Ok(out)
            }

            fn append_json(&self, out: &mut ::std::vec::Vec<u8>) -> ::core::result::Result<(), $crate::Error> {
                out.push(b'{');
                $($crate::__private::write_member(out, stringify!($field), &self.$field)?;)*
                out.push(b'}');
                ::core::result::Result::Ok(())
            }
        }

        impl $crate::FromJson for $name {
            #[allow(unused_mut, unused_variables)]
            fn from_json(text: &[u8]) -> ::core::result::Result<$name, $crate::Error> {
                let mut record = <$name as ::core::default::Default>::default();
                $crate::__private::read_record(text, &mut |name, value| {
                    match name {
                        $(
                            field if field == $crate::__private::member(stringify!($field)) => {
                                record.$field = $crate::FromJson::from_json(value)?;
                            }
                        )*
                        _ => {}
                    }
                    ::core::result::Result::Ok(())
                })?;
                ::core::result::Result::Ok(record)
            }
        }
    )+};
}

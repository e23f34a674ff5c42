//! `actors!` and `module!` say what the actors are, `ensure!` refuses, `record!`
//! stands in for serde's derive, and `println!` writes to the actor's log.

/// Makes structs actors, and the crate a module.
///
/// Use it once, at the root of a crate of type `cdylib`. Each entry names a
/// struct, by its path:
///
/// ```
/// use greenroom::prelude::*;
///
/// greenroom::record! {
///     #[derive(Default)]
///     struct Counter { count: i64 }
/// }
///
/// impl Counter {
///     fn add(&mut self, _: &Context, n: i64) -> Result<i64, Error> {
///         self.count += n;
///         Ok(self.count)
///     }
///     fn reset(&mut self, ctx: &Context) -> Result<(), Error> {
///         ctx.state().delete_all(self)?;
///         Ok(())
///     }
///     fn get(&self, _: &ReadContext) -> Result<i64, Error> {
///         Ok(self.count)
///     }
///     fn migrate(ctx: &Context, from: u32) -> Result<(), Error> {
///         if from < 2 {
///             let old: Option<i64> = ctx.state().get("total")?;
///             ctx.state().set("count", &old.unwrap_or_default())?;
///             ctx.state().delete("total")?;
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
///   `idempotent`, `reentrant`, `private` (takes no call from outside of the
///   app's actors) and `atomic` (a call of it is in its caller's transaction, or
///   fails), then the name of an associated function, whose
///   form is that of [`Method`](crate::Method). One that takes `&self` and
///   [`&ReadContext`](crate::ReadContext) is read-only, said or not; to say
///   `read_only` of any other does not compile.
/// - **`placement`**: `any`, `ring` (the default), `sticky` or `stateless`, or a policy
///   in quotes: `"ring:2"`, `"static:a,b"`, `"checkout:32"`.
/// - **`co_locate`**: the group of types with whose actors the type's actors are on one
///   host, so that calls among them can be one transaction: `{ group: "orders" }` by the
///   whole ID, `{ group: "orders", separator: "/" }` by the part of the ID before the
///   first `/`, and with `parts: 2` by the first two.
/// - **`instance`**: `shared` or `dedicated`; **`pool`**: `user` (the default)
///   or `batch`.
/// - **`state_schema`**: the version of the state's form, 0 at first.
/// - **`migrate`**: the associated function that brings older state to this
///   schema. It is `fn migrate(ctx: &Context, from: u32) -> Result<(), Error>`,
///   and works on the keys, in the same commit as the method that follows. A
///   function outside of the type's `impl` does not compile:
///
///   ```compile_fail
///   # use greenroom::prelude::*;
///   # greenroom::record! { #[derive(Default)] pub struct Counter { count: i64 } }
///   # impl Counter { fn get(&self, _: &ReadContext) -> Result<i64, Error> { Ok(self.count) } }
///   fn migrate(ctx: &Context, from: u32) -> Result<(), Error> { Ok(()) }
///
///   greenroom::actors! {
///       Counter { methods: { "Get" => read_only get }, state_schema: 2, migrate: migrate }
///   }
///   # fn main() {}
///   ```
/// - **`reentrant`**: `true` makes all methods reentrant.
/// - **`hooks`**: the methods that the host runs when an actor begins, has been loaded, or
///   is about to leave its host, without input: any of `created`, `activated` and
///   `leaving`, as `{ created: "OnCreated" }`.
/// - **`messages`**: how long a message to an actor of the type is delivered, any of
///   `attempts`, `interval_ms`, `max_ms` and `age_ms`.
/// - **`events`**: what a host keeps of the events of an actor, any of `count`, `bytes` and
///   `age_ms`.
/// - **`spawn_only`**: `true`: an actor exists only once another one has spawned it.
/// - **`wait_outside_set`**: `true`: calls and messages wait whose method is not in the actor's
///   set, until a turn chooses a set that has it.
/// - **`service`**: the service of Protobuf that the type serves, as `{ walletv1::WalletService }`:
///   its rpcs are methods as well. `greenroom generate --lang rust` writes it, and the trait that
///   the struct implements for it.
/// - **`limits`**: any of `state_bytes`, `payload_bytes`, `mailbox` (calls that
///   wait), `turn_ms`, `memory_bytes`, `fuel` (what a turn computes, in units of
///   about one simple instruction; tests outside of a host do not count it) and
///   `idempotency_window_ms`. A host lowers what is above its own limit, and gives
///   its own for what is not said.
/// - **`capabilities`**: what the type uses beyond its own state, any of `http`,
///   `config` and `secrets`. A host for `http` is written `api.example.com`,
///   `*.example.com`, `*` for every host, `api.example.com:8443`, or
///   `http://api.example.com` for requests without TLS.
///
/// Sets of methods, between which [`become_`](crate::Context::become_) chooses, are for the
/// attribute `actor`.
///
/// The type's name is that of the struct: `shop::Counter { … }` is `Counter`, and
/// `Counter as "shop.Counter" { … }` is `shop.Counter`. Several entries follow one
/// another without a separator. A name that a host would refuse does not compile,
/// nor do two types of the same name.
#[macro_export]
macro_rules! actors {
    ($($($actor:ident)::+ $(as $name:literal)? { $($option:ident : $value:tt),+ $(,)? })+) => {
        $($crate::__actor! {
            ($($actor)::+), $crate::__name!($($actor)::+ $(as $name)?), $($option: $value),+
        })+
        $crate::module! { $($($actor)::+),+ }
    };
}

/// Makes the crate a module of actor types that are declared elsewhere, by the
/// attribute `actor` of the feature `macros`.
///
/// Use it once, at the root of a crate of type `cdylib`, as
/// `greenroom::module! { cart::Cart, order::Order }`. It makes what a host calls,
/// and `GREENROOM_MODULE`, which [`testing::Host::of`](crate::testing::Host::of)
/// takes. [`actors!`](crate::actors) does the same for the types in it.
#[macro_export]
macro_rules! module {
    ($($actor:path),+ $(,)?) => {
        /// The actor types of this module.
        pub static GREENROOM_MODULE: $crate::Module = {
            const TYPES: &[$crate::__private::Entry] = &[$({
                use $crate::__private::MayHideChanges as _;
                $crate::__private::Entry::of_module::<$actor>(<$crate::__private::Hides<$actor>>::CHANGES)
            }),+];
            $crate::Module::new(TYPES)
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
    ($first:ident :: $($rest:tt)+) => { $crate::__name!($($rest)+) };
    ($actor:ident) => {
        stringify!($actor)
    };
    ($actor:ident as $name:literal) => {
        $name
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __actor {
    (($actor:path), $name:expr, $($option:ident : $value:tt),+) => {
        impl $crate::Actor for $actor {
            const SPEC: $crate::__private::TypeSpec = {
                let mut spec = $crate::__private::TypeSpec::new($name, &[]);
                $($crate::__option! { spec, $actor, $option: $value })+
                spec.checked()
            };

            fn call(
                &mut self,
                ctx: &$crate::Context,
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
    ($spec:ident, $actor:path, placement: any) => { $spec.placement = $crate::__private::Placement::Any; };
    ($spec:ident, $actor:path, placement: ring) => { $spec.placement = $crate::__private::Placement::Ring; };
    ($spec:ident, $actor:path, placement: sticky) => { $spec.placement = $crate::__private::Placement::Sticky; };
    ($spec:ident, $actor:path, placement: stateless) => { $spec.placement = $crate::__private::Placement::Stateless; };
    ($spec:ident, $actor:path, placement: $policy:literal) => { $spec.placement = $crate::__private::Placement::Policy($policy); };
    ($spec:ident, $actor:path, placement: $other:tt) => {
        compile_error!("placement is one of: any, ring, sticky, stateless, or a policy in quotes, as \"ring:2\"");
    };
    ($spec:ident, $actor:path, instance: shared) => {
        $spec.instance = ::core::option::Option::Some($crate::__private::Instance::Shared);
    };
    ($spec:ident, $actor:path, instance: dedicated) => {
        $spec.instance = ::core::option::Option::Some($crate::__private::Instance::Dedicated);
    };
    ($spec:ident, $actor:path, instance: $other:tt) => {
        compile_error!("instance is one of: shared, dedicated");
    };
    ($spec:ident, $actor:path, pool: user) => { $spec.pool = $crate::__private::Pool::User; };
    ($spec:ident, $actor:path, pool: batch) => { $spec.pool = $crate::__private::Pool::Batch; };
    ($spec:ident, $actor:path, pool: $other:tt) => {
        compile_error!("pool is one of: user, batch");
    };
    ($spec:ident, $actor:path, state_schema: $schema:tt) => { $spec.state_schema = $schema; };
    ($spec:ident, $actor:path, migrate: $function:ident) => { $spec.migrate = true; };
    ($spec:ident, $actor:path, reentrant: $value:tt) => { $spec.reentrant = $value; };
    ($spec:ident, $actor:path, spawn_only: $value:tt) => { $spec.spawn_only = $value; };
    ($spec:ident, $actor:path, wait_outside_set: $value:tt) => { $spec.wait_outside_set = $value; };
    ($spec:ident, $actor:path, hooks: { $($hook:ident : $method:expr),* $(,)? }) => {
        $($spec.hooks.$hook = $method;)*
    };
    ($spec:ident, $actor:path, messages: { $($number:ident : $value:expr),* $(,)? }) => {
        $($spec.messages.$number = $value;)*
    };
    ($spec:ident, $actor:path, events: { $($number:ident : $value:expr),* $(,)? }) => {
        $($spec.events.$number = $value;)*
    };
    ($spec:ident, $actor:path, co_locate: { $($part:ident : $value:expr),* $(,)? }) => {
        $($spec.co_locate.$part = $value;)*
    };
    ($spec:ident, $actor:path, limits: { $($limit:ident : $value:expr),* $(,)? }) => {
        $($spec.limits.$limit = $value;)*
    };
    ($spec:ident, $actor:path, capabilities: { $($capability:ident : [ $($name:expr),+ $(,)? ]),* $(,)? }) => {
        $($spec.capabilities.$capability = &[$($name),+];)*
    };
    ($spec:ident, $actor:path, capabilities: $other:tt) => {
        compile_error!("capabilities are written as: { http: [\"api.example.com\"], config: [\"region\"], secrets: [\"key\"] }");
    };
    ($spec:ident, $actor:path, service: { $service:path }) => {
        $spec.protobuf = <$service as $crate::protobuf::Service<$actor>>::PROTOBUF;
    };
    ($spec:ident, $actor:path, service: $other:tt) => {
        compile_error!("a service is written as: { walletv1::WalletService }");
    };
    ($spec:ident, $actor:path, methods: { $($method:literal => $($word:ident)+),+ $(,)? }) => {
        const METHODS: &[$crate::__private::MethodSpec] =
            &[$($crate::__method!(checked; $crate::__private::MethodSpec::new($method); $($word)+; $actor)),+];
        $spec.methods = METHODS;
    };
    ($spec:ident, $actor:path, methods: { $($words:tt)+ }) => { $crate::__misspelt! { $($words)+ } };
    ($spec:ident, $actor:path, methods: $other:tt) => {
        compile_error!("methods are written as: { \"Add\" => add, \"Get\" => read_only get }");
    };
    ($spec:ident, $actor:path, $other:ident : $value:tt) => {
        compile_error!(concat!(
            "no option `", stringify!($other),
            "`; there are: methods, placement, co_locate, instance, pool, state_schema, migrate, reentrant, limits, capabilities, hooks, messages, events, spawn_only, wait_outside_set, service"
        ));
    };
}

/// Says what is wrong with a list of methods. It passes over those that are right.
#[doc(hidden)]
#[macro_export]
macro_rules! __misspelt {
    ($method:literal => $($word:ident)+, $($rest:tt)+) => { $crate::__misspelt! { $($rest)+ } };
    ($method:literal => in $($rest:tt)*) => {
        compile_error!(concat!(
            "`in` of ", stringify!($method), " is not known here; method sets need #[greenroom::actor]"
        ));
    };
    ($method:literal => $word:ident $($rest:tt)*) => { $crate::__misspelt! { $method => $($rest)* } };
    ($($wrong:tt)*) => {
        compile_error!("methods are written as: { \"Add\" => add, \"Get\" => read_only get }");
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __method {
    ($how:ident; $spec:expr; read_only $($rest:ident)+; $actor:path) => {
        $crate::__method!(checked_read_only; $spec; $($rest)+; $actor)
    };
    ($how:ident; $spec:expr; idempotent $($rest:ident)+; $actor:path) => {
        $crate::__method!($how; $spec.idempotent(); $($rest)+; $actor)
    };
    ($how:ident; $spec:expr; reentrant $($rest:ident)+; $actor:path) => {
        $crate::__method!($how; $spec.reentrant(); $($rest)+; $actor)
    };
    ($how:ident; $spec:expr; private $($rest:ident)+; $actor:path) => {
        $crate::__method!($how; $spec.private(); $($rest)+; $actor)
    };
    ($how:ident; $spec:expr; atomic $($rest:ident)+; $actor:path) => {
        $crate::__method!($how; $spec.atomic(); $($rest)+; $actor)
    };
    ($how:ident; $spec:expr; $function:ident; $actor:path) => {{
        // Variables of that name, so that complaints point at the name in the list.
        let $function = <$actor>::$function;
        let $function = $crate::__private::$how($crate::__private::of_type::<$actor>(), $function);
        $crate::__private::described(&$function, $spec)
    }};
    ($how:ident; $spec:expr; $other:ident $($rest:ident)+; $actor:path) => {
        compile_error!(concat!(
            "`", stringify!($other), "` is none of: read_only, idempotent, reentrant, private, atomic"
        ))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __call {
    (methods: { $($method:literal => $($word:ident)+),+ $(,)? };
     $actor:path, $self:ident, $ctx:ident, $name:ident, $content_type:ident, $payload:ident) => {
        match $name {
            $($method => {
                return ::core::option::Option::Some($crate::__run!(
                    checked; $($word)+; $actor, $self, $ctx, $content_type, $payload
                ));
            })+
            _ => {}
        }
    };
    (service: { $service:path };
     $actor:path, $self:ident, $ctx:ident, $name:ident, $content_type:ident, $payload:ident) => {
        if let ::core::option::Option::Some(reply) =
            <$service as $crate::protobuf::Service<$actor>>::call($crate::protobuf::Rpc {
                actor: $self,
                ctx: $ctx,
                method: $name,
                content_type: $content_type,
                payload: $payload,
            })
        {
            return ::core::option::Option::Some(reply);
        }
    };
    ($($other_option:tt)*) => {};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __run {
    ($how:ident; read_only $($rest:ident)+; $($to:tt)+) => {
        $crate::__run!(checked_read_only; $($rest)+; $($to)+)
    };
    ($how:ident; idempotent $($rest:ident)+; $($to:tt)+) => { $crate::__run!($how; $($rest)+; $($to)+) };
    ($how:ident; reentrant $($rest:ident)+; $($to:tt)+) => { $crate::__run!($how; $($rest)+; $($to)+) };
    ($how:ident; private $($rest:ident)+; $($to:tt)+) => { $crate::__run!($how; $($rest)+; $($to)+) };
    ($how:ident; atomic $($rest:ident)+; $($to:tt)+) => { $crate::__run!($how; $($rest)+; $($to)+) };
    ($how:ident; $function:ident; $actor:path, $self:ident, $ctx:ident, $content_type:ident, $payload:ident) => {{
        let $function = <$actor>::$function;
        let $function = $crate::__private::$how($crate::__private::of_type::<$actor>(), $function);
        $crate::__private::run($function, $self, $ctx, $content_type, $payload)
    }};
    ($($wrong:tt)*) => { ::core::unreachable!() }; // __method! has said what is wrong
}

#[doc(hidden)]
#[macro_export]
macro_rules! __migrate {
    (migrate: $function:ident; $actor:path) => {
        fn migrate_state(
            ctx: &$crate::Context,
            from: u32,
        ) -> ::core::result::Result<(), $crate::Error> {
            <$actor>::$function(ctx, from)
        }
    };
    ($($other_option:tt)*) => {};
}

/// Returns an error from the function unless a condition holds.
///
/// ```
/// use greenroom::prelude::*;
///
/// fn check(amount: i64) -> Result<(), Error> {
///     ensure!(
///         amount > 0,
///         Error::invalid_argument("bad_amount", format!("amount is {amount}; give one above zero"))
///     );
///     Ok(())
/// }
/// assert_eq!(check(0).unwrap_err().code(), "bad_amount");
/// ```
///
/// The error is made only when it is needed, and converted as by `?`.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $error:expr $(,)?) => {
        if !$condition {
            return ::core::result::Result::Err(::core::convert::From::from($error));
        }
    };
}

/// As the standard `println!`, but into the actor's log, at [`Level::Info`](crate::Level).
///
/// The standard one writes to a standard output that a guest does not have: the line
/// is lost. With `use greenroom::{eprintln, println};` the same words write to the log.
/// In a test they are the standard ones.
#[macro_export]
macro_rules! println {
    () => { $crate::__private::print($crate::Level::Info, ::core::format_args!("")) };
    ($($text:tt)*) => { $crate::__private::print($crate::Level::Info, ::core::format_args!($($text)*)) };
}

/// As the standard `eprintln!`, but into the actor's log, at [`Level::Warn`](crate::Level):
/// see [`println!`](crate::println).
#[macro_export]
macro_rules! eprintln {
    () => { $crate::__private::print($crate::Level::Warn, ::core::format_args!("")) };
    ($($text:tt)*) => { $crate::__private::print($crate::Level::Warn, ::core::format_args!($($text)*)) };
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
/// ignored. With the feature `serde` on, which any crate of a build may turn on for
/// all of them, a record implements serde's `Serialize` and `Deserialize` and means
/// the same.
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

        $crate::__record! { $name { $($field),* } }
    )+};
}

#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __record {
    ($name:ident { $($field:ident),* }) => {
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
    };
}

#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! __record {
    ($name:ident { $($field:ident),* }) => {
        const _: () = {
            use $crate::__private::serde;

            impl serde::Serialize for $name {
                fn serialize<S: serde::Serializer>(
                    &self,
                    serializer: S,
                ) -> ::core::result::Result<S::Ok, S::Error> {
                    #[allow(unused_mut)]
                    let mut map = serde::Serializer::serialize_map(serializer, ::core::option::Option::None)?;
                    $(serde::ser::SerializeMap::serialize_entry(
                        &mut map,
                        $crate::__private::member(stringify!($field)),
                        &self.$field,
                    )?;)*
                    serde::ser::SerializeMap::end(map)
                }
            }

            struct Visitor;

            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = $name;

                fn expecting(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    f.write_str(concat!("an object: the fields of ", stringify!($name)))
                }

                #[allow(unused_mut)]
                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> ::core::result::Result<$name, A::Error> {
                    let mut record = <$name as ::core::default::Default>::default();
                    while let ::core::option::Option::Some(name) =
                        serde::de::MapAccess::next_key::<::std::string::String>(&mut map)?
                    {
                        match name.as_str() {
                            $(
                                field if field == $crate::__private::member(stringify!($field)) => {
                                    record.$field = serde::de::MapAccess::next_value(&mut map)
                                        .map_err(|e| $crate::__private::in_field(field, &e))?;
                                }
                            )*
                            _ => {
                                serde::de::MapAccess::next_value::<serde::de::IgnoredAny>(&mut map)?;
                            }
                        }
                    }
                    ::core::result::Result::Ok(record)
                }
            }

            impl<'de> serde::Deserialize<'de> for $name {
                fn deserialize<D: serde::Deserializer<'de>>(
                    deserializer: D,
                ) -> ::core::result::Result<$name, D::Error> {
                    serde::Deserializer::deserialize_map(deserializer, Visitor)
                }
            }
        };
    };
}

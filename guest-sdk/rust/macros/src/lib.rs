//! The attribute `#[greenroom::actor]`, which the crate `greenroom` has with its
//! feature `macros` and documents.

#![warn(rust_2018_idioms, unreachable_pub)]

mod expand;
mod method;
mod options;

use proc_macro::TokenStream;

/// Makes the methods of an `impl` block those of an actor type.
///
/// Every function in the block that takes `self` is a method that callers know by
/// its name in PascalCase: `add_line` is `AddLine`. What it may do is said by its
/// types, as `greenroom::Method` lists them. Functions that are none go into an
/// `impl` block of their own; those without `self` are left alone.
///
/// ```ignore
/// use greenroom::prelude::*;
///
/// #[derive(Default, Serialize, Deserialize)]
/// pub struct Cart {
///     lines: BTreeMap<String, u32>,
/// }
///
/// #[greenroom::actor(state_schema = 1, limits(state_bytes = 64 << 10))]
/// impl Cart {
///     fn add(&mut self, ctx: &Context, line: Line) -> Result<u32, Error> { … }
///
///     #[method(idempotent)]
///     fn remove(&mut self, ctx: &Context, item: String) -> Result<(), Error> { … }
///
///     fn view(&self, ctx: &ReadContext) -> Result<Contents, Error> { … }
///
///     #[migrate]
///     fn migrate(ctx: &Context, from: u32) -> Result<(), Error> { … }
/// }
///
/// greenroom::module! { Cart }
/// ```
///
/// # Options of the type
///
/// - `name = "shop.Cart"`: another name than the struct's.
/// - `reference = pub CartRef`: makes a struct `CartRef` of that visibility, whose
///   functions are calls of the methods with their types:
///   `CartRef::new("bob").add(line).call(ctx, self)?`. The arguments convert to JSON
///   and the answers from it.
/// - `service = walletv1::WalletService`: the service of Protobuf that the type serves, which
///   `greenroom generate --lang rust` writes with the trait that the struct implements for it.
///   The attribute may stand over that implementation, or over an `impl` block with methods that
///   have no rpc.
/// - `placement = any`, `ring` (the default), `sticky` or `stateless`, or a policy in
///   quotes: `"ring:2"`, `"static:a,b"`, `"checkout:32"`.
/// - `co_locate(group = "orders", separator = "/", parts = 2)`: the group of types with
///   whose actors the type's actors are on one host.
/// - `instance = shared` or `dedicated`; `pool = user` (the default) or `batch`.
/// - `state_schema = 1`: the version of the state's form, 0 at first.
/// - `reentrant`: all methods of the type are reentrant.
/// - `hooks(created = "OnCreated", activated = "OnActivated", leaving = "OnLeaving")`: methods
///   that the host runs at points of an actor's life, without input.
/// - `messages(attempts = 5, age_ms = 60_000)`: how long a message to an actor of the type is
///   delivered; any of `attempts`, `interval_ms`, `max_ms` and `age_ms`.
/// - `events(count = 100)`: what a host keeps of the events of an actor; any of `count`,
///   `bytes` and `age_ms`.
/// - `spawn_only`: an actor exists only once another one has spawned it.
/// - `wait_outside_set`: calls and messages wait whose method is not in the actor's set, until a
///   turn chooses a set that has it.
/// - `limits(state_bytes = 64 << 10, turn_ms = 500)`: any of `state_bytes`,
///   `payload_bytes`, `mailbox`, `turn_ms`, `memory_bytes`, `fuel` and
///   `idempotency_window_ms`.
/// - `capabilities(http = ["api.example.com"], config = ["region"], secrets = ["key"])`.
///
/// They mean what they mean in `greenroom::actors!`, which does the same without a
/// procedural macro.
///
/// # Options of a method
///
/// `#[method(…)]` takes `name = "Add"`, `idempotent`, `reentrant`, `private` (takes no call
/// from outside of the app's actors), `atomic` (a call of it is in its caller's
/// transaction, or fails), `in = "open"`, once or more often (the sets of methods that it is
/// in, between which `Context::become_` chooses), and `read_only`, which is known by the types and may be said to
/// have it checked.
///
/// `#[migrate]` is over the function that brings state of an older `state_schema` to
/// this one: `fn(ctx: &Context, from: u32) -> Result<(), Error>`.
#[proc_macro_attribute]
pub fn actor(options: TokenStream, block: TokenStream) -> TokenStream {
    expand::actor(options.into(), block.into()).into()
}

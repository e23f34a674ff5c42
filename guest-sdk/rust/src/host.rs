//! What an actor can ask of its host: `abi/SPEC.md` section 5, as a trait, so
//! that the same turn runs in Wasm and in the test kit.

#[cfg(not(target_arch = "wasm32"))]
use crate::convert::Payload;
use crate::error::{Error, Status};

/// How a value of the state is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Opaque bytes.
    Bytes,
    /// One JSON text.
    Json,
}

/// A negative result of a host function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i32);

impl Code {
    pub(crate) const NOT_FOUND: Code = Code(-1);
    pub(crate) const INVALID: Code = Code(-2);
    pub(crate) const READ_ONLY: Code = Code(-3);
    pub(crate) const TOO_LARGE: Code = Code(-4);
    pub(crate) const NO_STATE: Code = Code(-5);
    pub(crate) const NO_TURN: Code = Code(-6);
    pub(crate) const DENIED: Code = Code(-7);
    pub(crate) const NOT_READY: Code = Code(-8);
    pub(crate) const TOO_MANY: Code = Code(-9);
    pub(crate) const TAKEN: Code = Code(-10);
    pub(crate) const FULL: Code = Code(-11);
    pub(crate) const OVER: Code = Code(-12);

    /// The error that a method gets. `doing` says what was refused.
    pub(crate) fn error(self, doing: &str) -> Error {
        let (status, code, why) = match self {
            Code::NOT_FOUND => (Status::NotFound, "not_found", "there is no such key"),
            Code::INVALID => (
                Status::InvalidArgument,
                "invalid_key",
                "a state key must have 1 to 512 bytes of UTF-8",
            ),
            Code::READ_ONLY => (
                Status::FailedPrecondition,
                "read_only",
                "a read-only method may not change anything",
            ),
            Code::TOO_LARGE => (
                Status::ResourceExhausted,
                "too_large",
                "it is above the host's limit",
            ),
            Code::NO_STATE => (
                Status::FailedPrecondition,
                "no_state",
                "a stateless type has no state",
            ),
            Code::OVER => (
                Status::FailedPrecondition,
                "life_over",
                "the turn has ended its actor's life",
            ),
            Code::NO_TURN => (Status::Internal, "no_turn", "no turn is running"),
            Code(n) => {
                return Error::new(
                    Status::Internal,
                    "host_error",
                    format!("{doing}: the host answered {n}"),
                )
            }
        };
        Error::new(status, code, format!("{doing}: {why}"))
    }
}

/// The host's functions. A turn uses them from one thread.
pub(crate) trait Host {
    fn state_get(&self, key: &str) -> Result<(Format, Vec<u8>), Code>;
    fn state_set(&self, key: &str, value: &[u8], format: Format) -> Result<(), Code>;
    /// Whether it was there.
    fn state_delete(&self, key: &str) -> Result<bool, Code>;
    /// How many there were.
    fn state_delete_all(&self) -> Result<u32, Code>;
    /// An encoded key list.
    fn state_keys(&self, prefix: &str) -> Result<Vec<u8>, Code>;
    /// Makes `buf` the object of the keys with JSON values.
    fn state_json(&self, buf: &mut Vec<u8>) -> Result<(), Code>;
    /// How many keys changed.
    fn state_patch(&self, before: &[u8], after: &[u8]) -> Result<u32, Code>;
    fn state_version(&self) -> u64;
    fn state_revision(&self) -> u64;
    fn reply(&self, content_type: &str, body: &[u8]) -> Result<(), Code>;
    fn fail(&self, frame: &[u8]) -> Result<(), Code>;
    // In Wasm these are not part of it: see `direct`.
    #[cfg(not(target_arch = "wasm32"))]
    fn config_get(&self, name: &str) -> Result<Vec<u8>, Code>;
    #[cfg(not(target_arch = "wasm32"))]
    fn secret_get(&self, name: &str) -> Result<Vec<u8>, Code>;
    /// Takes a request frame, and gives the response frame.
    #[cfg(not(target_arch = "wasm32"))]
    fn http(&self, frame: &[u8]) -> Result<Vec<u8>, Code>;
    #[cfg(not(target_arch = "wasm32"))]
    fn reminder_set(&self, frame: &[u8]) -> Result<(), Code>;
    #[cfg(not(target_arch = "wasm32"))]
    fn reminder_cancel(&self, name: &str) -> Result<(), Code>;
    /// A reminder frame.
    #[cfg(not(target_arch = "wasm32"))]
    fn reminder_get(&self, name: &str) -> Result<Vec<u8>, Code>;
    /// An encoded key list.
    #[cfg(not(target_arch = "wasm32"))]
    fn reminder_names(&self, prefix: &str) -> Result<Vec<u8>, Code>;
    /// Whether it replaces one.
    #[cfg(not(target_arch = "wasm32"))]
    fn timer_set(&self, frame: &[u8]) -> Result<bool, Code>;
    /// Whether it was there.
    #[cfg(not(target_arch = "wasm32"))]
    fn timer_cancel(&self, name: &str) -> Result<bool, Code>;
    /// Takes a message frame, and gives the result frame.
    #[cfg(not(target_arch = "wasm32"))]
    fn call(&self, frame: &[u8]) -> Result<Vec<u8>, Code>;
    /// Takes a message frame.
    #[cfg(not(target_arch = "wasm32"))]
    fn send(&self, frame: &[u8]) -> Result<(), Code>;
    /// The ID of a new actor.
    #[cfg(not(target_arch = "wasm32"))]
    fn spawn(&self, actor_type: &str) -> Result<String, Code>;
    /// The ID of a new volatile child: its type, and flags.
    #[cfg(not(target_arch = "wasm32"))]
    fn spawn_child(&self, child: (&str, u32)) -> Result<String, Code>;
    #[cfg(not(target_arch = "wasm32"))]
    fn become_(&self, set: &str) -> Result<(), Code>;
    #[cfg(not(target_arch = "wasm32"))]
    fn pass_away(&self) -> Result<(), Code>;
    #[cfg(not(target_arch = "wasm32"))]
    fn service_claim(&self, name: &str) -> Result<(), Code>;
    /// Whether the actor stood for it.
    #[cfg(not(target_arch = "wasm32"))]
    fn service_release(&self, name: &str) -> Result<bool, Code>;
    /// Publishes an event: its name, and its payload.
    #[cfg(not(target_arch = "wasm32"))]
    fn publish(&self, event: (&str, &Payload)) -> Result<(), Code>;
    /// Subscribes to the events of an actor, type and ID, with a method.
    #[cfg(not(target_arch = "wasm32"))]
    fn event_subscribe(&self, subscription: (&str, &str, &str)) -> Result<(), Code>;
    /// Whether there was a subscription.
    #[cfg(not(target_arch = "wasm32"))]
    fn event_unsubscribe(&self, publisher: (&str, &str)) -> Result<bool, Code>;
    /// Watches the host of an actor, type and ID, with a method, or ends that; whether there was
    /// a watch.
    #[cfg(not(target_arch = "wasm32"))]
    fn host_watch(&self, watch: (&str, &str, &str)) -> Result<bool, Code>;
    /// Watches services, a name, with a method, or ends that; whether there was a watch.
    #[cfg(not(target_arch = "wasm32"))]
    fn service_watch(&self, watch: (&str, &str)) -> Result<bool, Code>;
    /// Why the last function with a problem was refused.
    #[cfg(not(target_arch = "wasm32"))]
    fn problem(&self) -> String;
    fn random(&self, buf: &mut [u8]);
    fn log(&self, level: i32, text: &str);
}

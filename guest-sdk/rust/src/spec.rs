//! What a module says of itself: `abi/SPEC.md` section 3.
//!
//! [`actors!`](crate::actors) writes these values; you need them only to look
//! at a type's declaration.

use crate::json;

/// Which host runs an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Any host, each turn under a lock; nothing is kept warm.
    Any,
    /// The host that consistent hashing names; warm, dropped when idle.
    Ring,
    /// One host for as long as it lives.
    Sticky,
    /// Any host, and there is no state.
    Stateless,
    /// A policy as the server writes it: `ring:N`, `static:a,b,c`, `checkout:N`.
    Policy(&'static str),
}

/// Which other actors the actors of a type are on one host with: those of the types of
/// a group whose group keys are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoLocate {
    /// The group; empty without one.
    pub group: &'static str,
    /// The text between the parts of an ID, whose first parts are the group key. Empty:
    /// the key is the whole ID.
    pub separator: &'static str,
    /// How many parts the key has; 0 means 1.
    pub parts: u32,
}

impl CoLocate {
    /// Without a group.
    pub const NONE: CoLocate = CoLocate {
        group: "",
        separator: "",
        parts: 0,
    };
}

/// Methods that the host runs at points of an actor's life, without input; empty: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hooks {
    /// Before the actor's first turn, in the same commit.
    pub created: &'static str,
    /// When the actor has been loaded, before its next turn.
    pub activated: &'static str,
    /// When the actor's host is about to give it to another one, or to stop.
    pub leaving: &'static str,
}

impl Hooks {
    /// None.
    pub const NONE: Hooks = Hooks {
        created: "",
        activated: "",
        leaving: "",
    };
}

/// How long a host tries to deliver a message to an actor of the type. 0 means the host's
/// default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePolicy {
    /// How often it is delivered.
    pub attempts: u64,
    /// Milliseconds after the first failure until it is delivered again; each time twice as
    /// many.
    pub interval_ms: u64,
    /// The most milliseconds between two deliveries.
    pub max_ms: u64,
    /// Milliseconds after which a message counts as undelivered.
    pub age_ms: u64,
}

impl MessagePolicy {
    /// The host's defaults.
    pub const NONE: MessagePolicy = MessagePolicy {
        attempts: 0,
        interval_ms: 0,
        max_ms: 0,
        age_ms: 0,
    };
}

/// What a host keeps of the events of an actor of the type. 0 means the host's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPolicy {
    /// How many events, at most 10000.
    pub count: u64,
    /// Bytes that their names and payloads take together.
    pub bytes: u64,
    /// Milliseconds after which an event is removed.
    pub age_ms: u64,
}

impl EventPolicy {
    /// The host's defaults.
    pub const NONE: EventPolicy = EventPolicy {
        count: 0,
        bytes: 0,
        age_ms: 0,
    };
}

/// The service of Protobuf that a type serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protobuf {
    /// The service's full name; empty without one.
    pub service: &'static str,
    /// A `FileDescriptorSet` in base64: the file of the service, behind those that it imports.
    pub descriptor: &'static str,
    /// The field of every request that has the actor's ID; empty without one.
    pub id_field: &'static str,
    /// The methods of the type that are the service's rpcs.
    pub rpcs: &'static [MethodSpec],
}

impl Protobuf {
    /// Without a service.
    pub const NONE: Protobuf = Protobuf {
        service: "",
        descriptor: "",
        id_field: "",
        rpcs: &[],
    };
}

/// Whether an actor has an instance of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instance {
    /// Any instance of the pool serves any actor of the type.
    Shared,
    /// A warm instance stays with the actor while it is active.
    Dedicated,
}

/// Which executor pool runs the turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// For turns that somebody waits for.
    User,
    /// For long work that must not hold up the others.
    Batch,
}

/// The declaration of one actor type.
#[derive(Clone, Copy, Debug)]
pub struct TypeSpec {
    /// Its name.
    pub name: &'static str,
    /// Which host runs its actors.
    pub placement: Placement,
    /// Which other actors they are on one host with.
    pub co_locate: CoLocate,
    /// `None`: shared, for sticky types dedicated.
    pub instance: Option<Instance>,
    /// Which executor pool runs its turns.
    pub pool: Pool,
    /// The version of the state's form.
    pub state_schema: u32,
    /// Whether it migrates older state.
    pub migrate: bool,
    /// Whether all its methods are reentrant.
    pub reentrant: bool,
    /// Its methods, without those that are rpcs of `protobuf`.
    pub methods: &'static [MethodSpec],
    /// Its own limits.
    pub limits: Limits,
    /// What it uses beyond its own state.
    pub capabilities: Capabilities,
    /// What runs at points of its actors' lives.
    pub hooks: Hooks,
    /// What becomes of messages to its actors.
    pub messages: MessagePolicy,
    /// What is kept of its actors' events.
    pub events: EventPolicy,
    /// Whether its actors exist only once another one has spawned them.
    pub spawn_only: bool,
    /// Whether calls and messages of methods outside an actor's set wait.
    pub wait_outside_set: bool,
    /// The service that it serves, with further methods.
    pub protobuf: Protobuf,
}

impl TypeSpec {
    /// A `ring` type with the defaults of everything.
    #[must_use]
    pub const fn new(name: &'static str, methods: &'static [MethodSpec]) -> TypeSpec {
        TypeSpec {
            name,
            placement: Placement::Ring,
            co_locate: CoLocate::NONE,
            instance: None,
            pool: Pool::User,
            state_schema: 0,
            migrate: false,
            reentrant: false,
            methods,
            limits: Limits::NONE,
            capabilities: Capabilities::NONE,
            hooks: Hooks::NONE,
            messages: MessagePolicy::NONE,
            events: EventPolicy::NONE,
            spawn_only: false,
            wait_outside_set: false,
            protobuf: Protobuf::NONE,
        }
    }

    /// All methods: the rpcs of the service, and the others.
    pub fn all_methods(&self) -> impl Iterator<Item = &'static MethodSpec> {
        self.protobuf.rpcs.iter().chain(self.methods)
    }

    /// The method with this name.
    #[must_use]
    pub fn method(&self, name: &str) -> Option<&'static MethodSpec> {
        self.all_methods().find(|m| m.name == name)
    }

    /// How many methods `all_methods` has, and the one of an index, for constants.
    const fn count(&self) -> usize {
        self.protobuf.rpcs.len() + self.methods.len()
    }

    const fn at(&self, i: usize) -> &'static MethodSpec {
        let rpcs = self.protobuf.rpcs.len();
        if i < rpcs {
            &self.protobuf.rpcs[i]
        } else {
            &self.methods[i - rpcs]
        }
    }

    /// Stops the compilation if a host would refuse the names.
    #[doc(hidden)]
    #[must_use]
    pub const fn checked(self) -> TypeSpec {
        assert!(
            valid_name(self.name),
            "an actor type's name must be 1 to 64 of A-Z a-z 0-9 . _ -"
        );
        assert!(
            self.count() > 0 && self.count() <= 256,
            "an actor type must have 1 to 256 methods"
        );
        let mut i = 0;
        while i < self.count() {
            assert!(
                valid_name(self.at(i).name),
                "a method's name must be 1 to 64 of A-Z a-z 0-9 . _ -"
            );
            let sets = self.at(i).sets;
            let mut k = 0;
            while k < sets.len() {
                assert!(
                    valid_name(sets[k]),
                    "the name of a set of methods must be 1 to 64 of A-Z a-z 0-9 . _ -"
                );
                k += 1;
            }
            let mut k = 0;
            while k < i {
                assert!(
                    !same(self.at(i).name, self.at(k).name),
                    "two methods of an actor type have the same name"
                );
                k += 1;
            }
            i += 1;
        }
        self.check_hook(self.hooks.created);
        self.check_hook(self.hooks.activated);
        self.check_hook(self.hooks.leaving);
        self
    }

    const fn check_hook(&self, hook: &str) {
        let mut found = hook.is_empty();
        let mut i = 0;
        while i < self.count() {
            if same(self.at(i).name, hook) {
                assert!(!self.at(i).read_only, "a hook is not read-only");
                found = true;
            }
            i += 1;
        }
        assert!(found, "a hook names a method of the type");
    }
}

const fn valid_name(name: &str) -> bool {
    let name = name.as_bytes();
    let mut i = 0;
    while i < name.len() {
        if !matches!(name[i], b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-') {
            return false;
        }
        i += 1;
    }
    !name.is_empty() && name.len() <= 64
}

pub(crate) const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// The declaration of one method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodSpec {
    /// Its name.
    pub name: &'static str,
    /// It never changes anything, and may run beside other turns.
    pub read_only: bool,
    /// Running it twice is as good as once.
    pub idempotent: bool,
    /// It may be entered while a turn of its own chain is open.
    pub reentrant: bool,
    /// Only actors of the app call it, and reminders and timers of the actor itself.
    pub private: bool,
    /// Calls of it are in their callers' transactions, or fail.
    pub atomic: bool,
    /// The sets of methods that it is in; none: all of them.
    pub sets: &'static [&'static str],
}

impl MethodSpec {
    /// A method that may change things.
    #[must_use]
    pub const fn new(name: &'static str) -> MethodSpec {
        MethodSpec {
            name,
            read_only: false,
            idempotent: false,
            reentrant: false,
            private: false,
            atomic: false,
            sets: &[],
        }
    }

    #[doc(hidden)]
    #[must_use]
    pub const fn read_only(mut self) -> MethodSpec {
        self.read_only = true;
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub const fn idempotent(mut self) -> MethodSpec {
        self.idempotent = true;
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub const fn reentrant(mut self) -> MethodSpec {
        self.reentrant = true;
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub const fn private(mut self) -> MethodSpec {
        self.private = true;
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub const fn atomic(mut self) -> MethodSpec {
        self.atomic = true;
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub const fn in_sets(mut self, sets: &'static [&'static str]) -> MethodSpec {
        self.sets = sets;
        self
    }
}

/// A type's own limits. 0 means the host's default; a host lowers what is above
/// its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one actor's state, encoded.
    pub state_bytes: u64,
    /// Bytes of a payload or a reply.
    pub payload_bytes: u64,
    /// Calls that wait for one actor.
    pub mailbox: u64,
    /// Milliseconds that a turn may take.
    pub turn_ms: u64,
    /// Bytes of an instance's memory.
    pub memory_bytes: u64,
    /// What a turn may compute, in units of about one simple instruction. It is the
    /// same on every machine, as time is not. Tests outside of a host do not count it.
    pub fuel: u64,
    /// Milliseconds for which a call with an idempotency key is remembered: until
    /// then, the same call with the same key gets the same reply and has no further
    /// effect.
    pub idempotency_window_ms: u64,
}

impl Limits {
    /// The host's defaults.
    pub const NONE: Limits = Limits {
        state_bytes: 0,
        payload_bytes: 0,
        mailbox: 0,
        turn_ms: 0,
        memory_bytes: 0,
        fuel: 0,
        idempotency_window_ms: 0,
    };
}

/// What a type uses beyond its own state. Whoever runs the app grants it or not;
/// what is not declared here the type cannot use at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Hosts that it sends requests to: `api.example.com`, `*.example.com`, `*` for
    /// every host; `api.example.com:8443`, and `http://api.example.com` for requests
    /// without TLS.
    pub http: &'static [&'static str],
    /// Names of the app's configuration values that it reads.
    pub config: &'static [&'static str],
    /// Names of the app's secrets that it reads.
    pub secrets: &'static [&'static str],
}

impl Capabilities {
    /// Nothing.
    pub const NONE: Capabilities = Capabilities {
        http: &[],
        config: &[],
        secrets: &[],
    };
}

/// The manifest of a module with these types.
pub fn manifest(types: &[TypeSpec]) -> String {
    let mut out = format!(
        "{{\"abi\":{},\"sdk\":\"greenroom-rust/{}\",\"types\":[",
        crate::codec::VERSION,
        env!("CARGO_PKG_VERSION")
    );
    separated(&mut out, types, write_type);
    out.push_str("]}");
    out
}

fn separated<'a, T: 'a>(
    out: &mut String,
    items: impl IntoIterator<Item = &'a T>,
    write: fn(&mut String, &T),
) {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(out, item);
    }
}

fn write_name(out: &mut String, name: &str) {
    let mut text = Vec::new();
    json::write_string(&mut text, name);
    out.push_str("{\"name\":");
    out.push_str(&String::from_utf8_lossy(&text));
}

fn write_type(out: &mut String, spec: &TypeSpec) {
    write_name(out, spec.name);
    out.push_str(",\"placement\":");
    let mut policy = Vec::new();
    let name = match spec.placement {
        Placement::Any => "any",
        Placement::Ring => "ring",
        Placement::Sticky => "sticky",
        Placement::Stateless => "stateless",
        Placement::Policy(policy) => policy,
    };
    json::write_string(&mut policy, name);
    out.push_str(&String::from_utf8_lossy(&policy));
    write_co_locate(out, &spec.co_locate);
    match spec.instance {
        Some(Instance::Shared) => out.push_str(",\"instance\":\"shared\""),
        Some(Instance::Dedicated) => out.push_str(",\"instance\":\"dedicated\""),
        None => {}
    }
    if spec.pool == Pool::Batch {
        out.push_str(",\"pool\":\"batch\"");
    }
    if spec.state_schema > 0 {
        out.push_str(&format!(",\"state_schema\":{}", spec.state_schema));
    }
    if spec.migrate {
        out.push_str(",\"migrate\":true");
    }
    if spec.reentrant {
        out.push_str(",\"reentrant\":true");
    }
    out.push_str(",\"methods\":[");
    separated(out, spec.all_methods(), write_method);
    out.push(']');
    write_limits(out, &spec.limits);
    write_capabilities(out, &spec.capabilities);
    write_hooks(out, &spec.hooks);
    write_messages(out, &spec.messages);
    write_events(out, &spec.events);
    if spec.spawn_only {
        out.push_str(",\"spawn\":\"only\"");
    }
    if spec.wait_outside_set {
        out.push_str(",\"outside_set\":\"wait\"");
    }
    write_protobuf(out, &spec.protobuf);
    out.push('}');
}

fn write_protobuf(out: &mut String, protobuf: &Protobuf) {
    if protobuf.service.is_empty() {
        return;
    }
    // Names of Protobuf, and base64: nothing of it needs an escape.
    out.push_str(&format!(
        ",\"protobuf\":{{\"service\":\"{}\",\"descriptor\":\"{}\"",
        protobuf.service, protobuf.descriptor
    ));
    if !protobuf.id_field.is_empty() {
        out.push_str(&format!(",\"id_field\":\"{}\"", protobuf.id_field));
    }
    out.push('}');
}

fn write_co_locate(out: &mut String, with: &CoLocate) {
    if *with == CoLocate::NONE {
        return;
    }
    let mut text = b",\"co_locate\":{\"group\":".to_vec();
    json::write_string(&mut text, with.group);
    if !with.separator.is_empty() {
        text.extend_from_slice(b",\"separator\":");
        json::write_string(&mut text, with.separator);
    }
    out.push_str(&String::from_utf8_lossy(&text));
    if with.parts > 0 {
        out.push_str(&format!(",\"parts\":{}", with.parts));
    }
    out.push('}');
}

fn write_method(out: &mut String, method: &MethodSpec) {
    write_name(out, method.name);
    for (is, member) in [
        (method.read_only, ",\"read_only\":true"),
        (method.idempotent, ",\"idempotent\":true"),
        (method.reentrant, ",\"reentrant\":true"),
        (method.private, ",\"private\":true"),
        (method.atomic, ",\"atomic\":\"required\""),
    ] {
        if is {
            out.push_str(member);
        }
    }
    if !method.sets.is_empty() {
        out.push_str(",\"sets\":");
        write_texts(out, method.sets);
    }
    out.push('}');
}

fn write_texts(out: &mut String, texts: &[&str]) {
    out.push('[');
    separated(out, texts, |out, item| {
        let mut text = Vec::new();
        json::write_string(&mut text, item);
        out.push_str(&String::from_utf8_lossy(&text));
    });
    out.push(']');
}

fn write_hooks(out: &mut String, hooks: &Hooks) {
    let mut sep = ",\"hooks\":{";
    for (name, method) in [
        ("created", hooks.created),
        ("activated", hooks.activated),
        ("leaving", hooks.leaving),
    ] {
        if !method.is_empty() {
            out.push_str(&format!("{sep}\"{name}\":\"{method}\"")); // a method's name
            sep = ",";
        }
    }
    if sep == "," {
        out.push('}');
    }
}

fn write_numbers(out: &mut String, member: &str, numbers: &[(&str, u64)]) {
    let mut sep = format!(",\"{member}\":{{");
    for (name, value) in numbers {
        if *value > 0 {
            out.push_str(&format!("{sep}\"{name}\":{value}"));
            sep = ",".to_string();
        }
    }
    if sep == "," {
        out.push('}');
    }
}

fn write_limits(out: &mut String, limits: &Limits) {
    let numbers = [
        ("state_bytes", limits.state_bytes),
        ("payload_bytes", limits.payload_bytes),
        ("mailbox", limits.mailbox),
        ("turn_ms", limits.turn_ms),
        ("memory_bytes", limits.memory_bytes),
        ("fuel", limits.fuel),
        ("idempotency_window_ms", limits.idempotency_window_ms),
    ];
    write_numbers(out, "limits", &numbers);
}

fn write_messages(out: &mut String, policy: &MessagePolicy) {
    let numbers = [
        ("attempts", policy.attempts),
        ("interval_ms", policy.interval_ms),
        ("max_ms", policy.max_ms),
        ("age_ms", policy.age_ms),
    ];
    write_numbers(out, "messages", &numbers);
}

fn write_events(out: &mut String, policy: &EventPolicy) {
    let numbers = [
        ("count", policy.count),
        ("bytes", policy.bytes),
        ("age_ms", policy.age_ms),
    ];
    write_numbers(out, "events", &numbers);
}

fn write_capabilities(out: &mut String, uses: &Capabilities) {
    let mut sep = ",\"capabilities\":{";
    for (name, list) in [
        ("http", uses.http),
        ("config", uses.config),
        ("secrets", uses.secrets),
    ] {
        if list.is_empty() {
            continue;
        }
        out.push_str(&format!("{sep}\"{name}\":"));
        write_texts(out, list);
        sep = ",";
    }
    if sep == "," {
        out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_says_only_what_differs_from_the_defaults() {
        const PLAIN: TypeSpec = TypeSpec::new("Plain", &[MethodSpec::new("Do")]);
        const READ: TypeSpec = TypeSpec {
            placement: Placement::Policy("ring:3"),
            co_locate: CoLocate {
                group: "orders",
                separator: "/",
                parts: 2,
            },
            hooks: Hooks {
                created: "Do",
                leaving: "Do",
                ..Hooks::NONE
            },
            messages: MessagePolicy {
                attempts: 5,
                age_ms: 60_000,
                ..MessagePolicy::NONE
            },
            events: EventPolicy {
                count: 100,
                bytes: 200,
                age_ms: 300,
            },
            spawn_only: true,
            wait_outside_set: true,
            ..TypeSpec::new("Read", &[MethodSpec::new("Do").in_sets(&["open", "ajar"])])
        };
        const FULL: TypeSpec = TypeSpec {
            placement: Placement::Sticky,
            instance: Some(Instance::Shared),
            pool: Pool::Batch,
            state_schema: 3,
            migrate: true,
            reentrant: true,
            limits: Limits {
                state_bytes: 10,
                turn_ms: 20,
                fuel: 30,
                idempotency_window_ms: 40,
                ..Limits::NONE
            },
            capabilities: Capabilities {
                http: &["a.example", "*"],
                secrets: &["key"],
                ..Capabilities::NONE
            },
            ..TypeSpec::new(
                "Full",
                &[
                    MethodSpec::new("A").read_only().idempotent().reentrant(),
                    MethodSpec::new("B"),
                ],
            )
        };
        const SERVES: TypeSpec = TypeSpec {
            protobuf: Protobuf {
                service: "a.S",
                descriptor: "Cgo=",
                id_field: "id",
                rpcs: &[MethodSpec::new("Get").read_only()],
            },
            ..TypeSpec::new("Serves", &[MethodSpec::new("Do")])
        };
        const RPCS_ALONE: TypeSpec = TypeSpec {
            protobuf: Protobuf {
                id_field: "",
                ..SERVES.protobuf
            },
            ..TypeSpec::new("RPCs", &[])
        }
        .checked();
        assert_eq!(
            manifest(&[PLAIN, READ, FULL, SERVES, RPCS_ALONE]),
            concat!(
                r#"{"abi":1,"sdk":"greenroom-rust/"#,
                env!("CARGO_PKG_VERSION"),
                r#"","types":["#,
                r#"{"name":"Plain","placement":"ring","methods":[{"name":"Do"}]},"#,
                r#"{"name":"Read","placement":"ring:3","#,
                r#""co_locate":{"group":"orders","separator":"/","parts":2},"methods":[{"name":"Do","sets":["open","ajar"]}],"#,
                r#""hooks":{"created":"Do","leaving":"Do"},"messages":{"attempts":5,"age_ms":60000},"events":{"count":100,"bytes":200,"age_ms":300},"spawn":"only","outside_set":"wait"},"#,
                r#"{"name":"Full","placement":"sticky","instance":"shared","pool":"batch","#,
                r#""state_schema":3,"migrate":true,"reentrant":true,"methods":["#,
                r#"{"name":"A","read_only":true,"idempotent":true,"reentrant":true},{"name":"B"}],"#,
                r#""limits":{"state_bytes":10,"turn_ms":20,"fuel":30,"idempotency_window_ms":40},"#,
                r#""capabilities":{"http":["a.example","*"],"secrets":["key"]}},"#,
                r#"{"name":"Serves","placement":"ring","methods":[{"name":"Get","read_only":true},{"name":"Do"}],"#,
                r#""protobuf":{"service":"a.S","descriptor":"Cgo=","id_field":"id"}},"#,
                r#"{"name":"RPCs","placement":"ring","methods":[{"name":"Get","read_only":true}],"#,
                r#""protobuf":{"service":"a.S","descriptor":"Cgo="}}]}"#
            )
        );
    }

    #[test]
    #[should_panic(expected = "two methods of an actor type have the same name")]
    fn an_rpc_has_a_name_of_its_own() {
        const RPC: MethodSpec = MethodSpec::new("Do");
        let mut spec = TypeSpec::new("A", &[RPC]);
        spec.protobuf.rpcs = &[RPC];
        let _ = spec.checked();
    }

    #[test]
    fn names_follow_the_grammar() {
        assert!(valid_name("A-z.0_9"));
        assert!(valid_name(&"x".repeat(64)));
        for bad in ["", "a b", "é", "a/b", &"x".repeat(65)] {
            assert!(!valid_name(bad), "{bad:?}");
        }
    }
}

// Package abi is the contract between a Greenroom host and its guests: the
// names and numbers of SPEC.md and the codec of its frames. It has no
// dependencies and compiles with TinyGo, since guests carry it as well.
package abi

// Version is the ABI version that this package speaks.
const Version = 1

// Module names and exports.
const (
	HostModule = "greenroom"
	WASIModule = "wasi_snapshot_preview1"

	ExportMemory     = "memory"
	ExportAlloc      = "greenroom_alloc"
	ExportManifest   = "greenroom_manifest"
	ExportTurn       = "greenroom_turn"
	ExportInitialize = "_initialize"
	ExportWarm       = "greenroom_warm"
)

// Host functions, in HostModule.
const (
	FuncStateGet       = "state_get"
	FuncStateSet       = "state_set"
	FuncStateDelete    = "state_delete"
	FuncStateDeleteAll = "state_delete_all"
	FuncStateKeys      = "state_keys"
	FuncStateJSON      = "state_json"
	FuncStatePatch     = "state_patch"
	FuncStateVersion   = "state_version"
	FuncStateRevision  = "state_revision"
	FuncReply          = "reply"
	FuncFail           = "fail"
	FuncNow            = "now"
	FuncRandom         = "random"
	FuncLog            = "log"

	FuncReminderSet    = "reminder_set"
	FuncReminderCancel = "reminder_cancel"
	FuncReminderGet    = "reminder_get"
	FuncReminderNames  = "reminder_names"
	FuncTimerSet       = "timer_set"
	FuncTimerCancel    = "timer_cancel"
	FuncProblem        = "problem"

	FuncSend             = "send"
	FuncSpawn            = "spawn"
	FuncSpawnChild       = "spawn_child"
	FuncBecome           = "become"
	FuncPassAway         = "pass_away"
	FuncServiceClaim     = "service_claim"
	FuncServiceRelease   = "service_release"
	FuncEventPublish     = "event_publish"
	FuncEventSubscribe   = "event_subscribe"
	FuncEventUnsubscribe = "event_unsubscribe"
	FuncHostWatch        = "host_watch"
	FuncServiceWatch     = "service_watch"

	// The capabilities; a module that imports one must declare it.
	FuncConfigGet  = "config_get"
	FuncSecretGet  = "secret_get"
	FuncCall       = "call"
	FuncCallResult = "call_result"

	FuncHTTPRequest  = "http_request"
	FuncHTTPResponse = "http_response"
)

// Format says what a state value is.
type Format uint8

// The formats of SPEC.md section 2.
const (
	FormatBytes Format = 0
	FormatJSON  Format = 1
)

// Code is what a host function returns instead of a result.
type Code int32

// The errors of SPEC.md section 5.
const (
	CodeNotFound Code = -1
	CodeInvalid  Code = -2
	CodeReadOnly Code = -3
	CodeTooLarge Code = -4
	CodeNoState  Code = -5
	CodeNoTurn   Code = -6
	CodeDenied   Code = -7
	CodeNotReady Code = -8
	CodeTooMany  Code = -9
	CodeTaken    Code = -10
	CodeFull     Code = -11
	CodeOver     Code = -12
)

// What a turn frame asks for.
const (
	WhatMethod  uint8 = 1
	WhatMigrate uint8 = 2
)

// What brought a turn about.
const (
	CauseOutside  uint8 = 0 // a call from outside
	CauseCall     uint8 = 1 // a call of another actor
	CauseMessage  uint8 = 2
	CauseReminder uint8 = 3
	CauseTimer    uint8 = 4
	CauseEvent    uint8 = 5 // an event of an actor that this one subscribes to
	// CauseUndelivered is a message that comes back to its sender: nobody consumed it.
	CauseUndelivered uint8 = 6
	// CauseDisconnected is the end of a host that the actor watched, or of its watch.
	CauseDisconnected uint8 = 7
	// CauseServices is who stands for services that the actor watches, or the end of that watch.
	CauseServices uint8 = 8
)

// Tag 22 of a turn with CauseEvent that has no event.
const (
	// EventsGone reports that events were not kept.
	EventsGone = "position_gone"
	// PublisherPassedAway reports that the publisher's life has ended, after its last event.
	PublisherPassedAway = "passed_away"
)

// Why an actor's watch has ended: tag 22 of a turn with CauseDisconnected, or CauseServices, which
// has WatchMoved alone.
const (
	WatchDisconnected = "disconnected"
	WatchMoved        = "moved"
)

// FlagReadOnly is bit 0 of a turn frame's flags.
const FlagReadOnly uint32 = 1

// Results of the turn export.
const (
	TurnDone   int32 = 0
	TurnFailed int32 = 1
)

// Limits of SPEC.md that both sides keep.
const (
	MaxStateKeyLen     = 512
	MaxManifestBytes   = 64 << 10
	MaxErrorCodeLen    = 128
	MaxErrorMessageLen = 4096
	MaxErrorDetailLen  = 64 << 10
	MaxHeaders         = 128
	// MaxSpawnedIDLen is the longest ID of a spawned actor, and the least capacity of the
	// buffer that spawn takes.
	MaxSpawnedIDLen = 64
	// ChildShared is the flag of spawn_child for a child that shares its parent's mailbox.
	ChildShared = 1 << 0
	// MaxChannel is the highest number of a channel.
	MaxChannel = 255
	// MaxServiceLen is the longest name of a service.
	MaxServiceLen = 256
	// ContentTypeProtobuf is what payloads are that have Protobuf's binary form.
	ContentTypeProtobuf = "application/protobuf"
)

// InitTimeUnixNano is the clock outside turns (SPEC.md section 1).
const InitTimeUnixNano int64 = 1577836800_000_000_000

// Turn is the turn frame, host to guest. Strings and Payload of a decoded frame
// alias the buffer that was decoded.
type Turn struct {
	What          uint8
	Flags         uint32
	App, Type, ID string
	Method        string
	InvocationID  string
	TimeUnixNano  int64
	Revision      uint64
	StoredSchema  uint32
	ContentType   string
	Payload       []byte

	// Cause is what brought the turn about. CallerType and CallerID are the actor that calls
	// or that sent the message; of an undelivered message, the actor that did not consume
	// it. CauseName, Missed and Metadata are of a reminder or a timer: its name, for how many
	// missed occurrences the firing stands, and its metadata. DueUnixNano is the occurrence
	// that is delivered, or when the message was sent; Attempt is which delivery this is.
	Cause       uint8
	CallerType  string
	CallerID    string
	CauseName   string
	DueUnixNano int64
	Attempt     uint32
	Missed      uint32
	Metadata    []Header

	// Cookie is the sender's own number of a message, and Failed, of an undelivered one, the
	// code of its last failure. ByType and ByID are the actor that sent the message on the
	// caller's behalf; empty: the caller itself.
	Cookie       uint64
	Failed       string
	ByType, ByID string
	// MethodSet is the set of methods that the actor accepts; empty: all.
	MethodSet string
}

// Error is the error frame, guest to host.
type Error struct {
	Status            uint16
	Code, Message     string
	Retryable         bool
	DetailContentType string
	Detail            []byte
	// RetryAfterMillis is how long to wait before trying again; 0: as the caller
	// sees fit. It counts only with Retryable.
	RetryAfterMillis uint32
}

// Manifest is what a guest says of itself: SPEC.md section 3.
type Manifest struct {
	ABI   int        `json:"abi"`
	SDK   string     `json:"sdk,omitempty"`
	Types []TypeSpec `json:"types"`
}

// TypeSpec is one actor type of a manifest.
type TypeSpec struct {
	Name        string       `json:"name"`
	Placement   string       `json:"placement,omitempty"`
	Instance    string       `json:"instance,omitempty"`
	Pool        string       `json:"pool,omitempty"`
	StateSchema uint32       `json:"state_schema,omitempty"`
	Migrate     bool         `json:"migrate,omitempty"`
	Reentrant   bool         `json:"reentrant,omitempty"` // all methods are reentrant
	Methods     []MethodSpec `json:"methods"`
	Limits      Limits       `json:"limits,omitzero"`
	// CoLocate says which other actors the type's actors are placed with.
	CoLocate CoLocate `json:"co_locate,omitzero"`
	// Capabilities are what the type uses beyond its own state.
	Capabilities Capabilities `json:"capabilities,omitzero"`
	// Hooks are the methods that the host runs at points of an actor's life.
	Hooks Hooks `json:"hooks,omitzero"`
	// Messages says what happens to messages to actors of the type that are not consumed.
	Messages MessagePolicy `json:"messages,omitzero"`
	// Events says what is kept of the events of an actor of the type.
	Events EventPolicy `json:"events,omitzero"`
	// Spawn is [SpawnOnly] or empty: whether an actor of the type exists only once another
	// one has spawned it.
	Spawn string `json:"spawn,omitempty"`
	// OutsideSet is [OutsideSetWait] or empty: whether calls and messages of methods outside an
	// actor's method set wait.
	OutsideSet string `json:"outside_set,omitempty"`
	// Protobuf is the service by which clients may call the type's methods.
	Protobuf Protobuf `json:"protobuf,omitzero"`
	// Warnings are what the SDK found about the type that its author should know.
	Warnings []string `json:"warnings,omitempty"`
}

// Protobuf is a service of Protobuf, whose rpcs are methods of a type: SPEC.md section 3.
type Protobuf struct {
	Service string `json:"service"` // its full name
	// Descriptor is a google.protobuf.FileDescriptorSet: the service's file, after the files
	// that it imports.
	Descriptor []byte `json:"descriptor"`
	// IDField is the field of every request that has the actor's ID; empty: no field does.
	IDField string `json:"id_field,omitempty"`
}

// IsZero reports whether the type has no service; encoding/json calls IsZero.
func (p Protobuf) IsZero() bool { return p.Service == "" }

// CoLocate puts all actors of the types of a group that have the same group key on one host:
// SPEC.md section 3. Without a group, a type has a place of its own.
type CoLocate struct {
	Group string `json:"group"`
	// Separator divides an ID into parts. The first Parts parts are the group key. Without
	// one the key is the whole ID.
	Separator string `json:"separator,omitempty"`
	Parts     int    `json:"parts,omitempty"`
}

// Capabilities are what a type may use, if its app was given it: SPEC.md section 3.
type Capabilities struct {
	HTTP    []string `json:"http,omitempty"`    // hosts that it sends requests to
	Config  []string `json:"config,omitempty"`  // names of configuration values
	Secrets []string `json:"secrets,omitempty"` // names of secrets
}

// IsZero reports whether c has no capabilities; encoding/json calls IsZero.
func (c Capabilities) IsZero() bool { return len(c.HTTP)+len(c.Config)+len(c.Secrets) == 0 }

// Hooks are methods of a type, by name; empty: none. SPEC.md section 3 says when they run.
type Hooks struct {
	Created   string `json:"created,omitempty"`   // before the actor's first turn
	Activated string `json:"activated,omitempty"` // when the actor has been loaded, before its next turn
	Leaving   string `json:"leaving,omitempty"`   // when the actor is asked to move or to stop
}

// EventPolicy is how many events of an actor a host keeps; 0 means the host's default.
type EventPolicy struct {
	Count     int   `json:"count,omitempty"`
	Bytes     int64 `json:"bytes,omitempty"`
	AgeMillis int64 `json:"age_ms,omitempty"`
}

// MessagePolicy is how long a host tries to deliver a message; 0 means the host's default.
type MessagePolicy struct {
	Attempts       uint32 `json:"attempts,omitempty"`
	IntervalMillis int64  `json:"interval_ms,omitempty"` // after the first attempt; each time twice as long
	MaxMillis      int64  `json:"max_ms,omitempty"`      // the longest interval
	AgeMillis      int64  `json:"age_ms,omitempty"`      // a message that is older is undelivered
}

// MethodSpec is one method of a type.
type MethodSpec struct {
	Name       string `json:"name"`
	ReadOnly   bool   `json:"read_only,omitempty"`
	Idempotent bool   `json:"idempotent,omitempty"`
	Reentrant  bool   `json:"reentrant,omitempty"`
	Private    bool   `json:"private,omitempty"`
	// Atomic is [AtomicRequired] or empty: whether the method may be called by an actor of
	// another host, and committed on its own.
	Atomic string `json:"atomic,omitempty"`
	// Sets are the sets of methods that the method is in, see become; none: it is in all.
	Sets []string `json:"sets,omitempty"`
}

// Limits are a type's own limits; 0 means the host's default.
type Limits struct {
	StateBytes   int64 `json:"state_bytes,omitempty"`
	PayloadBytes int64 `json:"payload_bytes,omitempty"`
	Mailbox      int64 `json:"mailbox,omitempty"`
	TurnMillis   int64 `json:"turn_ms,omitempty"`
	MemoryBytes  int64 `json:"memory_bytes,omitempty"`
	Fuel         int64 `json:"fuel,omitempty"`
	// IdempotencyMillis is for how long a call with an idempotency key is
	// remembered.
	IdempotencyMillis int64 `json:"idempotency_window_ms,omitempty"`
}

// The values of TypeSpec's enumerations.
const (
	PlacementAny       = "any"
	PlacementRing      = "ring" // perhaps with a colon and how many hosts share each range
	PlacementSticky    = "sticky"
	PlacementStateless = "stateless"
	PlacementStatic    = "static"   // and behind a colon the names of its hosts
	PlacementCheckout  = "checkout" // and behind a colon how many partitions it has

	InstanceShared    = "shared"
	InstanceDedicated = "dedicated"

	PoolUser  = "user"
	PoolBatch = "batch"

	AtomicRequired = "required"

	SpawnOnly = "only"

	OutsideSetWait = "wait"
)

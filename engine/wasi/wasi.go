package wasi

// Module is the name that guests import the functions from.
const Module = "wasi_snapshot_preview1"

// Guest is the guest that calls a function.
type Guest interface {
	// Memory is the guest's memory as it is now, empty if it has none.
	Memory() []byte
	// Spend charges for work that is about to be done. It does not return if the
	// guest has no fuel or no time left.
	Spend(fuel uint64)
	// Now is the time at which the turn began, in nanoseconds since 1970 UTC, and
	// Monotonic the same moved on by what the guest slept. Neither is negative.
	Now() int64
	Monotonic() int64
	// Sleep moves Monotonic on, at once. It is not charged.
	Sleep(nanoseconds int64)
	// Random fills p, at most 64 KiB, from the turn's stream. It is not charged.
	Random(p []byte)
	// Print takes what the guest writes to the descriptor 1 or 2, at most 8 KiB,
	// without keeping p. It is not charged.
	Print(descriptor uint32, p []byte)
	// Exit ends the guest and does not return.
	Exit(code uint32)
}

// Function is one function of [Module].
type Function struct {
	Name            string
	Params, Results []byte // Wasm's value types
	// Call does what the guest asks for: it reads its arguments from the stack and
	// writes its result, if it has one, to stack[0].
	Call func(g Guest, stack []uint64)
}

// Errno is what the functions answer.
type Errno uint16

// The errors of preview 1 that there is a reason for.
const (
	Success Errno = 0
	Badf    Errno = 8
	Fault   Errno = 21
	Inval   Errno = 28
	Nosys   Errno = 52
	Notdir  Errno = 54
	Notsock Errno = 57
	Notsup  Errno = 58
	Spipe   Errno = 70
)

// The descriptors that there are.
const (
	stdin = iota
	stdout
	stderr
	descriptors
)

// What things cost, in units of fuel; about a nanosecond each.
const (
	fuelCall         = 100
	fuelPrint        = 2_000 // a piece of output
	fuelLine         = 100   // each line of it
	fuelVector       = 10
	fuelSubscription = 20 // each of the two times that it is read
	byteUnits        = 4  // bytes copied for one unit
)

// What is done between two charges: bytes of randomness made, bytes printed, and
// vectors or subscriptions read.
const (
	randomChunk = 64 << 10
	printChunk  = 8 << 10
	block       = 1 << 10
)

// Functions lists all functions of preview 1, in the order of its specification.
func Functions() []Function {
	const (
		i = "\x7f"
		l = "\x7e"
	)
	function := func(name, params string, call func(Guest, arguments) Errno) Function {
		return Function{name, []byte(params), []byte(i), func(g Guest, stack []uint64) {
			g.Spend(fuelCall)
			errno := call(g, stack)
			stack[0] = uint64(errno)
		}}
	}
	// on is a function of the descriptor in the argument number at, which answers
	// the same for all that there are.
	on := func(name, params string, at int, answer Errno) Function {
		return function(name, params, func(_ Guest, a arguments) Errno {
			if a.u32(at) >= descriptors {
				return Badf
			}
			return answer
		})
	}
	exit := Function{"proc_exit", []byte(i), nil, func(g Guest, stack []uint64) {
		g.Spend(fuelCall)
		g.Exit(uint32(stack[0]))
	}}
	return []Function{
		function("args_get", i+i, empty),
		function("args_sizes_get", i+i, noSizes),
		function("environ_get", i+i, empty),
		function("environ_sizes_get", i+i, noSizes),
		function("clock_res_get", i+i, clockResolution),
		function("clock_time_get", i+l+i, clockTime),
		on("fd_advise", i+l+l+i, 0, Spipe),
		on("fd_allocate", i+l+l, 0, Spipe),
		on("fd_close", i, 0, Success),
		on("fd_datasync", i, 0, Success),
		function("fd_fdstat_get", i+i, fdstat),
		function("fd_fdstat_set_flags", i+i, setFlags),
		on("fd_fdstat_set_rights", i+l+l, 0, Notsup),
		function("fd_filestat_get", i+i, filestat),
		on("fd_filestat_set_size", i+l, 0, Inval),
		on("fd_filestat_set_times", i+l+l+i, 0, Notsup),
		on("fd_pread", i+i+i+l+i, 0, Spipe),
		on("fd_prestat_get", i+i, 0, Badf),
		on("fd_prestat_dir_name", i+i+i, 0, Badf),
		on("fd_pwrite", i+i+i+l+i, 0, Spipe),
		function("fd_read", i+i+i+i, read),
		on("fd_readdir", i+i+i+l+i, 0, Notdir),
		function("fd_renumber", i+i, renumber),
		on("fd_seek", i+l+i+i, 0, Spipe),
		on("fd_sync", i, 0, Success),
		on("fd_tell", i+i, 0, Spipe),
		function("fd_write", i+i+i+i, write),
		on("path_create_directory", i+i+i, 0, Notdir),
		on("path_filestat_get", i+i+i+i+i, 0, Notdir),
		on("path_filestat_set_times", i+i+i+i+l+l+i, 0, Notdir),
		on("path_link", i+i+i+i+i+i+i, 0, Notdir),
		on("path_open", i+i+i+i+i+l+l+i+i, 0, Notdir),
		on("path_readlink", i+i+i+i+i+i, 0, Notdir),
		on("path_remove_directory", i+i+i, 0, Notdir),
		on("path_rename", i+i+i+i+i+i, 0, Notdir),
		on("path_symlink", i+i+i+i+i, 2, Notdir),
		on("path_unlink_file", i+i+i, 0, Notdir),
		function("poll_oneoff", i+i+i+i, poll),
		exit,
		function("proc_raise", i, func(Guest, arguments) Errno { return Nosys }),
		function("sched_yield", "", func(Guest, arguments) Errno { return Success }),
		function("random_get", i+i, random),
		on("sock_accept", i+i+i, 0, Notsock),
		on("sock_recv", i+i+i+i+i+i, 0, Notsock),
		on("sock_send", i+i+i+i+i, 0, Notsock),
		on("sock_shutdown", i+i, 0, Notsock),
	}
}

// arguments are those of a call. The high halves of 32-bit ones are undefined.
type arguments []uint64

func (a arguments) u32(n int) uint32 { return uint32(a[n]) }

// region returns size bytes of a guest's memory, and false if they are not all
// there.
func region(g Guest, address uint32, size uint64) ([]byte, bool) {
	memory := g.Memory()
	from, to := uint64(address), uint64(address)+size // size is below 2^48 wherever it comes from
	if to > uint64(len(memory)) {
		return nil, false
	}
	return memory[from:to:to], true
}

// empty is args_get and environ_get: nothing to write.
func empty(Guest, arguments) Errno { return Success }

// noSizes is args_sizes_get and environ_sizes_get.
func noSizes(g Guest, a arguments) Errno {
	count, ok := region(g, a.u32(0), 4)
	size, also := region(g, a.u32(1), 4)
	if !ok || !also {
		return Fault
	}
	clear(count)
	clear(size)
	return Success
}

func setFlags(_ Guest, a arguments) Errno {
	const appends, nonblocking = 1 << 0, 1 << 2
	switch {
	case a.u32(0) >= descriptors:
		return Badf
	case a.u32(1)&^(appends|nonblocking) != 0:
		return Notsup
	}
	return Success // they append and never block as they are
}

func renumber(_ Guest, a arguments) Errno {
	if a.u32(0) >= descriptors || a.u32(1) >= descriptors {
		return Badf
	}
	return Notsup
}

func random(g Guest, a arguments) Errno {
	p, ok := region(g, a.u32(0), uint64(a.u32(1)))
	if !ok {
		return Fault
	}
	for len(p) > 0 {
		part := p[:min(len(p), randomChunk)]
		g.Spend(uint64(len(part)))
		g.Random(part)
		p = p[len(part):]
	}
	return Success
}

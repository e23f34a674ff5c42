package wasi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// fakeGuest is a guest whose memory lies between bytes that are nobody's.
type fakeGuest struct {
	around  []byte
	memory  []byte
	fuel    uint64 // spent
	limit   uint64
	slept   int64
	random  byte
	printed []string
}

const margin = 64

func newGuest(memory []byte) *fakeGuest {
	around := bytes.Repeat([]byte{0xaa}, len(memory)+2*margin)
	copy(around[margin:], memory)
	return &fakeGuest{around: around, memory: around[margin : margin+len(memory) : margin+len(memory)], limit: math.MaxUint64}
}

type spent struct{}

type exited uint32

const startTime = 1_000_000_000_000_000_000

func (g *fakeGuest) Memory() []byte { return g.memory }

func (g *fakeGuest) Spend(fuel uint64) {
	if g.fuel += fuel; g.fuel > g.limit {
		panic(spent{})
	}
}
func (g *fakeGuest) Now() int64       { return startTime }
func (g *fakeGuest) Monotonic() int64 { return startTime + g.slept }
func (g *fakeGuest) Sleep(ns int64)   { g.slept += min(ns, math.MaxInt64-g.Monotonic()) }

func (g *fakeGuest) Random(p []byte) {
	if len(p) > randomChunk {
		panic("too much randomness at a time")
	}
	for n := range p {
		g.random++
		p[n] = g.random
	}
}

func (g *fakeGuest) Print(descriptor uint32, p []byte) {
	if len(p) > printChunk {
		panic("too much output at a time")
	}
	g.printed = append(g.printed, fmt.Sprintf("%d:%s", descriptor, p))
}

func (g *fakeGuest) Exit(code uint32) { panic(exited(code)) }

// intact reports whether nothing around the memory was touched.
func (g *fakeGuest) intact() bool {
	nobodys := bytes.Repeat([]byte{0xaa}, margin)
	return bytes.Equal(g.around[:margin], nobodys) && bytes.Equal(g.around[len(g.around)-margin:], nobodys)
}

func function(tb testing.TB, name string) Function {
	tb.Helper()
	for _, f := range Functions() {
		if f.Name == name {
			return f
		}
	}
	tb.Fatalf("no function %s", name)
	return Function{}
}

// call calls a function by its name.
func call(tb testing.TB, g Guest, name string, args ...uint64) Errno {
	tb.Helper()
	f := function(tb, name)
	if len(args) != len(f.Params) {
		tb.Fatalf("%s takes %d arguments", name, len(f.Params))
	}
	stack := append(slices.Clone(args), 0)
	f.Call(g, stack)
	return Errno(stack[0])
}

func le(v ...uint32) (out []byte) {
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, x)
	}
	return out
}

// Whatever is done to the descriptors, they are as before.
func TestDescriptorsHaveNoState(t *testing.T) {
	g := newGuest(append(le(16, 3, 0, 0), "out\n"...))
	for fd := range uint64(descriptors) {
		for _, tc := range []struct {
			name string
			args []uint64
			want Errno
		}{
			{"fd_close", []uint64{fd}, Success},
			{"fd_renumber", []uint64{fd, 2 - fd}, Notsup},
			{"fd_fdstat_set_flags", []uint64{fd, 4}, Success},
			{"fd_fdstat_set_flags", []uint64{fd, 1 << 15}, Notsup},
			{"fd_fdstat_set_rights", []uint64{fd, 0, 0}, Notsup},
			{"fd_filestat_set_size", []uint64{fd, 0}, Inval},
			{"sock_shutdown", []uint64{fd, 3}, Notsock},
			{"fd_close", []uint64{fd}, Success},
		} {
			if got := call(t, g, tc.name, tc.args...); got != tc.want {
				t.Errorf("%s of %d: %d, want %d", tc.name, fd, got, tc.want)
			}
		}
	}
	for fd, want := range map[uint64]Errno{0: Badf, 1: Success, 2: Success, 3: Badf, math.MaxUint32: Badf} {
		if got := call(t, g, "fd_write", fd, 0, 1, 8); got != want {
			t.Errorf("fd_write to %d: %d, want %d", fd, got, want)
		}
	}
	slices.Sort(g.printed)
	if want := []string{"1:out", "2:out"}; !slices.Equal(g.printed, want) {
		t.Errorf("printed %q", g.printed)
	}
}

func TestAnswers(t *testing.T) {
	const far = math.MaxUint32
	for _, tc := range []struct {
		name string
		args []uint64
		want Errno
		at   map[int]uint64 // what is there afterwards, 8 bytes
	}{
		{"args_sizes_get", []uint64{0, 4}, Success, map[int]uint64{0: 0, 8: ^uint64(0)}},
		{"args_sizes_get", []uint64{125, 0}, Fault, map[int]uint64{0: ^uint64(0)}},
		{"environ_sizes_get", []uint64{0, 125}, Fault, map[int]uint64{0: ^uint64(0)}},
		{"args_get", []uint64{far, far}, Success, nil},
		{"environ_get", []uint64{0, 0}, Success, map[int]uint64{0: ^uint64(0)}},
		{"clock_time_get", []uint64{0, 1, 8}, Success, map[int]uint64{8: startTime}},
		{"clock_time_get", []uint64{1, 0, 120}, Success, map[int]uint64{120: startTime}},
		{"clock_time_get", []uint64{1, 0, 121}, Fault, nil},
		{"clock_time_get", []uint64{2, 0, 8}, Inval, nil},
		{"clock_res_get", []uint64{1, 8}, Success, map[int]uint64{8: 1}},
		{"clock_res_get", []uint64{far, 8}, Inval, nil},
		{"random_get", []uint64{0, 8}, Success, map[int]uint64{0: 0x0807060504030201, 8: ^uint64(0)}},
		{"random_get", []uint64{121, 8}, Fault, map[int]uint64{120: ^uint64(0)}},
		{"random_get", []uint64{far, far}, Fault, nil},
		{"random_get", []uint64{128, 0}, Success, nil},
		{"sched_yield", nil, Success, nil},
		{"proc_raise", []uint64{9}, Nosys, nil},
		{"fd_prestat_get", []uint64{3, 0}, Badf, nil},
		{"fd_prestat_get", []uint64{0, 0}, Badf, nil},
		{"fd_prestat_dir_name", []uint64{3, 0, 8}, Badf, nil},
		{"fd_fdstat_get", []uint64{1, 0}, Success, map[int]uint64{0: 2, 8: rightWrite | rightSetFlags | rightFilestat | rightPoll}},
		{"fd_fdstat_get", []uint64{0, 0}, Success, map[int]uint64{0: 2, 8: rightRead | rightSetFlags | rightFilestat | rightPoll}},
		{"fd_fdstat_get", []uint64{3, 0}, Badf, nil},
		{"fd_fdstat_get", []uint64{0, 105}, Fault, nil},
		{"fd_filestat_get", []uint64{2, 64}, Success, map[int]uint64{64: 0, 80: 2, 88: 1, 96: 0}},
		{"fd_filestat_get", []uint64{2, 65}, Fault, nil},
		{"fd_filestat_get", []uint64{3, 64}, Badf, nil},
		{"fd_seek", []uint64{1, 0, 1, 0}, Spipe, nil},
		{"fd_tell", []uint64{1, 0}, Spipe, nil},
		{"fd_pread", []uint64{0, 0, 0, 0, 0}, Spipe, nil},
		{"fd_pwrite", []uint64{3, 0, 0, 0, 0}, Badf, nil},
		{"fd_readdir", []uint64{0, 0, 0, 0, 0}, Notdir, nil},
		{"fd_sync", []uint64{1}, Success, nil},
		{"fd_sync", []uint64{3}, Badf, nil},
		{"path_open", []uint64{3, 0, 0, 0, 0, 0, 0, 0, 0}, Badf, nil},
		{"path_open", []uint64{0, 0, 0, 0, 0, 0, 0, 0, 0}, Notdir, nil},
		{"path_symlink", []uint64{0, 0, 3, 0, 0}, Badf, nil},
		{"path_symlink", []uint64{3, 0, 0, 0, 0}, Notdir, nil},
		{"sock_accept", []uint64{3, 0, 0}, Badf, nil},
		{"sock_send", []uint64{1, 0, 0, 0, 0}, Notsock, nil},
	} {
		t.Run(fmt.Sprint(tc.name, tc.args), func(t *testing.T) {
			g := newGuest(bytes.Repeat([]byte{0xff}, 128))
			args := slices.Clone(tc.args)
			for n, typ := range function(t, tc.name).Params {
				if typ == '\x7f' {
					args[n] |= 0xdead << 32 // the high half of an i32 says nothing
				}
			}
			if got := call(t, g, tc.name, args...); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
			if tc.at == nil && tc.want != Success && bytes.ContainsFunc(g.memory, func(r rune) bool { return r != 0xfffd }) {
				t.Errorf("wrote % x", g.memory)
			}
			for at, want := range tc.at {
				if got := binary.LittleEndian.Uint64(g.memory[at:]); got != want {
					t.Errorf("%#x at %d, want %#x", got, at, want)
				}
			}
			if !g.intact() {
				t.Error("wrote outside of the memory")
			}
		})
	}
}

func TestExit(t *testing.T) {
	defer func() {
		if r := recover(); r != exited(3) {
			t.Errorf("got %v", r)
		}
	}()
	function(t, "proc_exit").Call(newGuest(nil), []uint64{1<<32 | 3})
}

func TestWrite(t *testing.T) {
	text := func(vectors ...uint32) []byte {
		return append(append(le(vectors...), make([]byte, 64-4*len(vectors))...), "hello, world\n"...)
	}
	for _, tc := range []struct {
		name    string
		memory  []byte
		n, at   uint64 // vectors, and where the result goes
		want    Errno
		printed []string
		written uint32
	}{
		{"one", text(64, 13), 1, 48, Success, []string{"1:hello, world\n"}, 13},
		{"several, one of them empty", text(64, 5, 0, 0, 71, 6), 3, 48, Success, []string{"1:hello", "1:world\n"}, 11},
		{"none", text(), 0, 48, Success, nil, 0},
		{"the same twice", text(64, 5, 64, 5), 2, 48, Success, []string{"1:hello", "1:hello"}, 10},
		{"its own vectors", text(0, 4), 1, 48, Success, []string{"1:\x00\x00\x00\x00"}, 4},
		{"the result over the vectors", text(64, 5), 1, 0, Success, []string{"1:hello"}, 5},
		{"one that ends outside", text(64, 5, 64, 14), 2, 48, Fault, nil, 0},
		{"one that begins outside", text(78, 0), 1, 48, Fault, nil, 0},
		{"an empty one at the end", text(77, 0), 1, 48, Success, nil, 0},
		{"one that wraps", text(math.MaxUint32, 2), 1, 48, Fault, nil, 0},
		{"half a gigabyte of vectors", text(64, 5), 1 << 29, 48, Fault, nil, 0}, // times 8 is 2³²
		{"the result outside", text(64, 5), 1, 74, Fault, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGuest(tc.memory)
			if got := call(t, g, "fd_write", 1, 0, tc.n, tc.at); got != tc.want {
				t.Fatalf("got %d, want %d", got, tc.want)
			}
			if !slices.Equal(g.printed, tc.printed) {
				t.Errorf("printed %q", g.printed)
			}
			if tc.want == Success && binary.LittleEndian.Uint32(g.memory[tc.at:]) != tc.written {
				t.Errorf("written % x", g.memory[tc.at:][:4])
			}
			if tc.want != Success && !bytes.Equal(g.memory, tc.memory) {
				t.Error("changed something")
			}
		})
	}
	t.Run("more than four gigabytes of one megabyte", func(t *testing.T) {
		const n = 4097
		g := newGuest(append(bytes.Repeat(le(0, 1<<20), n), make([]byte, 1<<20)...))
		if got := call(t, g, "fd_write", 1, 0, n, 0); got != Inval || len(g.printed) > 0 {
			t.Errorf("got %d, printed %d pieces", got, len(g.printed))
		}
	})
	t.Run("in pieces", func(t *testing.T) {
		text := strings.Repeat("0123456789", 3_000)
		g := newGuest(append(le(16, uint32(len(text)), 0, 0), text...))
		if got := call(t, g, "fd_write", 2, 0, 1, 8); got != Success {
			t.Fatal(got)
		}
		if got := strings.ReplaceAll(strings.Join(g.printed, ""), "2:", ""); len(g.printed) < 3 || got != text {
			t.Errorf("%d pieces, %d bytes", len(g.printed), len(got))
		}
	})
}

func TestRead(t *testing.T) {
	g := newGuest(append(le(8, 4), bytes.Repeat([]byte{0xff}, 16)...))
	if got := call(t, g, "fd_read", 0, 0, 1, 16); got != Success || binary.LittleEndian.Uint32(g.memory[16:]) != 0 || g.memory[8] != 0xff {
		t.Errorf("got %d, % x", got, g.memory)
	}
	for fd, want := range map[uint64]Errno{1: Badf, 3: Badf} {
		if got := call(t, g, "fd_read", fd, 0, 1, 16); got != want {
			t.Errorf("fd_read from %d: %d", fd, got)
		}
	}
	if got := call(t, g, "fd_read", 0, 0, 4, 16); got != Fault {
		t.Errorf("vectors outside: %d", got)
	}
}

// clockEvent is a subscription to a clock.
func clockEvent(userdata uint64, id uint32, timeout uint64, flags uint16) []byte {
	b := make([]byte, subscriptionBytes)
	binary.LittleEndian.PutUint64(b, userdata)
	binary.LittleEndian.PutUint32(b[16:], id)
	binary.LittleEndian.PutUint64(b[24:], timeout)
	binary.LittleEndian.PutUint16(b[40:], flags)
	return b
}

func fdEvent(userdata uint64, kind byte, fd uint32) []byte {
	b := make([]byte, subscriptionBytes)
	binary.LittleEndian.PutUint64(b, userdata)
	b[8] = kind
	binary.LittleEndian.PutUint32(b[16:], fd)
	return b
}

func TestPoll(t *testing.T) {
	const hour = 3_600_000_000_000
	for _, tc := range []struct {
		name   string
		in     [][]byte
		want   Errno
		events string // "userdata/kind/errno", those that happened
		slept  int64
	}{
		{"nothing", nil, Inval, "", 0},
		{"an hour", [][]byte{clockEvent(7, monotonic, hour, 0)}, Success, "7/0/0", hour},
		{"the first of two", [][]byte{clockEvent(7, monotonic, 2*hour, 0), clockEvent(8, realtime, hour, 0)}, Success, "8/0/0", hour},
		{"two at the same time", [][]byte{clockEvent(7, monotonic, hour, 0), clockEvent(8, monotonic, startTime+hour, 1)}, Success, "7/0/0 8/0/0", hour},
		{"until a moment", [][]byte{clockEvent(7, monotonic, startTime+5, 1)}, Success, "7/0/0", 5},
		{"until a moment that has passed", [][]byte{clockEvent(7, realtime, 5, 1)}, Success, "7/0/0", 0},
		{"for ever", [][]byte{clockEvent(7, monotonic, math.MaxUint64, 0)}, Success, "7/0/0", math.MaxInt64 - startTime},
		{"a clock that there is not", [][]byte{clockEvent(7, 3, hour, 0), clockEvent(8, monotonic, hour, 0)}, Success, "7/0/28", 0},
		{"input", [][]byte{fdEvent(1, eventRead, 0), clockEvent(2, monotonic, hour, 0)}, Success, "1/1/0", 0},
		{"output", [][]byte{clockEvent(2, monotonic, hour, 0), fdEvent(1, eventWrite, 2)}, Success, "1/2/0", 0},
		{"wrong descriptors", [][]byte{fdEvent(1, eventRead, 1), fdEvent(2, eventWrite, 0), fdEvent(3, eventRead, 4)}, Success, "1/1/8 2/2/8 3/1/8", 0},
		{"an unknown flag", [][]byte{clockEvent(7, monotonic, hour, 2)}, Inval, "", 0},
		{"an unknown kind", [][]byte{fdEvent(1, 3, 0)}, Inval, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := slices.Concat(tc.in...)
			out := uint64(len(in))
			count := out + uint64(len(tc.in)*eventBytes)
			g := newGuest(append(in, bytes.Repeat([]byte{0xff}, len(tc.in)*eventBytes+4)...))
			if got := call(t, g, "poll_oneoff", 0, out, uint64(len(tc.in)), count); got != tc.want {
				t.Fatalf("got %d, want %d", got, tc.want)
			}
			if g.slept != tc.slept {
				t.Errorf("slept %d, want %d", g.slept, tc.slept)
			}
			if tc.want != Success {
				return
			}
			var events []string
			for n := range binary.LittleEndian.Uint32(g.memory[count:]) {
				e := g.memory[out+uint64(n)*eventBytes:]
				events = append(events, fmt.Sprintf("%d/%d/%d", binary.LittleEndian.Uint64(e), e[10], binary.LittleEndian.Uint16(e[8:])))
			}
			if got := strings.Join(events, " "); got != tc.events {
				t.Errorf("events %q, want %q", got, tc.events)
			}
		})
	}
	t.Run("outside of the memory", func(t *testing.T) {
		in := clockEvent(7, monotonic, hour, 0)
		for _, args := range [][]uint64{{37, 48, 1, 80}, {0, 53, 1, 80}, {0, 48, 1, 81}, {0, 48, 2, 80}, {0, 48, 1 << 31, 80}, {0, 48, math.MaxUint32, 80}} {
			g := newGuest(append(slices.Clone(in), make([]byte, 36)...))
			before := slices.Clone(g.memory)
			if got := call(t, g, "poll_oneoff", args...); got != Fault || g.slept > 0 || !bytes.Equal(g.memory, before) {
				t.Errorf("%v: %d", args, got)
			}
		}
	})
}

// A guest pays for what a function does, before it is done and in pieces that are
// small enough to be stopped between.
func TestChargedByWhatIsDone(t *testing.T) {
	const many = 100_000
	memory := make([]byte, many*(subscriptionBytes+eventBytes)+4)
	vectors := bytes.Repeat(le(0, 1), many)
	for _, tc := range []struct {
		name   string
		memory []byte
		args   []uint64
		least  uint64
	}{
		{"poll_oneoff", memory, []uint64{0, many * subscriptionBytes, many, many * (subscriptionBytes + eventBytes)}, many * fuelSubscription},
		{"fd_write", vectors, []uint64{1, 0, many, 0}, many * fuelPrint},
		{"fd_write", bytes.Repeat(le(0, 0), many), []uint64{1, 0, many, 0}, many * fuelVector},
		{"fd_write", append(le(8, many), bytes.Repeat([]byte("\n"), many)...), []uint64{1, 0, 1, 0}, many * fuelLine},
		{"fd_read", vectors, []uint64{0, 0, many, 0}, many * fuelVector},
		{"random_get", memory, []uint64{0, many}, many},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGuest(tc.memory)
			if got := call(t, g, tc.name, tc.args...); got != Success || g.fuel < tc.least {
				t.Fatalf("answered %d for %d units, want at least %d", got, g.fuel, tc.least)
			}
			// With half of it the guest is stopped half-way.
			all := g.fuel
			g = newGuest(tc.memory)
			g.limit = all / 2
			defer func() {
				if r := recover(); r != (spent{}) || g.fuel > all*3/4 {
					t.Errorf("stopped by %v at %d of %d units", r, g.fuel, all)
				}
			}()
			call(t, g, tc.name, tc.args...)
		})
	}
}

// FuzzCall calls functions with any arguments: none may fail, reach outside of the
// memory, or change anything in it and answer fault.
func FuzzCall(f *testing.F) {
	functions := Functions()
	number := func(name string) byte {
		return byte(slices.IndexFunc(functions, func(f Function) bool { return f.Name == name }))
	}
	f.Add(number("fd_write"), le(1, 0, 0, 0, 1, 0, 48, 0), append(le(64, 13), make([]byte, 80)...))
	f.Add(number("fd_write"), le(2, 0, 8, 0, 1<<29, 0, 48, 0), le(64, 13, 0xffffffff, 2))
	f.Add(number("poll_oneoff"), le(0, 0, 48, 0, 1, 0, 80, 0), append(clockEvent(7, 1, 5, 0), make([]byte, 36)...))
	f.Add(number("poll_oneoff"), le(0, 0, 0, 0, 2, 0, 0, 0), append(clockEvent(7, 1, 5, 0), fdEvent(1, 1, 0)...))
	f.Add(number("random_get"), le(4, 0, 100, 0), make([]byte, 104))
	f.Add(number("clock_time_get"), le(1, 0, 0, 0, 8, 0), make([]byte, 16))
	f.Add(number("fd_fdstat_get"), le(1, 0, 0xfffffff0, 0), make([]byte, 16))
	f.Fuzz(func(t *testing.T, n byte, args, memory []byte) {
		fn := functions[int(n)%len(functions)]
		stack := make([]uint64, len(fn.Params)+1)
		for at := range fn.Params {
			if len(args) >= 8 {
				stack[at] = binary.LittleEndian.Uint64(args)
				args = args[8:]
			}
		}
		g := newGuest(memory)
		g.limit = 50_000_000
		defer func() {
			switch r := recover(); r.(type) {
			case nil, spent, exited:
			default:
				panic(r)
			}
			if !g.intact() {
				t.Errorf("%s wrote outside of the memory", fn.Name)
			}
		}()
		fn.Call(g, stack)
		if errno := Errno(stack[0]); errno == Fault && (!bytes.Equal(g.memory, memory) || g.slept > 0 || len(g.printed) > 0) {
			t.Errorf("%s did something and answered fault", fn.Name)
		}
	})
}

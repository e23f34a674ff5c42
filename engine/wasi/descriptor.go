package wasi

import (
	"bytes"
	"encoding/binary"
	"math"
)

const (
	characterDevice = 2

	rightRead, rightSetFlags, rightWrite, rightFilestat, rightPoll = 1 << 1, 1 << 3, 1 << 6, 1 << 21, 1 << 27
)

func fdstat(g Guest, a arguments) Errno {
	if a.u32(0) >= descriptors {
		return Badf
	}
	out, ok := region(g, a.u32(1), 24)
	if !ok {
		return Fault
	}
	clear(out)
	out[0] = characterDevice
	rights := uint64(rightSetFlags | rightFilestat | rightPoll)
	if a.u32(0) == stdin {
		rights |= rightRead
	} else {
		rights |= rightWrite
	}
	binary.LittleEndian.PutUint64(out[8:], rights)
	return Success
}

func filestat(g Guest, a arguments) Errno {
	if a.u32(0) >= descriptors {
		return Badf
	}
	out, ok := region(g, a.u32(1), 64)
	if !ok {
		return Fault
	}
	clear(out)
	out[16] = characterDevice
	out[24] = 1 // the number of links
	return Success
}

// vectors are the pieces of memory that a guest reads to or writes from. They lie in
// its memory and are read twice: before anything is done, and as it is done.
type vectors struct {
	g    Guest
	list []byte
	size uint64 // of all pieces together, in bytes
}

const vectorBytes = 8

// readVectors checks every piece.
func readVectors(g Guest, address, n uint32) (vectors, Errno) {
	list, ok := region(g, address, uint64(n)*vectorBytes)
	if !ok {
		return vectors{}, Fault
	}
	v := vectors{g: g, list: list}
	for at := range int(n) {
		if at%block == 0 {
			g.Spend(fuelVector * min(uint64(n)-uint64(at), block))
		}
		piece, ok := v.at(at)
		if !ok {
			return vectors{}, Fault
		}
		v.size += uint64(len(piece))
	}
	if v.size > math.MaxUint32 {
		return vectors{}, Inval // the result could not say so
	}
	return v, Success
}

func (v *vectors) at(n int) ([]byte, bool) {
	b := v.list[n*vectorBytes:]
	return region(v.g, binary.LittleEndian.Uint32(b), uint64(binary.LittleEndian.Uint32(b[4:])))
}

func write(g Guest, a arguments) Errno {
	descriptor := a.u32(0)
	if descriptor != stdout && descriptor != stderr {
		return Badf
	}
	v, errno := readVectors(g, a.u32(1), a.u32(2))
	if errno != Success {
		return errno
	}
	written, ok := region(g, a.u32(3), 4)
	if !ok {
		return Fault
	}
	for n := range int(a.u32(2)) {
		if n%block == 0 {
			g.Spend(fuelVector * min(uint64(a.u32(2))-uint64(n), block))
		}
		piece, _ := v.at(n) // is there: nothing has written to the memory since
		for len(piece) > 0 {
			part := piece[:min(len(piece), printChunk)]
			g.Spend(fuelPrint + uint64(len(part))/byteUnits + uint64(bytes.Count(part, []byte{'\n'}))*fuelLine)
			g.Print(descriptor, part)
			piece = piece[len(part):]
		}
	}
	binary.LittleEndian.PutUint32(written, uint32(v.size))
	return Success
}

// read answers that there is nothing to read.
func read(g Guest, a arguments) Errno {
	if a.u32(0) != stdin {
		return Badf
	}
	if _, errno := readVectors(g, a.u32(1), a.u32(2)); errno != Success {
		return errno
	}
	count, ok := region(g, a.u32(3), 4)
	if !ok {
		return Fault
	}
	clear(count)
	return Success
}

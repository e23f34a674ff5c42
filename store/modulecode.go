package store

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// ValidateModule refuses what PutModule is not to store: an [*actor.ArgumentError].
func ValidateModule(m actor.Module, wasm actor.Code) error {
	if err := actor.ValidateName("app", m.App); err != nil {
		return err
	}
	if m.Size != wasm.Size() {
		return &actor.ArgumentError{Field: "module size", Problem: fmt.Sprintf("is %d, and there are %d bytes", m.Size, wasm.Size())}
	}
	d, err := actor.DigestOfCode(wasm)
	if err == nil && d != m.Digest {
		return &actor.ArgumentError{Field: "module digest", Problem: fmt.Sprintf("is %s, and the bytes have %s", m.Digest, d)}
	}
	return err
}

// ModuleChunk reads the nth piece of a module into buf, which has the size of all
// pieces but the last, and returns it.
func ModuleChunk(wasm actor.Code, n int, buf []byte) ([]byte, error) {
	at := int64(n) * int64(len(buf))
	chunk := buf[:min(int64(len(buf)), wasm.Size()-at)]
	if _, err := io.ReadFull(io.NewSectionReader(wasm, at, int64(len(chunk))), chunk); err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	return chunk, nil
}

// LeastStored is what a module counts at least, so that a bound on bytes bounds how many
// modules there are.
const LeastStored = 16 << 10

// StoredBytes is what a module counts that has so many bytes, with its manifest's.
func StoredBytes(wasm int64, manifest int) int64 { return max(wasm+int64(manifest), LeastStored) }

// StoredModule is a module of an app, for [MakeRoom].
type StoredModule struct {
	Digest actor.Digest
	Bytes  int64     // as StoredBytes counts them
	UsedAt time.Time // when it was uploaded last, or served a type last
	Kept   bool      // makes no room: see MarkUse
}

const (
	// RecentDeployments is how many of the newest deployments of a type MarkUse looks at.
	RecentDeployments = 16
	// keptAfterServing is how long a module is kept that serves nothing any more: another
	// host goes on with it until it has seen the next deployment and prepared its module.
	keptAfterServing = 2 * time.Minute
)

// MarkUse sets Kept of the modules that serve a type now, did so until a short time before
// now, or are what a rollback of a type without a generation goes back to: the newest module
// before the one that serves. It moves UsedAt on to the end of a module's service. history has the
// RecentDeployments newest deployments of each type, type by type, the newest first.
func MarkUse(stored []StoredModule, history []actor.Deployment, now time.Time) {
	kept := make(map[actor.Digest]bool)
	ended := make(map[actor.Digest]time.Time)
	var serving actor.Digest
	hasPrevious := false
	for i, d := range history {
		if i == 0 || history[i-1].Type != d.Type {
			serving, hasPrevious = d.Digest, false
			kept[d.Digest] = true
			continue
		}
		if end := history[i-1].CreatedAt; end.After(ended[d.Digest]) {
			ended[d.Digest] = end
		}
		if !hasPrevious && !d.Undeployed() && d.Digest != serving {
			hasPrevious = true
			kept[d.Digest] = true
		}
	}
	for i := range stored {
		m := &stored[i]
		end := ended[m.Digest]
		m.Kept = kept[m.Digest] || now.Sub(end) < keptAfterServing
		if end.After(m.UsedAt) {
			m.UsedAt = end
		}
	}
}

// MakeRoom returns the modules of an app to be removed so that another one fits, of so many
// bytes, if all may have most: of those that are not kept the least recently used ones, and no
// more than need be. The error is actor.ErrModulesFull with the numbers if those are not enough. stored
// is sorted.
func MakeRoom(app string, stored []StoredModule, bytes, most int64) ([]actor.Digest, error) {
	var all, kept int64
	for _, m := range stored {
		all += m.Bytes
		if m.Kept {
			kept += m.Bytes
		}
	}
	if most == 0 || all+bytes <= most {
		return nil, nil
	}
	if kept+bytes > most {
		return nil, &actor.ReasonError{Condition: actor.ErrModulesFull, Reason: fmt.Sprintf(
			"the modules of app %s that serve types, did so in the last %v or are what a rollback goes back to take %d bytes, and this one %d, of at most %d by --max-stored-modules of the server; undeploy types or delete modules that are not needed, or have the limit raised",
			app, keptAfterServing, kept, bytes, most)}
	}
	slices.SortFunc(stored, func(a, b StoredModule) int {
		return cmp.Or(a.UsedAt.Compare(b.UsedAt), cmp.Compare(a.Digest, b.Digest))
	})
	var gone []actor.Digest
	for _, m := range stored {
		if all+bytes <= most {
			break
		}
		if !m.Kept {
			gone = append(gone, m.Digest)
			all -= m.Bytes
		}
	}
	return gone, nil
}

package meter

import (
	"cmp"
	"errors"
	"fmt"
)

// Names of what the rewriting adds.
const (
	ImportModule = "greenroom_meter"
	ImportRefill = "refill"
	ExportFuel   = "greenroom_fuel"
	ExportDepth  = "greenroom_depth"
)

// DepthExceeded is what refill is called with when the calls are too deep.
const DepthExceeded int64 = -1 << 63

// MaxFuel is the most that a host may have in the fuel global at a time: more is
// for the next refill.
const MaxFuel = 1 << 30

// ErrMetered is a module that was metered before, or pretends to be.
var ErrMetered = errors.New("the module is metered already")

// Config bounds a metered module.
type Config struct {
	// MaxDepth is the initial value of the depth global, and what a host resets
	// it to. At most 1<<30. Defaults to 10,000, with which compiled code uses a
	// few megabytes of stack, of the 400 that wazero allows.
	MaxDepth uint32
	// ImportCost is charged for each direct call of an imported function, on top of
	// a call's own weight: for a host that cannot charge for what it does.
	ImportCost uint32
	// MaxMemoryPages clamps the memory that the module defines, in pages of
	// 64 KiB. A module that starts with more is refused. 0 leaves it as it is.
	MaxMemoryPages uint32
	// MaxTableElements clamps each table that the module defines, in elements, of
	// which engines take eight bytes and more for each. A module that starts with
	// more in one is refused. 0 leaves them as they are.
	MaxTableElements uint32
	// MaxBytes bounds the code of the metered module, which may have many times the
	// bytes of its original's: a [SizeError] beyond it. 0 sets no bound.
	MaxBytes int
}

// Report says what the rewriting did.
type Report struct {
	Functions int // of the module itself
	Free      int // too small to be charged themselves
	Recursive int // counted in depth; indirect calls may be, too
	Loops     int // charged at their headers
}

// MemoryError is a module that starts with more memory than it may have.
type MemoryError struct{ Pages, Limit uint32 }

func (e *MemoryError) Error() string {
	return fmt.Sprintf("the module starts with %d pages of memory (%d KiB); at most %d (%d KiB) are allowed",
		e.Pages, e.Pages*64, e.Limit, e.Limit*64)
}

// TableError is a module that starts with more in a table than it may have.
type TableError struct{ Elements, Limit uint32 }

func (e *TableError) Error() string {
	return fmt.Sprintf("the module starts with a table of %d elements; at most %d are allowed", e.Elements, e.Limit)
}

// SizeError is a module whose code would have too many bytes.
type SizeError struct {
	Limit int
	// Function is the number of the function that is the first to have no place.
	Function uint32
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("the metered code up to the function number %d has more than %d bytes", e.Function, e.Limit)
}

// Rewrite returns the metered form of a module. The input is left as it is. It
// is deterministic and may be called concurrently.
func Rewrite(wasm []byte, cfg Config) ([]byte, Report, error) {
	cfg.MaxDepth = cmp.Or(cfg.MaxDepth, 10_000)
	cfg.MaxDepth = min(cfg.MaxDepth, 1<<30) // leaves room to go below zero
	m, err := parse(wasm)
	if err != nil {
		return nil, Report{}, fmt.Errorf("meter: %w", err)
	}
	w, err := newRewriter(m, cfg)
	if err != nil {
		return nil, Report{}, fmt.Errorf("meter: %w", err)
	}
	out, err := w.rewrite(len(wasm))
	if err != nil {
		return nil, Report{}, fmt.Errorf("meter: %w", err)
	}
	return out, w.report, nil
}

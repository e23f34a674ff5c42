package actor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"
)

// Digest names a module by its SHA-256, as 64 lower-case hexadecimal digits.
type Digest string

// DigestOf returns the digest of a module's bytes, in one part or several.
func DigestOf(wasm ...[]byte) Digest {
	sum := sha256.New()
	for _, part := range wasm {
		_, _ = sum.Write(part) // never fails
	}
	return Digest(hex.EncodeToString(sum.Sum(nil)))
}

// Code is a module's bytes, which may be too many to have them in memory: those of a
// [bytes.Reader] or of an [io.SectionReader].
type Code interface {
	io.ReaderAt
	Size() int64
}

// DigestOfCode reads the code, a piece after the other.
func DigestOfCode(c Code) (Digest, error) {
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(c, 0, c.Size()))
	if err == nil && n != c.Size() {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", fmt.Errorf("read the module: %w", err)
	}
	return Digest(hex.EncodeToString(sum.Sum(nil))), nil
}

// Short returns the first 12 digits, for people.
func (d Digest) Short() string {
	if len(d) > 12 {
		return string(d[:12])
	}
	return string(d)
}

// Module describes a stored module, without its bytes.
type Module struct {
	App    string
	Digest Digest
	Size   int64 // bytes
	// Manifest is the module's own manifest in JSON, as abi/manifest.Parse reads it.
	Manifest  []byte
	CreatedAt time.Time // database time
}

// Deployment is what serves one actor type of one app from one generation on.
type Deployment struct {
	App  string
	Type string
	// Generation counts the deployments of this type from 1.
	Generation uint64
	// Digest is the module's; empty from an undeployment on: nothing serves the
	// type then.
	Digest Digest
	// StateSchema is the module's; of an undeployment that of the one before it.
	StateSchema uint32
	// RolledBackFrom is the generation that a rollback left, 0 otherwise.
	RolledBackFrom uint64
	// Placement is the policy of the type that goes before its module's; empty: there
	// is none. Deployments that follow keep it until it is changed.
	Placement string
	// Message says why, in the words of whoever deployed; often empty.
	Message   string
	CreatedAt time.Time // database time
}

// Undeployed reports whether the deployment took its type out of service.
func (d Deployment) Undeployed() bool { return d.Digest == "" }

// Fault is one thing wrong with an uploaded module.
type Fault struct {
	// Code is one lower-case word or more, joined by underscores, for programs:
	// "unknown_import", "missing_export", …
	Code string
	// Message names what is wrong and what to change, for people.
	Message string
}

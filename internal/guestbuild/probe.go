package guestbuild

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Status is what [Probe] found of one toolchain.
type Status struct {
	Toolchain string // "go", "tinygo" or "cargo"
	// Version is what the compiler says of itself, empty if it is not there.
	Version string
	// Why it is this version and not the first on PATH; often empty.
	Why string
	// Err says why it cannot build guests, and the remedy; nil if it can.
	Err error
	// Note says which guests it cannot build though it builds others; often empty.
	Note string
}

// Probe looks for every toolchain: go, tinygo and cargo, in this order.
func Probe(ctx context.Context) []Status {
	return []Status{probeGo(ctx), tinyGoStatus(ctx), cargoStatus(ctx, distributionRust)}
}

// minGo is the first Go that the Go SDK compiles with.
var minGo = version{1, 25}

func probeGo(ctx context.Context) Status {
	st := Status{Toolchain: Go}
	if _, err := exec.LookPath("go"); err != nil {
		st.Err = missingGo()
		return st
	}
	out, err := exec.CommandContext(ctx, "go", "version").Output()
	if err != nil {
		st.Err = &ToolchainError{Problem: fmt.Sprintf("`go version` failed (%v)", err), Remedy: "reinstall Go from https://go.dev/dl"}
		return st
	}
	st.Version = strings.TrimPrefix(strings.TrimSpace(string(out)), "go version ")
	if v, ok := findVersion(st.Version); ok && v.less(minGo) {
		st.Err = &ToolchainError{Problem: fmt.Sprintf("Go %s is too old", v), Remedy: fmt.Sprintf("install Go %s or newer from https://go.dev/dl", minGo)}
	}
	return st
}

func tinyGoStatus(ctx context.Context) Status {
	v, unfit := probeTinyGo(ctx)
	st := Status{Toolchain: TinyGo}
	if unfit != nil {
		st.Err = unfit // only then: a nil pointer in an interface is an error
	}
	if v != (version{}) {
		st.Version = v.String()
	}
	return st
}

func cargoStatus(ctx context.Context, distribution string) Status {
	r, err := findRust(ctx, distribution)
	st := Status{Toolchain: Cargo, Version: r.version, Why: r.why, Err: err}
	if err == nil && r.builds == buildsWithoutFeatures {
		st.Note = fmt.Sprintf("builds guests without features of the SDK; for serde and macros their newest versions need Rust %s", minRustFeatures)
	}
	return st
}

// minRust is the first Rust that the crate compiles with, without features; the
// newest versions of what its features take need minRustFeatures.
var minRust, minRustFeatures = version{1, 63}, version{1, 68}

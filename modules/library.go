package modules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/store"
)

// library is the part of a [Service] that keeps the modules.
type library struct {
	store          store.Modules
	inspector      Inspector
	maxBytes       int64
	maxStoredBytes int64
	log            *slog.Logger
	// hosts and imports are those of [Config].
	hosts   func(ctx context.Context) ([]actor.Host, error)
	imports func(ctx context.Context, app string, d actor.Digest) ([]string, error)
}

// Stage is how far an upload has come.
type Stage uint8

// The stages, in order. A module that is known already passes none of them.
const (
	StageValidating Stage = 1
	StageStoring    Stage = 2
)

// maxTries bounds how often a change is tried again after its answer was lost
// or another one came first.
const maxTries = 8

// Upload inspects a module and stores it. Nothing is stored of a module that is
// refused: an [*actor.InvalidModuleError] with every fault found,
// [actor.ErrModuleTooLarge], or [actor.ErrModulesFull]. Modules of the app are removed to
// make room, as [store.MakeRoom] says. A module that is there already counts as new, and its
// bytes are put right if they are damaged. progress is called at the start of each stage, on
// the caller's goroutine; it may be nil. wasm is read piece by piece, but for what the
// Inspector does.
func (l *library) Upload(ctx context.Context, app string, wasm actor.Code, progress func(Stage)) (actor.Module, error) {
	if err := actor.ValidateName("app", app); err != nil {
		return actor.Module{}, err
	}
	if wasm.Size() > l.maxBytes {
		return actor.Module{}, fmt.Errorf("the module has %d bytes; at most %d are allowed, by --max-module of the server: %w", wasm.Size(), l.maxBytes, actor.ErrModuleTooLarge)
	}
	digest, err := actor.DigestOfCode(wasm)
	if err != nil {
		return actor.Module{}, err
	}
	known, err := l.store.Module(ctx, app, digest)
	if err == nil {
		if known, err = l.put(ctx, known, wasm); err != nil {
			return actor.Module{}, fmt.Errorf("upload module %s again: %w", digest.Short(), err)
		}
		return known, nil
	}
	if !errors.Is(err, actor.ErrModuleNotFound) {
		return actor.Module{}, fmt.Errorf("upload module %s: %w", digest.Short(), err)
	}
	if progress == nil {
		progress = func(Stage) {}
	}

	progress(StageValidating)
	manifest, faults, err := l.inspector.Inspect(engine.WithOwner(ctx, engine.Owner{App: app}), wasm)
	if err != nil {
		return actor.Module{}, fmt.Errorf("upload module %s: %w", digest.Short(), err)
	}
	if len(faults) > 0 {
		return actor.Module{}, &actor.InvalidModuleError{Faults: faults}
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return actor.Module{}, fmt.Errorf("upload module %s: encode manifest: %w", digest.Short(), err)
	}

	progress(StageStoring)
	m, err := l.put(ctx, actor.Module{App: app, Digest: digest, Size: wasm.Size(), Manifest: text}, wasm)
	if err != nil {
		return actor.Module{}, fmt.Errorf("upload module %s: %w", digest.Short(), err)
	}
	l.log.Info("module stored", "app", app, "module", digest.Short(), "bytes", m.Size)
	return m, nil
}

// put stores a module and reads it back, for the time that the store gave it.
func (l *library) put(ctx context.Context, m actor.Module, wasm actor.Code) (actor.Module, error) {
	var err error
	for range maxTries {
		if err = l.store.PutModule(ctx, m, wasm, l.maxStoredBytes); !errors.Is(err, actor.ErrAmbiguous) {
			break
		}
	}
	if err != nil {
		return actor.Module{}, err
	}
	return l.store.Module(ctx, m.App, m.Digest)
}

// Module returns a module's description. d may be a prefix of at least 6
// digits. The error is [actor.ErrModuleNotFound] or an [*actor.ArgumentError].
func (l *library) Module(ctx context.Context, app string, d actor.Digest) (actor.Module, error) {
	d, err := l.resolve(ctx, app, d)
	if err != nil {
		return actor.Module{}, err
	}
	m, err := l.store.Module(ctx, app, d)
	if err != nil {
		return actor.Module{}, fmt.Errorf("module %s: %w", d.Short(), err)
	}
	return m, nil
}

// List returns modules in order of digest above after, at most limit (1 to
// 1000, 0 meaning 100).
func (l *library) List(ctx context.Context, app string, after actor.Digest, limit int) ([]actor.Module, error) {
	if err := actor.ValidateName("app", app); err != nil {
		return nil, err
	}
	ms, err := l.store.ListModules(ctx, app, after, pageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("list modules: %w", err)
	}
	return ms, nil
}

// Apps returns the apps that have modules, or had a type deployed, in byte order
// above after, at most limit (1 to 1000, 0 meaning 100).
func (l *library) Apps(ctx context.Context, after string, limit int) ([]store.AppInfo, error) {
	apps, err := l.store.ListApps(ctx, after, pageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("list apps: %w", err)
	}
	return apps, nil
}

// Bytes returns a module as it was uploaded. d may be a prefix.
func (l *library) Bytes(ctx context.Context, app string, d actor.Digest) ([]byte, error) {
	d, err := l.resolve(ctx, app, d)
	if err != nil {
		return nil, err
	}
	return l.ModuleBytes(ctx, app, d)
}

// ModuleBytes returns the bytes of the module with exactly this digest, checked
// against it; [actor.ErrModuleNotFound], [actor.ErrModuleDamaged].
func (l *library) ModuleBytes(ctx context.Context, app string, d actor.Digest) ([]byte, error) {
	wasm, err := l.store.ModuleBytes(ctx, app, d)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", d.Short(), err)
	}
	if got := actor.DigestOf(wasm); got != d {
		return nil, fmt.Errorf("read module %s: its bytes have the digest %s: %w", d.Short(), got.Short(), actor.ErrModuleDamaged)
	}
	return wasm, nil
}

// Delete removes a module that serves no type now: [actor.ErrModuleInUse]
// otherwise. d may be a prefix. Generations that used it can no longer be
// rolled back to.
func (l *library) Delete(ctx context.Context, app string, d actor.Digest) error {
	d, err := l.resolve(ctx, app, d)
	if err != nil {
		return err
	}
	if err := l.store.DeleteModule(ctx, app, d); err != nil {
		return fmt.Errorf("delete module %s: %w", d.Short(), err)
	}
	l.log.Info("module deleted", "app", app, "module", d.Short())
	return nil
}

// resolve returns the digest that d abbreviates. A whole digest is returned
// without a look at the store.
func (l *library) resolve(ctx context.Context, app string, d actor.Digest) (actor.Digest, error) {
	if err := actor.ValidateName("app", app); err != nil {
		return "", err
	}
	prefix, err := parseDigest(d)
	if err != nil || len(prefix) == digestDigits {
		return actor.Digest(prefix), err
	}
	ms, err := l.store.ListModules(ctx, app, justBelow(prefix), maxCandidates+1)
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", prefix, err)
	}
	var found []string
	for _, m := range ms {
		if strings.HasPrefix(string(m.Digest), prefix) {
			found = append(found, string(m.Digest))
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("find module %s in app %s: %w", prefix, app, actor.ErrModuleNotFound)
	case 1:
		return actor.Digest(found[0]), nil
	}
	more := ""
	if len(found) > maxCandidates {
		found, more = found[:maxCandidates], " and more"
	}
	return "", &actor.ArgumentError{Field: "digest", Problem: fmt.Sprintf("%s is ambiguous; give more digits: it may be %s%s", prefix, strings.Join(found, ", "), more)}
}

// manifest reads a stored module's manifest, and the module's size;
// [actor.ErrModuleDamaged] if the manifest cannot be understood.
func (l *library) manifest(ctx context.Context, app string, d actor.Digest) (found *abi.Manifest, size int64, err error) {
	m, err := l.store.Module(ctx, app, d)
	if err != nil {
		return nil, 0, fmt.Errorf("module %s: %w", d.Short(), err)
	}
	parsed, faults := manifest.Parse(m.Manifest)
	if len(faults) > 0 {
		return nil, 0, fmt.Errorf("module %s: %s: %w", d.Short(), faults[0].Message, actor.ErrModuleDamaged)
	}
	return parsed, m.Size, nil
}

const (
	defaultPage = 100
	maxPage     = 1000
)

func pageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}

// checkHosts refuses to deploy what a host of the cluster does not know.
func (l *library) checkHosts(ctx context.Context, app string, d actor.Digest) error {
	hosts, err := l.hosts(ctx)
	if err != nil {
		return fmt.Errorf("read the hosts of the cluster: %w", err)
	}
	hosts = slices.DeleteFunc(hosts, func(h actor.Host) bool { return h.MaxProtocol >= newest })
	if len(hosts) == 0 {
		return nil
	}
	uses, err := l.uses(ctx, app, d)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		for _, u := range uses {
			if h.MaxProtocol < u.since {
				return &actor.ReasonError{Condition: actor.ErrHostTooOld, Reason: fmt.Sprintf(
					"the host %s at %s, which runs version %s, does not know %s; upgrade it first", h.Name, h.Address, h.Version, u.what)}
			}
		}
	}
	return nil
}

// uses returns what a module uses, in the order of names.
func (l *library) uses(ctx context.Context, app string, d actor.Digest) ([]use, error) {
	m, err := l.store.Module(ctx, app, d)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", d.Short(), err)
	}
	functions, err := l.imports(ctx, app, d)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", d.Short(), err)
	}
	var uses []use
	for _, f := range functions {
		uses = append(uses, use{"the host function " + f, since(introduced.functions, f)})
	}
	var text any
	if err := json.Unmarshal(m.Manifest, &text); err != nil {
		return nil, fmt.Errorf("module %s: %w: %w", d.Short(), actor.ErrModuleDamaged, err)
	}
	found := map[string]bool{}
	members(text, "", found)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		uses = append(uses, use{"the member " + name + " of its manifest", since(introduced.members, name)})
	}
	return uses, nil
}

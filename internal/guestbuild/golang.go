package guestbuild

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// minTinyGo is the version that the Go SDK is written for: internal/lint checks
// that the SDK uses nothing that this TinyGo's library lacks.
var minTinyGo = version{0, 40}

// goEnv keeps a guest's build apart from what surrounds it: an enclosing
// workspace, flags that the user sets for native builds. GOFLAGS is not empty,
// since an empty one would let `go env -w` speak.
func goEnv() []string {
	return []string{"GOWORK=off", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0"}
}

func (b *build) goGuest(ctx context.Context, toolchain string) (string, error) {
	name, err := goModuleName(filepath.Join(b.dir, "go.mod"))
	if err != nil {
		return "", err
	}
	if files, _ := filepath.Glob(filepath.Join(b.dir, "*.go")); len(files) == 0 { // the pattern is sound
		return "", &FolderError{Dir: b.dir, Problem: "has a go.mod and no Go files, so no guest; name the folder of one, such as examples/counter"}
	}
	if toolchain != Go {
		_, unfit := probeTinyGo(ctx)
		if unfit == nil {
			err := b.tinyGo(ctx, name)
			var compile *CompileError
			if toolchain == TinyGo || !errors.As(err, &compile) || !tinyGoRefusesGo(compile.Output) {
				return TinyGo, err
			}
			unfit = &ToolchainError{Problem: "the TinyGo on PATH does not know this Go version", Remedy: "install a newer TinyGo"}
		}
		if toolchain == TinyGo {
			return "", unfit
		}
		if !unfit.Missing {
			b.note("%v; building with go instead, which makes a larger module", unfit)
		}
	}
	return Go, b.standardGo(ctx, name)
}

func (b *build) tinyGo(ctx context.Context, name string) error {
	return b.place(name, func(tmp string) error {
		_, err := b.run(ctx, TinyGo, goEnv(), "tinygo", "build", "-o", tmp,
			"-target=wasip1", "-buildmode=c-shared", "-scheduler=none", "-no-debug", ".")
		return err
	})
}

func (b *build) standardGo(ctx context.Context, name string) error {
	if _, err := exec.LookPath("go"); err != nil {
		return missingGo()
	}
	return b.place(name, func(tmp string) error {
		env := append(goEnv(), "GOOS=wasip1", "GOARCH=wasm")
		// -s would take two percent off the module, and the names of functions with
		// it, without which the stack of a trap says nothing.
		_, err := b.run(ctx, Go, env, "go", "build", "-o", tmp,
			"-buildmode=c-shared", "-trimpath", "-ldflags", "-w", ".")
		return err
	})
}

func missingGo() error {
	return &ToolchainError{Missing: true, Problem: "go is not on PATH", Remedy: "install Go 1.25 or newer from https://go.dev/dl"}
}

// tinyGoRefusesGo recognises TinyGo's complaint about a Go that is newer than
// itself, which it makes before it looks at the guest.
func tinyGoRefusesGo(output string) bool {
	return strings.Contains(output, "requires go version")
}

// probeTinyGo returns the version of the TinyGo on PATH, or why it is unfit.
func probeTinyGo(ctx context.Context) (version, *ToolchainError) {
	if _, err := exec.LookPath("tinygo"); err != nil {
		return version{}, &ToolchainError{Missing: true, Problem: "tinygo is not on PATH", Remedy: "install it from https://tinygo.org/getting-started"}
	}
	out, err := exec.CommandContext(ctx, "tinygo", "version").Output()
	if err != nil {
		return version{}, &ToolchainError{Problem: fmt.Sprintf("`tinygo version` failed (%v)", err), Remedy: "reinstall TinyGo"}
	}
	v, ok := findVersion(string(out))
	if !ok {
		return version{}, &ToolchainError{Problem: fmt.Sprintf("`tinygo version` printed no version: %q", out), Remedy: "reinstall TinyGo"}
	}
	if v.less(minTinyGo) {
		return v, &ToolchainError{Problem: fmt.Sprintf("TinyGo %s is too old", v), Remedy: fmt.Sprintf("install TinyGo %s or newer", minTinyGo)}
	}
	return v, nil
}

// version is major and minor: all that the choice of a toolchain looks at.
type version [2]int

func (v version) less(w version) bool { return v[0] < w[0] || v[0] == w[0] && v[1] < w[1] }
func (v version) String() string      { return fmt.Sprintf("%d.%d", v[0], v[1]) }

var versionRE = regexp.MustCompile(`\b(?:go)?(\d+)\.(\d+)`)

// findVersion returns the first version in what a `version` command printed.
func findVersion(s string) (version, bool) {
	m := versionRE.FindStringSubmatch(s)
	if m == nil {
		return version{}, false
	}
	major, err1 := strconv.Atoi(m[1])
	minor, err2 := strconv.Atoi(m[2])
	return version{major, minor}, err1 == nil && err2 == nil
}

// goModuleName returns the last element of a go.mod's module path that is not
// a major version.
func goModuleName(gomod string) (string, error) {
	f, err := os.Open(gomod)
	if err != nil {
		return "", fmt.Errorf("read guest module: %w", err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line, _, _ := strings.Cut(sc.Text(), "//")
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[0] != "module" {
			continue
		}
		modPath := strings.Trim(fields[1], "\"`")
		name := path.Base(modPath)
		if majorRE.MatchString(name) && path.Dir(modPath) != "." {
			name = path.Base(path.Dir(modPath))
		}
		if name == "." || name == "/" {
			break
		}
		return name, nil
	}
	return "", &FolderError{Dir: filepath.Dir(gomod), Problem: "has a go.mod without a module line; run `go mod init NAME` there"}
}

var majorRE = regexp.MustCompile(`^v[0-9]+$`)

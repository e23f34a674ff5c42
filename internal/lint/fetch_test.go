package lint

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOthersFetchTheModules serves the tree from a file proxy, as it would be published,
// and has go load the command line from it, and a module of somebody else's the client and
// the SDK: no replacement, no exclusion and no file of this checkout is needed.
func TestOthersFetchTheModules(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	const path = "github.com/greenroom-run/greenroom"
	version := regexp.MustCompile(regexp.QuoteMeta(path) + `/abi (v\S+)`).FindSubmatch(goMod)
	if version == nil {
		t.Fatal("go.mod requires no version of " + path + "/abi")
	}
	v := string(version[1])
	proxy := t.TempDir()
	for _, folder := range []string{"", "abi", "guest-sdk/go"} {
		publish(t, proxy, filepath.Join(root, folder), strings.TrimSuffix(path+"/"+folder, "/"), v)
	}
	downloads, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, upstream, _ := strings.Cut(strings.TrimSpace(string(downloads)), "\n")
	modules := t.TempDir() // its own, so that no later test meets these modules under this version
	t.Cleanup(func() {
		clean := exec.Command("go", "clean", "-modcache")
		clean.Env = append(os.Environ(), "GOMODCACHE="+modules)
		if out, err := clean.CombinedOutput(); err != nil {
			t.Errorf("remove the modules: %v\n%s", err, out)
		}
	})
	run := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GOBIN="+t.TempDir(), "GOMODCACHE="+modules,
			"GONOSUMDB="+path, "GONOPROXY=none",
			"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(cache)+"/cache/download,"+upstream)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%.4000s", strings.Join(args, " "), err, out)
		}
	}
	// -n loads every package and what it embeds, and compiles nothing.
	run(t.TempDir(), "install", "-n", path+"/cmd/greenroom@"+v)

	user := t.TempDir()
	if err := os.WriteFile(filepath.Join(user, "go.mod"), []byte("module example.com/user\n\ngo 1.26\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run(user, "get", path+"/client@"+v, path+"/guest-sdk/go/actor@"+v)
	run(user, "list", "-deps", path+"/client", path+"/guest-sdk/go/actor", path+"/guest-sdk/go/actortest")
}

// publish puts the module in a folder of the repository into a file proxy, as go does: what
// git knows of it, without the folders that are modules of their own.
func publish(t *testing.T, proxy, folder, path, version string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", folder, "ls-files").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(out))
	var nested []string
	for _, f := range files {
		if dir := filepath.ToSlash(filepath.Dir(f)); dir != "." && filepath.Base(f) == "go.mod" {
			nested = append(nested, dir+"/")
		}
	}
	dir := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(archive)
next:
	for _, f := range files {
		for _, n := range nested {
			if strings.HasPrefix(f, n) {
				continue next
			}
		}
		text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(f)))
		if err != nil {
			t.Fatal(err)
		}
		entry, err := w.Create(path + "@" + version + "/" + f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := entry.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"list": version + "\n", version + ".info": `{"Version":"` + version + `"}`, version + ".mod": string(goMod)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

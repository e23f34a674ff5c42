package node

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestOpenFilesAreTold: a start says what other users of the machine can read or
// write and should not.
func TestOpenFilesAreTold(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no such permissions here")
	}
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	folder := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		cfg  Config
		told bool
	}{
		"private":          {Config{CacheDir: folder("c1", 0o700), SecretsKeyFile: file("k1", 0o600), PrivateFiles: []string{file("t1", 0o400)}}, false},
		"a cache to write": {Config{CacheDir: folder("c2", 0o722)}, true},
		"a cache to read":  {Config{CacheDir: folder("c3", 0o755)}, true},
		"a key to read":    {Config{SecretsKeyFile: file("k2", 0o640)}, true},
		"a key to write":   {Config{SecretsKeyFile: file("k3", 0o602)}, true},
		"tokens to read":   {Config{PrivateFiles: []string{file("t2", 0o604)}}, true},
		"nothing":          {Config{CacheDir: filepath.Join(dir, "none")}, false},
	} {
		var log bytes.Buffer
		tt.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		(&Node{cfg: tt.cfg}).warnOfOpenFiles()
		if told := strings.Contains(log.String(), "other users"); told != tt.told {
			t.Errorf("%s: %q", name, log.String())
		}
	}
}

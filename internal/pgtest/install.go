//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// binFolder returns the folder with PostgreSQL's server programs: the newest
// that Debian's packages installed, else the one on PATH.
func binFolder() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.SortFunc(found, func(a, b string) int { return majorVersion(b) - majorVersion(a) })
	for _, program := range found {
		if folder := filepath.Dir(program); complete(folder) {
			return folder, nil
		}
	}
	if program, err := exec.LookPath("postgres"); err == nil {
		// Links, as Homebrew makes them, lead to the folder with the rest.
		if real, err := filepath.EvalSymlinks(program); err == nil && complete(filepath.Dir(real)) {
			return filepath.Dir(real), nil
		}
		if complete(filepath.Dir(program)) {
			return filepath.Dir(program), nil
		}
	}
	return "", errors.New("PostgreSQL is not installed, and these tests need it; run build/postgres/setup.sh, " +
		"or on Debian and Ubuntu: apt-get install -y --no-install-recommends postgresql")
}

func majorVersion(program string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program))))
	return n
}

func complete(folder string) bool {
	for _, name := range []string{"postgres", "initdb", "psql"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// serverUser returns whom the server runs as: nil for the user of this process.
func serverUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as")
}

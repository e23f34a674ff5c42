package node

import (
	"io/fs"
	"log/slog"
	"os"
)

// warnOfOpenFiles tells of files and folders that other users of the machine can
// read or write, and should not. Where there are no such permissions, as on
// Windows, it finds nothing.
func (n *Node) warnOfOpenFiles() {
	for _, f := range n.cfg.PrivateFiles {
		n.warnIfOpen("a file of secrets", "chmod 600", f, 0o077)
	}
	if key := n.cfg.secretsKeyFile(); key != "" {
		n.warnIfOpen("a file of secrets", "chmod 600", key, 0o077)
	}
	if n.cfg.CacheDir != "" {
		// What is read from there runs as machine code.
		n.warnIfOpen("the folder of compiled modules", "chmod 700", n.cfg.CacheDir, 0o077)
	}
}

// warnIfOpen warns if path has one of the permissions.
func (n *Node) warnIfOpen(what, remedy, path string, permissions fs.FileMode) {
	info, err := os.Stat(path)
	if err != nil {
		return // its reader tells
	}
	if open := info.Mode().Perm() & permissions; open != 0 {
		n.cfg.Logger.Warn("other users can read or write what only its owner should", slog.String("what", what), slog.String("remedy", remedy), slog.String("path", path), slog.String("permissions", info.Mode().Perm().String()))
	}
}

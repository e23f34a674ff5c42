package settings

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// KeyID names a key; it tells nothing of it.
type KeyID string

// Keyring are the keys that secrets are sealed with. The first seals, all open.
type Keyring struct {
	keys []key
}

type key struct {
	id   KeyID
	aead cipher.AEAD
}

const (
	keyBytes  = 32
	sealMagic = "GRS1"
	idBytes   = 8
)

// ReadKeyFile reads a file with a key on each line, 64 hexadecimal digits; empty
// lines and those that begin with # are skipped. The error never has a key in it.
func ReadKeyFile(path string) (*Keyring, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the secrets' keys: %w", err)
	}
	ring, err := parseKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("read the secrets' keys from %s: %w", path, err)
	}
	return ring, nil
}

// MakeKeyFile reads the file, and makes it with a new key if there is none. Only the
// file's owner can read it. One process at a time may make it: the holder of the lock
// of the folder.
func MakeKeyFile(path string) (*Keyring, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := writeKeyFile(path); err != nil {
			return nil, fmt.Errorf("make a key for secrets: %w", err)
		}
	}
	return ReadKeyFile(path)
}

// writeKeyFile leaves the whole file or none, whenever a crash comes: a secret
// sealed with a key that is lost is lost as well.
func writeKeyFile(path string) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".secrets-*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already, if all went well
	secret := make([]byte, keyBytes)
	rand.Read(secret) // never fails: see crypto/rand
	_, err = fmt.Fprintf(f, "# Greenroom's key for secrets. Without it they cannot be read.\n%x\n", secret)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func parseKeys(text string) (*Keyring, error) {
	ring := &Keyring{}
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		secret, err := hex.DecodeString(line)
		if err != nil || len(secret) != keyBytes {
			return nil, fmt.Errorf("line %d is not a key of 64 hexadecimal digits; restore the file if there are secrets already, or make a key with: openssl rand -hex 32", n+1)
		}
		block, err := aes.NewCipher(secret)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(append([]byte("greenroom key id\x00"), secret...))
		ring.keys = append(ring.keys, key{KeyID(hex.EncodeToString(sum[:idBytes])), aead})
	}
	if len(ring.keys) == 0 {
		return nil, errors.New("it has no key; restore the file if there are secrets already, or make a key with: openssl rand -hex 32")
	}
	return ring, nil
}

func (r *Keyring) seal(app, name string, value []byte) []byte {
	k := r.keys[0]
	id, _ := hex.DecodeString(string(k.id)) // made by EncodeToString
	nonce := make([]byte, k.aead.NonceSize())
	rand.Read(nonce)
	sealed := append([]byte(sealMagic), id...)
	sealed = append(sealed, nonce...)
	return k.aead.Seal(sealed, nonce, value, about(app, name))
}

// about is what is authenticated with a secret.
func about(app, name string) []byte { return []byte("greenroom secret\x00" + app + "\x00" + name) }

// sealedUnder returns the ID of the key that a sealed value was sealed with.
func sealedUnder(sealed []byte) (KeyID, bool) {
	rest, ok := bytes.CutPrefix(sealed, []byte(sealMagic))
	if !ok || len(rest) < idBytes {
		return "", false
	}
	return KeyID(hex.EncodeToString(rest[:idBytes])), true
}

func (r *Keyring) open(app, name string, sealed []byte) ([]byte, error) {
	id, ok := sealedUnder(sealed)
	if !ok {
		return nil, errors.New("the stored secret is damaged; set it again")
	}
	for _, k := range r.keys {
		if k.id != id {
			continue
		}
		rest := sealed[len(sealMagic)+idBytes:]
		if len(rest) < k.aead.NonceSize() {
			break
		}
		value, err := k.aead.Open(nil, rest[:k.aead.NonceSize()], rest[k.aead.NonceSize():], about(app, name))
		if err != nil {
			break
		}
		return value, nil
	}
	if !r.has(id) {
		return nil, fmt.Errorf("the secret was sealed with the key %s, which this server does not have; add it to the file of --secrets-key-file, or set the secret again", id)
	}
	return nil, errors.New("the stored secret is damaged; set it again")
}

func (r *Keyring) has(id KeyID) bool {
	for _, k := range r.keys {
		if k.id == id {
			return true
		}
	}
	return false
}

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
)

// authority makes certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, "ca")
	return a
}

// sign writes NAME.pem and NAME.key; the first certificate signs itself.
func (a *authority) sign(template *x509.Certificate, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "EC PRIVATE KEY", keyDER)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// Over TLS with client certificates all calls work, unary and streamed, and
// only for those who have one.
func TestClientCertificates(t *testing.T) {
	a := newAuthority(t)
	a.sign(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, "server")
	a.sign(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, "client")
	n, err := node.New(node.Config{
		DataDir: t.TempDir(),
		Server: server.Config{Config: edge.Config{Addr: "127.0.0.1:0", TLS: edge.TLSConfig{
			CertFile: a.path("server.pem"), KeyFile: a.path("server.key"), ClientCAFile: a.path("ca.pem"),
		}}},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	junk := a.path("junk.wasm")
	if err := os.WriteFile(junk, []byte("\x00asm\x01\x00\x00\x00junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "https://" + n.Addr().String()
	trust := []string{"--server", url, "--ca-cert", a.path("ca.pem")}
	known := append([]string{"--client-cert", a.path("client.pem"), "--client-key", a.path("client.key")}, trust...)
	for _, tc := range []struct {
		name   string
		args   []string
		status int
		stderr string
	}{
		{"a call", append([]string{"types"}, known...), exitOK, "app default has no actor types"},
		{"an upload", append([]string{"modules", "upload", junk}, known...), exitFailed, "the module was refused"},
		{"no certificate", append([]string{"types"}, trust...), exitFailed, url},
		{"an unknown authority", []string{"types", "--server", url}, exitFailed, "--ca-cert"},
		{"half a certificate", append([]string{"types", "--client-cert", a.path("client.pem")}, trust...), exitUsage, "--client-cert and --client-key go together"},
		{"no certificate in the file", []string{"types", "--server", url, "--ca-cert", junk}, exitUsage, "holds no certificate in PEM"},
		{"plain HTTP", []string{"types", "--server", strings.Replace(url, "https", "http", 1)}, exitFailed, "if it speaks TLS: --server https://"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status := run(t.Context(), tc.args, strings.NewReader(""), &stdout, &stderr, noEnv)
			if status != tc.status || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("status %d, %q; want %d with %q", status, stderr.String(), tc.status, tc.stderr)
			}
		})
	}
}

package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", nil, nil)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign makes name.pem and name.key; parent nil: by itself.
func (a *authority) sign(name string, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
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
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// client trusts the authority and shows a certificate, if named.
func (a *authority) client(http2 bool, certificate string) *http.Client {
	a.t.Helper()
	conf := &tls.Config{RootCAs: x509.NewCertPool()}
	conf.RootCAs.AddCert(a.cert)
	if certificate != "" {
		cert, err := tls.LoadX509KeyPair(a.file(certificate+".pem"), a.file(certificate+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	p := new(http.Protocols)
	p.SetHTTP1(!http2)
	p.SetHTTP2(http2)
	tr := &http.Transport{TLSClientConfig: conf, Protocols: p}
	a.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	ca.sign("server", ca.cert, ca.key)
	f := start(t, func(c *Config) {
		c.TLS = edge.TLSConfig{CertFile: ca.file("server.pem"), KeyFile: ca.file("server.key")}
	})
	for _, p := range protocols() {
		actors := greenroomv1connect.NewActorServiceClient(ca.client(p.http2, ""), f.url, p.opts...)
		if _, err := actors.Query(t.Context(), connect.NewRequest(&greenroomv1.QueryRequest{Actor: &greenroomv1.ActorKey{Type: "T", Id: "a"}, Method: "Get"})); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	if a := do(t, ca.client(false, ""), "GET", f.url+"/healthz", ""); a.TLS == nil || a.TLS.Version < tls.VersionTLS12 {
		t.Errorf("%+v", a.TLS)
	}
	if res, err := client(t, false).Get("http://" + f.Addr().String() + "/healthz"); err == nil {
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			t.Error("answers plain text on a TLS port")
		}
	}
}

func TestClientCertificates(t *testing.T) {
	ca := newAuthority(t)
	ca.sign("server", ca.cert, ca.key)
	ca.sign("friend", ca.cert, ca.key)
	other := newAuthority(t)
	other.sign("stranger", other.cert, other.key)
	for _, name := range []string{"stranger.pem", "stranger.key"} {
		data, err := os.ReadFile(other.file(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ca.file(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := start(t, func(c *Config) {
		c.Addr = "0.0.0.0:0" // certificates are enough to be reached by others
		c.TLS = edge.TLSConfig{CertFile: ca.file("server.pem"), KeyFile: ca.file("server.key"), ClientCAFile: ca.file("ca.pem")}
	})
	_, port, err := net.SplitHostPort(f.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	base := "https://127.0.0.1:" + port
	for _, http2 := range []bool{false, true} {
		if a := do(t, ca.client(http2, "friend"), "PUT", base+actorPath(key("a"), "Add"), "1"); a.StatusCode != http.StatusOK {
			t.Errorf("friend: %s", a.Status)
		}
		// A browser shows the certificate on behalf of any page.
		if a := do(t, ca.client(http2, "friend"), "PUT", base+actorPath(key("a"), "Add"), "1", "Origin", "https://evil.example"); a.StatusCode != http.StatusForbidden {
			t.Errorf("friend, on behalf of another page: %s", a.Status)
		}
		for _, who := range []string{"", "stranger"} {
			res, err := ca.client(http2, who).Get(base + "/healthz")
			if err == nil {
				_ = res.Body.Close()
				t.Errorf("certificate %q: %s", who, res.Status)
			}
		}
	}
}

func TestBadClientAuthority(t *testing.T) {
	ca := newAuthority(t)
	conf := Config{Backends: rpc.Backends{Host: &fakeHost{}, Modules: newFakeModules(), Actors: fakeLister(0)}}
	for _, file := range []string{ca.file("none"), ca.file("ca.key")} {
		conf.TLS = edge.TLSConfig{CertFile: ca.file("ca.pem"), KeyFile: ca.file("ca.key"), ClientCAFile: file}
		if _, err := New(conf); err == nil {
			t.Errorf("%s was taken", file)
		}
	}
}

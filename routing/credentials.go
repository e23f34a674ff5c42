package routing

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"time"
)

// Credentials prove to the other hosts of a cluster that this one belongs to it. They
// are immutable.
type Credentials struct {
	name string // of all hosts' certificates
	cert tls.Certificate
	cas  *x509.CertPool
}

// ServerName is the name in the certificates of a cluster's hosts. Hosts ask for it when they
// connect to each other, so that a listener can tell them from clients.
func ServerName(cluster string) string {
	return strings.ToLower(cluster) + ".cluster.greenroom.internal"
}

// MinClusterKey is how long a cluster key is at least, in bytes.
const MinClusterKey = 32

// CredentialsFromKey reads a cluster key, which is the same on all hosts: at least
// [MinClusterKey] bytes that are hard to guess, such as the output of openssl rand -hex 32. White
// space around it does not count. Whoever has the key can be a host of the cluster.
//
// The key of an authority is derived from the cluster key, and signs a certificate for this
// process. Nothing is written to disk.
func CredentialsFromKey(file, cluster string) (*Credentials, error) {
	secret, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the cluster key: %w", err)
	}
	secret = []byte(strings.TrimSpace(string(secret)))
	if len(secret) < MinClusterKey {
		return nil, fmt.Errorf("the cluster key in %s has %d bytes; give at least %d, for example of: openssl rand -hex 32", file, len(secret), MinClusterKey)
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "greenroom cluster authority "+cluster, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive the cluster's authority: %w", err)
	}
	return issue(ed25519.NewKeyFromSeed(seed), cluster)
}

// Certificates are valid for so long before and after the start of the process: clocks of
// hosts may be wrong by hours, and a holder of the cluster key can make new ones at any time.
const (
	certificateBefore = 48 * time.Hour
	certificateAfter  = 10 * 365 * 24 * time.Hour
)

// issue makes the certificate of an authority and one of this process.
func issue(authority ed25519.PrivateKey, cluster string) (*Credentials, error) {
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "greenroom cluster " + cluster},
		NotBefore: now.Add(-certificateBefore), NotAfter: now.Add(certificateAfter),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, authority.Public(), authority)
	if err != nil {
		return nil, fmt.Errorf("make the cluster's authority: %w", err)
	}
	if ca, err = x509.ParseCertificate(caDER); err != nil {
		return nil, fmt.Errorf("make the cluster's authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a host's key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a host's certificate: %w", err)
	}
	name := ServerName(cluster)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "greenroom host"}, DNSNames: []string{name},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca, key.Public(), authority)
	if err != nil {
		return nil, fmt.Errorf("make a host's certificate: %w", err)
	}
	cas := x509.NewCertPool()
	cas.AddCert(ca)
	return &Credentials{name: name, cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, cas: cas}, nil
}

// CredentialFiles names files in PEM form. All are needed.
type CredentialFiles struct {
	Cert, Key string // of this host; the certificate has [ServerName] among its names
	CA        string // the authorities; each host's certificate is signed by one of them
}

// CredentialsFromFiles reads certificates.
func CredentialsFromFiles(f CredentialFiles, cluster string) (*Credentials, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("load the certificate between hosts: %w", err)
	}
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("load the certificate between hosts: %w", err)
	}
	name := ServerName(cluster)
	if leaf.VerifyHostname(name) != nil {
		return nil, fmt.Errorf("the certificate in %s is for %s; it needs the DNS name %s, by which hosts of the cluster %q know each other", f.Cert, orNothing(leaf.DNSNames), name, cluster)
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, use) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
			return nil, fmt.Errorf("the certificate in %s is not for both servers and clients; hosts call each other: issue it with both uses", f.Cert)
		}
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("load the authorities between hosts: %w", err)
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("load the authorities between hosts: %s has no certificate in PEM form", f.CA)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: cas, Intermediates: intermediates(cert), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return nil, fmt.Errorf("the certificate in %s is not of the authorities in %s: %w", f.Cert, f.CA, err)
	}
	return &Credentials{name: name, cert: cert, cas: cas}, nil
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "no name"
	}
	return strings.Join(names, ", ")
}

// intermediates are the certificates that come with a host's own.
func intermediates(c tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, der := range c.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			pool.AddCert(cert)
		}
	}
	return pool
}

// Client is the configuration of connections to peers.
func (c *Credentials) Client() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.cert}, RootCAs: c.cas, ServerName: c.name}
}

// Server is the configuration of connections from peers. It asks for their certificates,
// which have the cluster's name.
func (c *Credentials) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.cert},
		ClientCAs: c.cas, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
		VerifyConnection: func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(c.name) },
	}
}

// isTLSError reports whether a handshake failed: nothing was sent.
func isTLSError(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert)
}

// explain adds to an error between hosts what to change, if that is known.
func explain(err error, cluster string) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("its certificate is not of this cluster's authority; give all hosts the same --cluster-key-file, or certificates of the authorities in --cluster-ca: %w", err)
	case errors.As(err, &name):
		return fmt.Errorf("its certificate is not for %s; give all hosts of one database the same --cluster-name (here %q), and certificates with that name: %w", ServerName(cluster), cluster, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("its certificate is over, or not valid yet: renew it, and look at the clocks of both hosts: %w", err)
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("it speaks plain text, this host TLS; give all hosts the same --cluster-key-file or certificates: %w", err)
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls"):
		return fmt.Errorf("it refused this host's certificate; give all hosts the same --cluster-name and --cluster-key-file, or certificates of the same authority: %w", err)
	}
	return err
}

package edge

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/greenroom-run/greenroom/server/failure"
)

// unadmitted logs the connections that are not admitted, at the level of debugging. A connection
// of a would-be host of the cluster is a warning, once for each address: an operator who gave a
// host the wrong key may look into the log of any host.
type unadmitted struct {
	log *slog.Logger
	// peers are the addresses, with ports, of the latest connections that asked for the
	// cluster's name.
	peers *lru.Cache[string, struct{}]
	said  *lru.Cache[string, struct{}] // the addresses, without ports, that were warned of
}

// keptAddresses bounds the addresses that are remembered.
const keptAddresses = 1024

func (s *unadmitted) init(log *slog.Logger) {
	s.log = log
	s.peers, _ = lru.New[string, struct{}](keptAddresses) // fails for no size
	s.said, _ = lru.New[string, struct{}](keptAddresses)
}

// watch returns a configuration that notes who asks for it: that of peers.
func (s *unadmitted) watch(peers *tls.Config) *tls.Config {
	watched := peers.Clone()
	watched.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		s.peers.Add(h.Conn.RemoteAddr().String(), struct{}{})
		return peers, nil
	}
	return watched
}

// handshakeError is how a line of [net/http.Server] begins that tells of a handshake: the
// address and the error follow.
const handshakeError = "http: TLS handshake error from "

// Write gets lines of [net/http.Server].
func (s *unadmitted) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if failed, ok := strings.CutPrefix(text, handshakeError); ok {
		addr, why, _ := strings.Cut(failed, ": ")
		if s.peers.Remove(addr) && !strings.HasSuffix(why, "EOF") { // which it did not begin in earnest
			s.warn(addr, why)
			return len(line), nil
		}
	}
	s.log.LogAttrs(context.Background(), slog.LevelDebug, "connection failed", slog.String("error", text))
	return len(line), nil
}

// refused notes that a request was not of a host of the cluster, though only those ask.
func (s *unadmitted) refused(addr string, why *failure.Error) { s.warn(addr, why.Error()) }

func (s *unadmitted) warn(addr, why string) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	level := slog.LevelDebug
	if warned, _ := s.said.ContainsOrAdd(host, struct{}{}); !warned {
		level = slog.LevelWarn
	}
	s.log.LogAttrs(context.Background(), level, "a host was not let into the cluster; give all hosts the same --cluster-name and --cluster-key-file, or certificates of the same authority, and one whose clock is right",
		slog.String("remote", addr), slog.String("error", why))
}

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/scheduler"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
	"github.com/greenroom-run/greenroom/store"
)

// DefaultCluster is the name of a cluster that nobody named.
const DefaultCluster = "greenroom"

// ClusterConfig says how a node takes part in the cluster of its database. The zero value of
// a field means its default.
type ClusterConfig struct {
	// Name is the cluster's, the same for all processes of a database. Defaults to
	// [DefaultCluster].
	Name string
	// HostName is what people call this process. Defaults to the machine's name.
	HostName string
	// Advertise is where the other processes reach this one, HOST:PORT. Defaults to
	// where it listens for them, if that is one address, or else to the address of this
	// machine that leads to the database.
	Advertise string
	// AdvertiseAPI is where clients reach this process, HOST:PORT, as replies name it.
	// Defaults to the host of Advertise and the API's port, where the API speaks plain
	// text; otherwise to none, since what its certificate is for is not known.
	AdvertiseAPI string
	// Listen is a listener for the other processes alone, HOST:PORT. Defaults to the
	// API's.
	Listen string
	// Roles are scheduler.RoleHost, scheduler.RoleScheduler or both, the default.
	Roles []string
	// Lease is how long actors of a process that crashed wait, the same in all
	// processes. Defaults to [scheduler.DefaultLease].
	Lease time.Duration
	// KeyFile has the cluster's key, Files its certificates instead: what processes
	// prove with that they belong to the cluster. Neither is needed on loopback.
	KeyFile string
	Files   routing.CredentialFiles
	// Sticky makes ring types sticky: those of StickyTypes, or all if it is empty.
	Sticky      bool
	StickyTypes []string
	// MaxProtocol is the newest protocol between processes that this one speaks. Defaults
	// to [scheduler.MaxProtocol]; an older one, from [scheduler.MinProtocol] on, is what a
	// process of an earlier version speaks.
	MaxProtocol int
	// Weight is how many new sticky actors come to this process, in units of what comes to a
	// mean one. Defaults to what follows from its processors and [Config.GuestMemory].
	Weight float64
	// MaxOwned and OwnerCache are as in [scheduler.Config].
	MaxOwned, OwnerCache int
}

// cluster is the node's part in a cluster.
type cluster struct {
	cfg      ClusterConfig
	log      func(msg string, args ...any)
	tls      *routing.Credentials // nil: plain text
	token    string
	service  *scheduler.Service
	router   *routing.Router
	mods     *modules.Service
	listener net.Listener // the API's
	peers    net.Listener // nil: the same
}

// held is what a host asks of the cluster; before the node has joined, nothing is held.
type held struct {
	service atomic.Pointer[scheduler.Service]
}

// Holds implements [host.Ownership].
func (o *held) Holds(key actor.Key, policy string) actor.Hold {
	if s := o.service.Load(); s != nil {
		return s.Holds(key, policy)
	}
	return actor.NotHeld
}

// Hosts returns how many hosts the cluster has, of which this one may be the only one; 1 for a nil held.
func (o *held) Hosts() int {
	if o == nil {
		return 1
	}
	if s := o.service.Load(); s != nil {
		return max(1, s.Members())
	}
	return 1
}

func (o *held) Current(now time.Time) bool {
	s := o.service.Load()
	return s != nil && s.Current(now)
}

func (o *held) Reads(key actor.Key) bool {
	s := o.service.Load()
	return s != nil && s.Reads(key)
}

func (o *held) Fenced(key actor.Key) {
	if s := o.service.Load(); s != nil {
		s.Fenced(key)
	}
}

// peers is what a host calls the actors of others by. It is not asked before the node has a
// router: nothing runs until then.
type peers struct{ *routing.Router }

// clusterHosts returns what finds the hosts of the cluster, also those that run no actors: a leader
// that does not know groups of types has nothing handed over when a type leaves one. nil for a
// node that is alone, without a conf.
func clusterHosts(conf *ClusterConfig, st store.Cluster) func(context.Context) ([]actor.Host, error) {
	if conf == nil {
		return nil
	}
	return func(ctx context.Context) ([]actor.Host, error) {
		hosts, now, err := st.Hosts(ctx)
		return slices.DeleteFunc(hosts, func(h actor.Host) bool { return !h.ExpiresAt.After(now) }), err
	}
}

// typesChanged notifies the service that this process serves other types, or newer ones.
func (o *held) typesChanged() {
	if o == nil {
		return
	}
	if s := o.service.Load(); s != nil {
		s.TypesChanged()
	}
}

// credentials reads what the node proves with that it belongs to the cluster; nil for
// none.
func (c ClusterConfig) credentials() (*routing.Credentials, error) {
	files := c.Files != routing.CredentialFiles{}
	switch {
	case files && c.KeyFile != "":
		return nil, errors.New("node config: both a cluster key and cluster certificates are given; give one of them")
	case files:
		return routing.CredentialsFromFiles(c.Files, c.Name)
	case c.KeyFile != "":
		return routing.CredentialsFromKey(c.KeyFile, c.Name)
	}
	return nil, nil //nolint:nilnil // none is fine
}

func (c ClusterConfig) withDefaults() ClusterConfig {
	c.Name = cmp.Or(c.Name, DefaultCluster)
	if c.HostName == "" {
		c.HostName, _ = os.Hostname() // for people
	}
	c.MaxProtocol = cmp.Or(c.MaxProtocol, scheduler.MaxProtocol)
	c.Lease = cmp.Or(c.Lease, scheduler.DefaultLease)
	return c
}

// newCluster takes the addresses at which the node will listen, and prepares its part in
// the cluster. What it returns is closed by the node's stop.
func (n *Node) newCluster(ctx context.Context, st store.Cluster, mods *modules.Service, h *host.Host, own *held, others *peers) (*cluster, error) {
	c := &cluster{cfg: n.cfg.Cluster.withDefaults(), mods: mods, token: n.cfg.Server.Token, log: n.cfg.Logger.Info}
	if p := c.cfg.MaxProtocol; p < scheduler.MinProtocol || p > scheduler.MaxProtocol {
		return nil, fmt.Errorf("node config: Cluster.MaxProtocol is %d; give one from %d to %d", p, scheduler.MinProtocol, scheduler.MaxProtocol)
	}
	var err error
	if c.tls, err = c.cfg.credentials(); err != nil {
		return nil, err
	}
	if err := c.listen(ctx, n); err != nil {
		return nil, err
	}
	advertise, err := c.advertise(n.cfg.StoreURL)
	if err != nil {
		return nil, err
	}
	if c.cfg.AdvertiseAPI != "" {
		if _, _, err := splitAdvertised(c.cfg.AdvertiseAPI); err != nil {
			return nil, fmt.Errorf("node config: AdvertiseAPI %q %w; give the address at which clients reach this host, --advertise-api HOST:PORT", c.cfg.AdvertiseAPI, err)
		}
	}
	dialer := scheduler.Dialer{Token: c.token}
	if c.tls != nil {
		dialer.TLS, dialer.Client = true, routing.NewHTTPClient(c.tls.Client(), nil, c.cfg.Lease)
	} else {
		dialer.Client = routing.NewHTTPClient(nil, nil, c.cfg.Lease)
	}
	dialer.Client = routing.ExplainErrors(dialer.Client, c.cfg.Name)
	c.service, err = scheduler.New(scheduler.Config{
		Store: st, Actors: h, Types: c.types, ReadTypes: mods.Refresh, Dial: dialer.Dial, Lease: c.cfg.Lease, MaxOwned: c.cfg.MaxOwned, OwnerCache: c.cfg.OwnerCache, Logger: n.cfg.Logger,
		Resources: placement.Resources{Processors: runtime.GOMAXPROCS(0), Memory: cmp.Or(n.cfg.GuestMemory, host.DefaultGuestMemory), Weight: c.cfg.Weight},
		Events:    n.metrics.ClusterEvents(), Clocks: scheduler.Clocks{Wall: n.cfg.wall, Boot: bootTime},
		Self: actor.Host{Name: c.cfg.HostName, Cluster: c.cfg.Name, Address: advertise, Roles: c.cfg.Roles, Version: n.cfg.Version,
			MinProtocol: scheduler.MinProtocol, MaxProtocol: c.cfg.MaxProtocol},
	})
	if err != nil {
		return nil, err
	}
	own.service.Store(c.service)
	conf := routing.Config{
		Local: h, Timers: h, Placement: c.service, Policy: c.policy, Readers: c.readers, Cluster: c.cfg.Name, APIAddress: c.apiAddress(n, advertise), Token: c.token,
		MinProtocol: scheduler.MinProtocol, MaxProtocol: c.cfg.MaxProtocol, PeerTimeout: c.cfg.Lease, Logger: n.cfg.Logger,
		Events: n.metrics.RoutingEvents(),
	}
	if c.tls != nil {
		conf.TLS = c.tls.Client()
	}
	if c.router, err = routing.New(conf); err != nil {
		return nil, err
	}
	others.Router = c.router
	return c, nil
}

// listen takes the addresses: what others are told must be known before anything runs.
func (c *cluster) listen(ctx context.Context, n *Node) error {
	var lc net.ListenConfig
	var err error
	addr := n.cfg.Server.Addr
	if addr == "" {
		addr = edge.DefaultAddr
	}
	if c.listener, err = lc.Listen(ctx, "tcp", addr); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	n.onStop("listener", closeOf(c.listener))
	if c.cfg.Listen == "" {
		return nil
	}
	if c.peers, err = lc.Listen(ctx, "tcp", c.cfg.Listen); err != nil {
		return fmt.Errorf("listen for other hosts: %w", err)
	}
	n.onStop("listener for other hosts", closeOf(c.peers))
	return nil
}

// closeOf closes a listener that its server may have closed.
func closeOf(l net.Listener) func(context.Context) error {
	return func(context.Context) error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

// advertise is where the other hosts reach this one.
func (c *cluster) advertise(storeURL string) (string, error) {
	l := c.listener
	if c.peers != nil {
		l = c.peers
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	if c.cfg.Advertise != "" {
		host, given, err := splitAdvertised(c.cfg.Advertise)
		if err != nil {
			return "", fmt.Errorf("node config: Advertise %q %w; give the address at which the other hosts reach this one, --advertise HOST:PORT", c.cfg.Advertise, err)
		}
		if given != "0" {
			port = given
		}
		return net.JoinHostPort(host, port), nil
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if ok && !addr.IP.IsUnspecified() {
		return l.Addr().String(), nil
	}
	err = errors.New("the URL of the store names no host")
	for _, db := range databaseAddresses(storeURL) {
		var conn net.Conn
		// No packet is sent: the machine's routes are asked.
		if conn, err = net.Dial("udp", db); err != nil { //nolint:noctx // asks nobody but, perhaps, the resolver
			continue
		}
		host, _, splitErr := net.SplitHostPort(conn.LocalAddr().String())
		_ = conn.Close()
		if err = splitErr; err == nil {
			return net.JoinHostPort(host, port), nil
		}
	}
	return "", fmt.Errorf("node config: this host listens at all of its addresses, and which one leads to the others is not known; give it with --advertise HOST:PORT: %w", err)
}

// splitAdvertised splits an address that others are to call.
func splitAdvertised(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err == nil && port != "" {
		_, err = net.LookupPort("tcp", port) //nolint:noctx // the names of ports are in a file
	}
	if err != nil || host == "" || port == "" || strings.ContainsAny(host, " /") {
		return "", "", errors.New("is not of the form HOST:PORT")
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return "", "", errors.New("is where a server listens at all of its addresses, and nobody can call it")
	}
	return host, port, nil
}

// databaseAddresses returns the addresses that a store's URL names: several, as in a URL of libpq.
func databaseAddresses(storeURL string) (addresses []string) {
	_, rest, _ := strings.Cut(storeURL, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	for host := range strings.SplitSeq(rest[strings.LastIndexByte(rest, '@')+1:], ",") {
		u := url.URL{Host: host}
		if u.Hostname() == "" {
			continue
		}
		port := u.Port()
		if port == "" {
			port = "5432"
		}
		addresses = append(addresses, net.JoinHostPort(u.Hostname(), port))
	}
	return addresses
}

// apiAddress is where clients reach this host; empty if that is not known.
func (c *cluster) apiAddress(n *Node, advertise string) string {
	if c.cfg.AdvertiseAPI != "" {
		return c.cfg.AdvertiseAPI
	}
	if n.cfg.Server.TLS.CertFile != "" {
		return ""
	}
	host, _, err := net.SplitHostPort(advertise)
	_, port, portErr := net.SplitHostPort(c.listener.Addr().String())
	if err != nil || portErr != nil {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// policy is how an actor type is placed; false if it is not known.
func (c *cluster) policy(app, typ string) (string, bool) {
	_, spec, err := c.mods.Current(app, typ)
	if err != nil {
		return "", false
	}
	return c.cfg.policyOf(spec), true
}

// readers returns who may answer a call beside the host that holds its actor.
func (c *cluster) readers(inv *actor.Invocation) (hosts []actor.HostID, here bool) {
	if inv.Consistency == actor.ConsistencyStrong || inv.Firing != nil {
		return nil, false
	}
	if hosts, here = c.service.Readers(inv.Key); len(hosts) == 0 {
		return nil, false
	}
	if !inv.ReadOnly {
		_, spec, err := c.mods.Current(inv.Key.App, inv.Key.Type)
		if err != nil || !slices.ContainsFunc(spec.Methods, func(m abi.MethodSpec) bool { return m.Name == inv.Method && m.ReadOnly }) {
			return nil, false
		}
	}
	if here {
		c.service.CountRead(inv.Key)
	}
	return hosts, here
}

// policyOf returns how this process places a type. It leaves types of a group as they are, since
// all types of one have the same placement.
func (c ClusterConfig) policyOf(spec *abi.TypeSpec) string {
	if c.Sticky && spec.Placement == abi.PlacementRing && spec.CoLocate.Group == "" && (len(c.StickyTypes) == 0 || slices.Contains(c.StickyTypes, spec.Name)) {
		return abi.PlacementSticky
	}
	return spec.Placement
}

// stickyModules are the modules of a process that was started with --sticky: its host
// sees the placement that routing and scheduling see.
type stickyModules struct {
	modules host.ModuleSource
	cluster ClusterConfig
}

// hostModules returns the modules as the host sees them.
func (n *Node) hostModules(mods host.ModuleSource) host.ModuleSource {
	if c := n.cfg.Cluster; c != nil && c.Sticky {
		return stickyModules{mods, *c}
	}
	return mods
}

// Current implements [host.ModuleSource].
func (s stickyModules) Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error) {
	d, spec, err := s.modules.Current(app, typ)
	if err != nil {
		return d, spec, err
	}
	if policy := s.cluster.policyOf(spec); policy != spec.Placement {
		changed := *spec // which is shared
		changed.Placement = policy
		spec = &changed
	}
	return d, spec, nil
}

func (s stickyModules) Changes() uint64 { return s.modules.Changes() }

func (s stickyModules) Refresh(ctx context.Context, app string) error {
	return s.modules.Refresh(ctx, app)
}

func (s stickyModules) ModuleBytes(ctx context.Context, app string, d actor.Digest) ([]byte, error) {
	return s.modules.ModuleBytes(ctx, app, d)
}

// types are those that this process can run.
func (c *cluster) types() []scheduler.Type {
	var all []scheduler.Type
	for _, t := range c.mods.Known() {
		all = append(all, scheduler.Type{
			App: t.Deployment.App, Name: t.Deployment.Type, Placement: c.cfg.policyOf(t.Spec), Generation: t.Deployment.Generation, CoLocate: t.Spec.CoLocate,
		})
	}
	return all
}

// serve adds the cluster to the configuration of the server.
func (c *cluster) serve(cfg *server.Config) {
	cfg.Host, cfg.Interconnect, cfg.Listener = c.router, c.router, c.listener
	cfg.Standstill = c.cfg.Lease / 2
	cfg.Peers = &edge.Peers{Addr: c.cfg.Listen, Listener: c.peers, Credentials: c.tls, Cluster: c.cfg.Name}
	cfg.PeerServices = []rpc.PeerService{{Handler: c.service.Handler(), Procedures: []string{greenroomv1connect.SchedulerServiceReportActorTypesProcedure}}}
}

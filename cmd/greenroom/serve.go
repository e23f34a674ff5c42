package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/spans"
)

// defaultDataDir is where serve keeps its data if nobody says otherwise.
const defaultDataDir = "greenroom-data"

func serveCommand(c *cli) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"start", "run", "server", "up"},
		Short:      "Run a server",
		Long: `Run a server until SIGINT or SIGTERM. The server then hands its actors over to the
other servers of its cluster, if there are any, takes no more calls, finishes the
calls under way, and exits. A second signal ends it at once; no acknowledged change
is lost.

Without --store, the server keeps everything in a folder of its own. With a CockroachDB
or PostgreSQL URL, it keeps everything there, and all servers of one database form
a cluster: each actor is held by one of them. Servers that reach each other
from other machines need the same --cluster-key-file.

The server listens on loopback. Any other address requires that callers authenticate,
with a token or a client certificate, or an explicit --insecure. Other users of this
machine can see a token in --token, but not one in GREENROOM_TOKEN or --token-file.

A limit of 0 is its default, except for --turn-fuel.`,
		Example: `  greenroom serve
  greenroom serve --data-dir /var/lib/greenroom --log-format json
  greenroom serve --store 'postgresql://root@db:26257/greenroom'
  greenroom serve --limit shop/Cart:max-state=2097152,turn-deadline=30s
  greenroom serve --listen :8443 --tls-cert cert.pem --tls-key key.pem --token-file token`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), c, cmd.Flags(), f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.listen, "listen", edge.DefaultAddr, "`HOST:PORT` to listen on; port 0 takes a free one (GREENROOM_LISTEN)")
	flags.StringVar(&f.dataDir, "data-dir", "", "`folder` of the embedded store (GREENROOM_DATA_DIR; default "+defaultDataDir+")")
	flags.StringVar(&f.store, "store", "", "CockroachDB or PostgreSQL `URL`, instead of --data-dir (GREENROOM_STORE)")
	flags.StringVar(&f.cacheDir, "cache-dir", "", "`folder` of compiled modules (GREENROOM_CACHE_DIR; default: cache in the data folder; with --store, greenroom in the user's cache folder)")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with the token that callers must send, instead of --token")
	flags.StringVar(&f.tokensFile, "tokens-file", "", "`file` with further tokens, each with a role, in JSON: docs/tokens.md (GREENROOM_TOKENS_FILE)")
	flags.StringVar(&f.secretsKeyFile, "secrets-key-file", "", "`file` with the keys that secrets are kept with (GREENROOM_SECRETS_KEY_FILE; default: secrets.key in the data folder, made if missing; with --store, none)")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "`file` with the server's certificate and its chain, in PEM: speak TLS")
	flags.StringVar(&f.tlsKey, "tls-key", "", "`file` with the certificate's private key")
	flags.StringVar(&f.clientCA, "client-ca", "", "`file` with the authorities that clients' certificates must come from")
	flags.BoolVar(&f.insecure, "insecure", false, "serve callers without authentication")
	flags.StringSliceVar(&f.corsOrigins, "cors-origin", nil, "`origin` whose web pages may call, or *; may be repeated")
	flags.BoolVar(&f.showStacks, "show-stacks", false, "send the Wasm stack of a guest that trapped to its caller")
	flags.DurationVar(&f.subscriberHeartbeat, "subscriber-heartbeat", edge.DefaultSubscriberHeartbeat, "how often a client that executes reminders must send a message; after three times as long without one it is given up")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.DurationVar(&f.drain, "drain-timeout", 30*time.Second, "how long calls may take to finish after a signal")
	flags.DurationVar(&f.drainDelay, "drain-delay", 0, "how long to keep serving after a signal while /readyz returns 503, so that load balancers notice; part of --drain-timeout (default 0s)")

	registerCluster(flags, &f.cluster)
	registerLimits(flags, &f.limits, host.DefaultLimits())
	flags.StringArrayVar(&f.overrides, "limit", nil, "other limits for one type or a whole app, `APP[/TYPE]:NAME=VALUE,…`; the names are those of the limits above, and pool, the pool that turns run in; without /TYPE it is for the app APP; may be repeated")
	flags.IntVar(&f.maxActivations, "max-actors", 0, "largest `number` of actors in memory (default 100000)")
	flags.IntVar(&f.maxRunning, "max-running-turns", 0, "largest `number` of turns whose guests run at the same time; apps share them, and a turn that waits for the store, a call or an HTTP answer does not count; turns that have just begun may be eight times as many while none waits (default: as many as the process may use processors)")
	flags.StringArrayVar(&f.pools, "pool", nil, "a pool of turns, `NAME:SETTING=N,…`; the settings are concurrency, weight or both: at most so many of its turns run at the same time, and while turns of several pools wait, each pool has processors by its weight; system, interconnect, user (where types are unless they say otherwise) and batch are always there; may be repeated (docs/limits.md)")
	flags.Int64Var(&f.stateMemory, "max-state-memory", 0, "largest memory of the states of actors, in `bytes` (default 1 GiB)")
	flags.Int64Var(&f.callMemory, "max-call-memory", 0, "largest memory of the calls under way, in `bytes`; requests and streams that are being read or answered have as much each (default 256 MiB)")
	flags.IntVar(&f.maxConnections, "max-connections", 0, "largest `number` of connections of clients, which addresses share; beyond it connections are closed (default 65536, or what the limit of open files allows beside 2048 for other uses)")
	flags.IntVar(&f.maxSubscriptions, "max-subscriptions", 0, "largest `number` of subscriptions of clients to events of actors, which apps share (default 20000)")
	flags.Int64Var(&f.guestMemory, "max-memory", 0, "largest memory of all guest instances, in `bytes` (default 2 GiB)")
	flags.Int64Var(&f.appMemory, "max-memory-per-app", 0, "largest memory of the guest instances of one app, in `bytes` (default half of --max-memory)")
	flags.Int64Var(&f.maxModule, "max-module", edge.DefaultMaxModuleBytes, "largest module, in `bytes`")
	flags.Int64Var(&f.maxStoredModules, "max-stored-modules", 0, "largest size of the modules that one app stores, in `bytes`; each counts at least 16 KiB; the least recently used make room (default 1 GiB)")
	flags.Int64Var(&f.cacheBytes, "max-cache", 0, "largest size of the folder of compiled modules, in `bytes`; code that is not deployed goes first, then that of the app that has most (default 1 GiB)")
	flags.Int64Var(&f.programMemory, "max-program-memory", 0, "largest memory of compiled modules, in `bytes`; apps share it; beyond it, unused modules are unloaded and no others are loaded; Extism plug-ins have as much again (default 256 MiB)")
	flags.IntVar(&f.compilers, "compilers", 0, "largest `number` of processes that compile modules; one more compiles light ones (default 1)")
	flags.Int64Var(&f.compileMemory, "compile-memory", 0, "largest memory of one of them, in `bytes` (default 512 MiB)")
	flags.DurationVar(&f.compileTime, "compile-time", 0, "how long one module may take to compile (default 45s)")
	flags.BoolVar(&f.readyWhenPrepared, "ready-when-prepared", false, "ready, for /readyz, only once all deployed modules are compiled")
	flags.StringVar(&f.cpuProfile, "cpu-profile", "", "write a processor profile of the whole run into this `file`")
	_ = flags.MarkHidden("cpu-profile") // for those who work on Greenroom
	completeFlag(cmd, "log-format", fixedCompletion("text", "json"))
	completeFlag(cmd, "log-level", fixedCompletion("debug", "info", "warn", "error"))
	return cmd
}

func serve(ctx context.Context, c *cli, flags *pflag.FlagSet, f serveFlags) error {
	cfg, err := nodeConfig(c, flags, f)
	if err != nil {
		return err
	}
	if f.cpuProfile != "" {
		file, err := os.Create(f.cpuProfile)
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	var told time.Time
	err = serveUntilDone(ctx, cfg, f.drain, func(*node.Node) error {
		<-ctx.Done()
		told = time.Now()
		cfg.Logger.Info("stopping", "drain_delay", f.drainDelay.String(), "drain_timeout", f.drain.String())
		return nil
	})
	if err == nil {
		cfg.Logger.Info("stopped", "took", time.Since(told).Round(time.Millisecond).String())
	}
	return err
}

// serveUntilDone starts a node, calls while, and stops the node. When ctx ends
// the node goes on until while returns, and then has drain to finish.
func serveUntilDone(ctx context.Context, cfg node.Config, drain time.Duration, while func(*node.Node) error) error {
	n, err := node.New(cfg)
	if err != nil {
		return err
	}
	running := context.WithoutCancel(ctx)
	starting, cancel := context.WithCancel(running)
	defer cancel()
	release := context.AfterFunc(ctx, cancel) // opening a database may take long
	if err := n.Start(starting); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("%w; stop what listens there, or name another address with --listen", err)
		}
		return err
	}
	release()
	err = while(n)
	stopping, cancelStop := context.WithTimeout(running, drain)
	defer cancelStop()
	return errors.Join(err, n.Stop(stopping))
}

// nodeConfig reads flags, environment and files.
func nodeConfig(c *cli, flags *pflag.FlagSet, f serveFlags) (node.Config, error) {
	if err := refuseNegative("", flags); err != nil {
		return node.Config{}, err
	}
	c.fromEnv(flags, "listen", "GREENROOM_LISTEN", &f.listen)
	if err := checkListen(f.listen); err != nil {
		return node.Config{}, err
	}
	switch {
	case (f.tlsCert == "") != (f.tlsKey == ""):
		return node.Config{}, usagef("--tls-cert and --tls-key go together; give both")
	case f.clientCA != "" && f.tlsCert == "":
		return node.Config{}, usagef("--client-ca needs --tls-cert and --tls-key: client certificates are part of TLS")
	case f.drainDelay > 0 && f.drainDelay >= f.drain:
		return node.Config{}, usagef("--drain-delay %v is part of --drain-timeout %v; give it less, or that more", f.drainDelay, f.drain)
	case flags.Changed("token") && f.tokenFile != "":
		return node.Config{}, usagef("--token and --token-file both name the token; give one of them")
	}
	c.fromEnv(flags, "secrets-key-file", "GREENROOM_SECRETS_KEY_FILE", &f.secretsKeyFile)
	c.fromEnv(flags, "tokens-file", "GREENROOM_TOKENS_FILE", &f.tokensFile)
	c.fromEnv(flags, "cache-dir", "GREENROOM_CACHE_DIR", &f.cacheDir)
	dataDirBy := c.fromEnv(flags, "data-dir", "GREENROOM_DATA_DIR", &f.dataDir)
	storeBy := c.fromEnv(flags, "store", "GREENROOM_STORE", &f.store)
	if f.dataDir == "" && f.store == "" {
		f.dataDir = defaultDataDir
	}
	if f.dataDir != "" && f.store != "" {
		return node.Config{}, usagef("%s and %s both name a store; give one of them", dataDirBy, storeBy)
	}
	if f.store != "" && f.cacheDir == "" {
		// Without a folder for it, every start compiles all modules again.
		if dir, err := os.UserCacheDir(); err == nil {
			f.cacheDir = filepath.Join(dir, "greenroom", "modules")
		}
	}
	token, err := serverToken(c, f.tokenFile)
	if err != nil {
		return node.Config{}, err
	}
	tokens, err := readTokens(f.tokensFile)
	if err != nil {
		return node.Config{}, err
	}
	if token == "" && len(tokens) == 0 && f.clientCA == "" && !f.insecure && !isLoopback(f.listen) {
		return node.Config{}, usagef("%s can be reached from other machines: give a token with --token-file or GREENROOM_TOKEN, or require client certificates with --client-ca, or let anyone in with --insecure", f.listen)
	}
	cluster, err := clusterConfig(c, flags, f)
	if err != nil {
		return node.Config{}, err
	}
	logger, err := newLogger(c.stderr, f.logFormat, f.logLevel)
	if err != nil {
		return node.Config{}, err
	}
	recorder, err := spans.FromEnvironment(context.Background(), binaryVersion(), logger)
	if err != nil {
		return node.Config{}, err
	}
	overrides, err := parseOverrides(f.overrides)
	if err != nil {
		return node.Config{}, err
	}
	if err := checkMemory(f, overrides); err != nil {
		return node.Config{}, err
	}
	pools, err := parsePools(f.pools)
	if err != nil {
		return node.Config{}, err
	}
	if err := checkPools(pools, overrides); err != nil {
		return node.Config{}, err
	}
	for scope := range overrides {
		if scope.Type == "" && scope.App != actor.DefaultApp {
			logger.Info("--limit is for a whole app; for a type give APP/TYPE", "app", scope.App)
		}
	}
	maxPayload := f.limits.PayloadBytes
	for _, l := range overrides {
		maxPayload = max(maxPayload, l.PayloadBytes)
	}
	return node.Config{
		DataDir:        f.dataDir,
		StoreURL:       f.store,
		CacheDir:       f.cacheDir,
		SecretsKeyFile: f.secretsKeyFile,
		PrivateFiles:   named(f.tokenFile, f.tokensFile, f.cluster.KeyFile, f.cluster.Files.Key),
		Cluster:        cluster,
		Version:        binaryVersion(),
		Server: server.Config{DrainDelay: f.drainDelay, Config: edge.Config{
			Addr:            f.listen,
			TLS:             edge.TLSConfig{CertFile: f.tlsCert, KeyFile: f.tlsKey, ClientCAFile: f.clientCA},
			Token:           token,
			Tokens:          tokens,
			Insecure:        f.insecure,
			AllowedOrigins:  f.corsOrigins,
			Spans:           recorder,
			MaxPayloadBytes: maxPayload,
			MaxModuleBytes:  f.maxModule,
			MaxConnections:  f.maxConnections,
			ShowStacks:      f.showStacks,

			MaxSubscriptions:    f.maxSubscriptions,
			SubscriberHeartbeat: f.subscriberHeartbeat,
		}},
		Limits:            f.limits,
		Overrides:         overrides,
		MaxActivations:    f.maxActivations,
		RunningTurns:      f.maxRunning,
		Pools:             pools,
		StateMemory:       f.stateMemory,
		CallMemory:        f.callMemory,
		GuestMemory:       f.guestMemory,
		GuestMemoryPerApp: f.appMemory,
		MaxStoredModules:  f.maxStoredModules,
		CacheBytes:        f.cacheBytes,
		ProgramMemory:     f.programMemory,
		Compilers:         f.compilers,
		CompileMemory:     f.compileMemory,
		CompileTime:       f.compileTime,
		ReadyWhenPrepared: f.readyWhenPrepared,
		Logger:            logger,
	}, nil
}

// named are the files that are named.
func named(files ...string) []string {
	return slices.DeleteFunc(files, func(f string) bool { return f == "" })
}

// checkListen refuses what the server would refuse as well, in the words of the
// command line.
func checkListen(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return usagef("--listen is %q; give HOST:PORT, with a port of 0 to 65535", addr)
	}
	return nil
}

// isLoopback reports whether only this machine reaches the address. The server
// judges for itself; this is for an error that names flags.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err != nil || host == "localhost" || ip != nil && ip.IsLoopback()
}

// serverToken returns the token that callers must send, empty for none.
func serverToken(c *cli, file string) (string, error) {
	if file == "" {
		return c.token, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read --token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	switch {
	case token == "":
		return "", usagef("--token-file %s is empty", file)
	case c.token != "" && c.token != token:
		return "", usagef("GREENROOM_TOKEN and --token-file name different tokens; give one of them")
	}
	return token, nil
}

func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usagef("--log-level is %q; give debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		opts.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindDuration { // "1.5s" as in text, not a number without a unit
				a.Value = slog.StringValue(a.Value.Duration().String())
			}
			return a
		}
		return slog.New(slog.NewJSONHandler(escapedJSON{w}, opts)), nil
	}
	return nil, usagef("--log-format is %q; give text or json", format)
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/engine/judge"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
)

const (
	// devPorts is how many ports from 8080 on dev tries, so that a few projects
	// run side by side.
	devPorts = 20
	// devDrain is short: a developer waits for it.
	devDrain = 5 * time.Second
)

type devFlags struct {
	listen  string
	dataDir string
	// manifest is the file of an Extism plug-in's manifest.
	manifest string
	build    buildFlags

	force             bool
	config, allowHTTP []string
	allowPrivate      bool

	compileTime time.Duration
}

func devCommand(c *cli) *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev [DIR]",
		Short: "Serve a guest here, rebuild and redeploy on change",
		Long: `Run a server for the guest in DIR (default: this folder): build and deploy it,
show what it logs, and do it again whenever a file changes. A version that does
not compile, or that the server refuses, changes nothing: the last good one
keeps serving.

State is kept in .greenroom/dev inside the folder; delete that to start afresh.`,
		Example: `  greenroom dev
  greenroom dev shop --listen 127.0.0.1:9000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return dev(cmd.Context(), c, optional(args, "."), f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.listen, "listen", "", "`HOST:PORT` to listen on (default: 127.0.0.1:8080, or the next free port)")
	flags.StringVar(&f.dataDir, "data-dir", "", "`folder` of the data (default: .greenroom/dev in DIR)")
	flags.BoolVar(&f.force, "force", false, "also deploy a module with an older state schema than the one deployed")
	flags.StringArrayVar(&f.config, "config", nil, "set a configuration value of the app, `NAME=VALUE`; may be repeated")
	flags.StringArrayVar(&f.allowHTTP, "allow-http", nil, "let the app's guests send requests to this `host`; may be repeated")
	flags.BoolVar(&f.allowPrivate, "allow-private", false, "with --allow-http: also allow addresses that are not public")
	flags.StringVar(&f.manifest, "manifest", "", "the manifest of an Extism plug-in, a JSON `file`")
	flags.DurationVar(&f.compileTime, "compile-time", 0, "how long a module may take to compile (default 45s)")
	f.build.register(cmd)
	return cmd
}

func dev(ctx context.Context, c *cli, dir string, f devFlags) error {
	if f.compileTime < 0 {
		return usagef("--compile-time is %s; give a time above 0", f.compileTime)
	}
	lang, err := guestbuild.Detect(dir)
	if err != nil {
		return err
	}
	if f.dataDir == "" {
		f.dataDir = filepath.Join(dir, ".greenroom", "dev")
	}
	if f.listen == "" {
		if f.listen, err = freeDevAddress(ctx); err != nil {
			return err
		}
	} else if err := checkListen(f.listen); err != nil {
		return err
	}
	if isLoopback(f.listen) {
		c.token = "" // meant for another server
	} else if c.token == "" {
		return usagef("%s can be reached from other machines: give a token with --token or GREENROOM_TOKEN", f.listen)
	}
	// Before the first build, so that no change is missed.
	watcher, err := watch(dir)
	if err != nil {
		return err
	}
	defer watcher.Close()

	logs := newGuestLogs(c)
	defer logs.Close()
	cfg := node.Config{
		DataDir:  f.dataDir,
		CacheDir: c.getenv("GREENROOM_CACHE_DIR"),
		Server:   server.Config{Config: edge.Config{Addr: f.listen, ShowStacks: true, Token: c.token}},
		GuestLog: logs.Add,
		TurnEnd:  logs.Call,

		CompileTime: f.compileTime,
		Logger:      slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	return serveUntilDone(ctx, cfg, devDrain, func(n *node.Node) error {
		c.server = "http://" + reachable(n.Addr())
		a, err := c.api()
		if err != nil {
			return err
		}
		if err := bootstrap(ctx, c, a, f); err != nil {
			return err
		}
		devBanner(c, dir, lang, f.dataDir)
		d := &devLoop{cli: c, dir: dir, flags: f, api: a}
		d.run(ctx, watcher.Changes)
		c.printf(c.stderr, "\nstopping\n")
		return nil
	})
}

// reachable returns the address to call a server at that listens on addr: all
// addresses of a machine are none to connect to.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
}

func devBanner(c *cli, dir string, lang guestbuild.Language, dataDir string) {
	name := filepath.Base(dir)
	if abs, err := filepath.Abs(dir); err == nil {
		name = filepath.Base(abs)
	}
	c.printf(c.stderr, "%s %s (%s)\n\n", c.paint(c.stderr, bold, "greenroom dev"), name, lang)
	c.facts(c.stderr, "  ", "API", c.server, "console", c.server+server.ConsolePath, "data", dataDir)
	c.printf(c.stderr, "\n")
	if c.server != "http://"+edge.DefaultAddr {
		c.printf(c.stderr, "commands in other shells ask %s; for this server: export GREENROOM_SERVER=%s\n\n", edge.DefaultAddr, c.server)
	}
}

// freeDevAddress returns the first loopback address that nobody listens on. It
// may be taken before it is used; then the server says so.
func freeDevAddress(ctx context.Context) (string, error) {
	host, first, err := net.SplitHostPort(edge.DefaultAddr)
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	port, err := strconv.Atoi(first)
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	var lc net.ListenConfig
	for i := range devPorts {
		addr := net.JoinHostPort(host, strconv.Itoa(port+i))
		l, err := lc.Listen(ctx, "tcp", addr)
		if err == nil {
			l.Close()
			return addr, nil
		}
	}
	return "", fmt.Errorf("the ports %d to %d of %s are all in use; name another with --listen", port, port+devPorts-1, host)
}

// devLoop builds and deploys one folder again and again. One goroutine runs it.
type devLoop struct {
	*cli
	dir   string
	flags devFlags
	api   *api

	deployed string // digest of what serves now
	greeted  bool
}

// run returns when ctx ends. What goes wrong is shown, and waits for the next
// change.
func (d *devLoop) run(ctx context.Context, changes <-chan struct{}) {
	for {
		if err := d.cycle(ctx); err != nil && ctx.Err() == nil {
			showError(d.cli, nil, err)
			if compilerWasSlow(describeError(d.cli, err)) {
				d.printf(d.stderr, "save again to retry, or start dev with a longer --compile-time\n")
			}
			if d.deployed != "" {
				d.printf(d.stderr, "%s\n", d.paint(d.stderr, dim, "the last good version keeps serving"))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
	}
}

// compilerWasSlow reports whether a module was refused for the time that it took
// to compile, which may be another at the next try.
func compilerWasSlow(e shownError) bool {
	return slices.ContainsFunc(e.Faults, func(f shownFault) bool { return f.Code == judge.CompileTime })
}

func (d *devLoop) cycle(ctx context.Context) error {
	r, err := build(ctx, d.cli, d.dir, "", d.flags.build)
	if err != nil {
		return err
	}
	wasm, err := os.ReadFile(r.Path)
	if err != nil {
		return fmt.Errorf("read module: %w", err)
	}
	if d.flags.manifest != "" {
		if wasm, err = withManifest(wasm, d.flags.manifest); err != nil {
			return err
		}
	}
	module, err := sendModule(ctx, d.api, d.app, wasm, &lines{cli: d.cli})
	if err != nil {
		return err
	}
	if module.Digest == d.deployed {
		d.printf(d.stderr, "%s\n", d.paint(d.stderr, dim, "the module is the same as before"))
		return nil
	}
	if err := d.deployModule(ctx, module); err != nil {
		return err
	}
	d.deployed = module.Digest
	if !d.greeted {
		d.greeted = true
		d.greet(module)
	}
	return nil
}

// deployModule deploys a module, unless it serves all its types already: since
// the last time that dev ran here.
func (d *devLoop) deployModule(ctx context.Context, m *greenroomv1.Module) error {
	served, err := listTypes(ctx, d.cli, d.api)
	if err != nil {
		return err
	}
	same := 0
	for _, t := range served {
		if t.Deployment.GetDigest() == m.Digest {
			same++
		}
	}
	if same == len(m.Types) {
		d.printf(d.stderr, "%s %s is deployed already\n", d.paint(d.stderr, green, "✓"), typeNames(m))
		return nil
	}
	resp, err := d.api.modules.Deploy(ctx, connect.NewRequest(&greenroomv1.DeployRequest{App: d.app, Digest: m.Digest, Force: d.flags.force}))
	if err != nil {
		return err
	}
	for _, dep := range resp.Msg.Deployments {
		d.printf(d.stderr, "%s deployed %s, generation %d\n", d.paint(d.stderr, green, "✓"), dep.Type, dep.Generation)
	}
	showCapabilities(d.cli, resp.Msg.Deployments)
	d.warnings(resp.Msg.Warnings)
	return nil
}

// greet prints lines to copy. It calls a read-only method if there is one, for
// that needs no payload to be guessed.
func (d *devLoop) greet(m *greenroomv1.Module) {
	typ := m.Types[0]
	method := typ.Methods[0]
	for _, candidate := range typ.Methods {
		if method.Private {
			method = candidate
		}
		if candidate.ReadOnly && !candidate.Private {
			method = candidate
			break
		}
	}
	call, curl := "greenroom call"+elsewhere(d.cli), "curl"
	if d.app != actor.DefaultApp {
		call += " --app " + d.app
	}
	if d.token != "" {
		curl += ` -H "Authorization: Bearer $GREENROOM_TOKEN"`
	}
	call += fmt.Sprintf(" %s alice %s", typ.Name, method.Name)
	if !method.ReadOnly {
		call += " '{}'"
		curl += " -X POST -H 'Content-Type: application/json' -d '{}'"
	}
	curl += fmt.Sprintf(" %s/v2.0/actors/%s/%s/alice/method/%s", d.server, d.app, typ.Name, method.Name)
	d.printf(d.stderr, "\nCall it from another terminal:\n\n  %s\n  %s\n\n", d.paint(d.stderr, cyan, call), d.paint(d.stderr, cyan, curl))
	d.printf(d.stderr, "  %s has the methods %s (%s)\n", typ.Name, methodNames(typ), methodMarks)
	d.printf(d.stderr, "\nWatching %s for changes; Ctrl-C stops.\n\n", d.dir)
}

// bootstrap gives the app what the flags of dev say.
func bootstrap(ctx context.Context, c *cli, a *api, f devFlags) error {
	if f.allowPrivate && len(f.allowHTTP) == 0 {
		return usagef("--allow-private says how --allow-http is meant; give that as well")
	}
	if err := setConfig(ctx, c, a, f.config); err != nil {
		return err
	}
	for _, host := range f.allowHTTP {
		if _, err := unary(ctx, a.settings.GrantHTTP, &greenroomv1.GrantHTTPRequest{App: c.app, Host: host, Private: f.allowPrivate}); err != nil {
			return err
		}
	}
	return nil
}

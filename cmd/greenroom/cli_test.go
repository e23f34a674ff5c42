package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/node"
)

func TestServerURL(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"https://example.com/", "https://example.com"},
		{"https://example.com/greenroom/", "https://example.com/greenroom"},
		{"localhost:8080", "http://localhost:8080"},
		{"[::1]:8080", "http://[::1]:8080"},
		{"ftp://example.com", ""},
		{"", ""},
		{"http://", ""},
		{"http://a b", ""},
	} {
		got, err := serverURL(tc.in)
		var usage *usageError
		if got != tc.want || (tc.want == "") != errors.As(err, &usage) {
			t.Errorf("serverURL(%q) = %q, %v; want %q", tc.in, got, err, tc.want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:8080": true, "127.8.8.8:1": true, "[::1]:80": true, "localhost:80": true,
		":8080": false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false, "example.com:80": false,
	} {
		if got := isLoopback(addr); got != want {
			t.Errorf("isLoopback(%q) = %v", addr, got)
		}
	}
}

func TestReachable(t *testing.T) {
	for _, test := range []struct{ listens, want string }{
		{"0.0.0.0:80", "127.0.0.1:80"},
		{"[::]:80", "127.0.0.1:80"},
		{"[::1]:80", "[::1]:80"},
		{"192.0.2.1:80", "192.0.2.1:80"},
	} {
		addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(test.listens))
		if got := reachable(addr); got != test.want {
			t.Errorf("reachable(%s) = %s, want %s", test.listens, got, test.want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 3453024: "3.3 MiB", 5 << 40: "5.0 TiB", 5 << 50: "5120.0 TiB",
	} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}

// Names come from guests and other users: none may steer the terminal.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"a/b || 🛒":         "a/b || 🛒",
		"\x1b[31mred":      "\uFFFD[31mred",
		"two\nlines":       "two\uFFFDlines",
		"\u009b31m":        "\uFFFD31m",
		"bad \xff utf":     "bad \uFFFD utf",
		"\x7f":             "\uFFFD",
		"no\u00a0break ok": "no\u00a0break ok",
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestClockFinding(t *testing.T) {
	sent := time.Date(2026, 1, 1, 12, 0, 0, 500e6, time.UTC)
	received := sent.Add(100 * time.Millisecond)
	for _, tc := range []struct {
		name string
		date string
		want verdict
		text string
	}{
		{"the same second", sent.Truncate(time.Second).Format(http.TimeFormat), verdictOK, "agrees"},
		{"a second behind, as far as seconds tell", sent.Add(-2 * time.Second).Format(http.TimeFormat), verdictOK, "agrees"},
		{"a minute behind", sent.Add(-time.Minute).Format(http.TimeFormat), verdictWarn, "behind by about 1m0s"},
		{"a minute ahead", sent.Add(time.Minute).Format(http.TimeFormat), verdictWarn, "ahead by about 59s"},
		{"no date", "", verdictWarn, "does not say"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := clockFinding(tc.date, sent, received); got.Verdict != tc.want || !strings.Contains(got.Found, tc.text) {
				t.Errorf("got %+v, want %s with %q", got, tc.want, tc.text)
			}
		})
	}
}

func TestParseOverrides(t *testing.T) {
	got, err := parseOverrides([]string{"shop:max-mailbox=5", "shop/Cart:max-state=4096,turn-deadline=30s", "shop/Cart:max-state=8192"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[host.Scope]host.Limits{
		{App: "shop"}:               {Mailbox: 5},
		{App: "shop", Type: "Cart"}: {StateBytes: 8192, TurnDeadline: 30 * time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for in, problem := range map[string]string{
		"shop":                 "give it as APP/TYPE:NAME=VALUE",
		":max-state=1":         "give it as APP/TYPE:NAME=VALUE",
		"shop:":                "give it as APP/TYPE:NAME=VALUE",
		"shop:max-state":       `"max-state" is not of the form NAME=VALUE`,
		"shop:max-stat=1":      `there is no limit "max-stat"; did you mean max-state?`,
		"shop:nonsense=1":      `there is no limit "nonsense"; the names are idempotency-window, `,
		"shop:max-state=large": "invalid argument",
		"shop:max-state=-1":    "--limit shop: --max-state is -1; give a value above 0",
		"sh op:max-state=1":    `app has the character " "`,
		"shop/C:t:max-state=1": `"t:max-state"`,
		"shop/C/t:max-state=1": `type has the character "/"`,
	} {
		if _, err := parseOverrides([]string{in}); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("parseOverrides(%q): %v, want %q", in, err, problem)
		}
	}
}

// A flag wins over its variable, also a flag that says the default.
func TestFlagsWinOverEnvironment(t *testing.T) {
	env := map[string]string{"GREENROOM_LISTEN": "127.0.0.1:9", "GREENROOM_STORE": "postgres://env", "GREENROOM_TOKEN": "env"}
	for _, tc := range []struct {
		name                 string
		args                 []string
		listen, store, token string
	}{
		{"none", nil, "127.0.0.1:9", "postgres://env", "env"},
		{"listen", []string{"--listen", "127.0.0.1:8080"}, "127.0.0.1:8080", "postgres://env", "env"},
		{"store", []string{"--store", "postgres://flag", "--token", "flag"}, "127.0.0.1:9", "postgres://flag", "flag"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, err := serveConfig(t, tc.args, env)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Server.Addr != tc.listen || cfg.DataDir != "" || cfg.StoreURL != tc.store || cfg.Server.Token != tc.token {
				t.Errorf("listens on %s, data in %q, store %q, token %q", cfg.Server.Addr, cfg.DataDir, cfg.StoreURL, cfg.Server.Token)
			}
		})
	}
}

// serveConfig is what serve makes of its flags and the environment.
func serveConfig(t *testing.T, args []string, env map[string]string) (node.Config, error) {
	t.Helper()
	c := &cli{console: console{stderr: new(bytes.Buffer), getenv: func(name string) string { return env[name] }}}
	cmd, _, err := rootCommand(c).Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if err := c.readGlobals(cmd); err != nil {
		t.Fatal(err)
	}
	value := func(flag string) string { return cmd.Flag(flag).Value.String() }
	subscriptions, err := cmd.Flags().GetInt("max-subscriptions")
	if err != nil {
		t.Fatal(err)
	}
	return nodeConfig(c, cmd.Flags(), serveFlags{
		listen: value("listen"), dataDir: value("data-dir"), store: value("store"), tokenFile: value("token-file"),
		logFormat: "text", logLevel: "info", cluster: node.ClusterConfig{Name: value("cluster-name")},
		maxSubscriptions: subscriptions,
	})
}

// TestBoundOfSubscriptionsIsGiven: serve gives the server the bound that its flag names.
func TestBoundOfSubscriptionsIsGiven(t *testing.T) {
	cfg, err := serveConfig(t, []string{"--max-subscriptions", "7"}, nil)
	if err != nil || cfg.Server.MaxSubscriptions != 7 {
		t.Errorf("%d subscriptions, %v; want 7", cfg.Server.MaxSubscriptions, err)
	}
}

// TestFlagAgainstVariable: a flag and a variable that exclude each other are refused, by
// the names that the user gave.
func TestFlagAgainstVariable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		env  map[string]string
		want string // in the error; empty: none
	}{
		{"folder and database", []string{"--data-dir", "d"}, map[string]string{"GREENROOM_STORE": "postgres://env"}, "--data-dir and GREENROOM_STORE both"},
		{"database and folder", []string{"--store", "postgres://flag"}, map[string]string{"GREENROOM_DATA_DIR": "d"}, "GREENROOM_DATA_DIR and --store both"},
		{"two variables", nil, map[string]string{"GREENROOM_DATA_DIR": "d", "GREENROOM_STORE": "postgres://env"}, "GREENROOM_DATA_DIR and GREENROOM_STORE both"},
		{"another token", []string{"--token-file", file}, map[string]string{"GREENROOM_TOKEN": "two"}, "GREENROOM_TOKEN and --token-file"},
		{"the same token", []string{"--token-file", file}, map[string]string{"GREENROOM_TOKEN": "one"}, ""},
	} {
		_, err := serveConfig(t, tc.args, tc.env)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// blocked is standard input that nobody types into.
type blocked struct{ done <-chan struct{} }

func (b blocked) Read([]byte) (int, error) { <-b.done; return 0, os.ErrClosed }

func TestInterruptedWhileReading(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in := blocked{t.Context().Done()}
	cancel()
	var stdout, stderr bytes.Buffer
	status := run(ctx, []string{"call", "Counter", "me", "Add", "-"}, in, &stdout, &stderr, noEnv)
	if status != exitInterrupted || stderr.Len() > 0 {
		t.Errorf("status %d, standard error %q; want %d and nothing", status, stderr.String(), exitInterrupted)
	}
}

// What is wrong with a command line is said in its own words, before anything is
// done.
func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args, problem string
		status        int
	}{
		{"cal", `unknown command "cal" for "greenroom"`, exitUsage},
		{"cal Counter me Add --query", "did you mean call?", exitUsage},
		{"init shop", "did you mean new?", exitUsage},
		{"actors lst", "did you mean list", exitUsage},
		{"actors lst Counter --all", "did you mean list", exitUsage},
		{"actors lst", "usage: greenroom actors COMMAND", exitUsage},
		{"types Counter", `unknown command "Counter" for "greenroom types"`, exitUsage},
		{"types puase Counter", "did you mean pause", exitUsage},
		{"reminders set Counter me x", "did you mean create", exitUsage},
		{"types --app a/b", `app has the character "/"`, exitFailed},
		{"call --idempotency-key= Counter me Add", "--idempotency-key is empty", exitUsage},
		{"call --query --idempotency-key=k Counter me Get", "leave it out with --query", exitUsage},
		{"config set region=eu =x", `"=x": name is empty`, exitFailed},
		{"secrets set a/b", `name has the character "/"`, exitFailed},
		{"modules get abc", `"abc" is no digest`, exitUsage},
		{"modules get ABCDEF", `"ABCDEF" is no digest`, exitUsage},
		{"modules delete xyzxyz --yes", `"xyzxyz" is no digest`, exitUsage},
		{"logs --last -1", "--last is -1; give 0 to 10000", exitUsage},
		{"new --lang rust greenroom", "give another name", exitUsage},
		{"serve --listen 8080", `--listen is "8080"; give HOST:PORT`, exitUsage},
		{"serve --listen 127.0.0.1:http", `--listen is "127.0.0.1:http"; give HOST:PORT`, exitUsage},
		{"serve --tls-cert cert.pem", "--tls-cert and --tls-key go together", exitUsage},
		{"serve --client-ca ca.pem", "--client-ca needs --tls-cert", exitUsage},
		{"serve --token a --token-file b", "--token and --token-file both name the token", exitUsage},
		{"serve --max-state -1", "--max-state is -1; give a value above 0", exitUsage},
		{"serve --drain-delay 30s", "--drain-timeout", exitUsage},
		{"serve --weight 2", "--weight is for servers that share a database", exitUsage},
		{"serve --store postgres://localhost/x --weight -1", "--weight is -1; give a number up to 1000, or 0", exitUsage},
		{"serve --store postgres://localhost/x --weight NaN", "--weight is NaN; give a number up to 1000, or 0", exitUsage},
		{"serve --drain-timeout -1s", "--drain-timeout is -1s; give a value above 0", exitUsage},
		{"dev ../../examples/counter --listen 8080", `--listen is "8080"; give HOST:PORT`, exitUsage},
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), strings.Fields(test.args), strings.NewReader(""), &stdout, &stderr, noEnv)
		if status != test.status || !strings.Contains(stderr.String(), test.problem) || stdout.Len() > 0 {
			t.Errorf("greenroom %s: status %d, standard output %q, error %q; want status %d and %q",
				test.args, status, stdout.String(), stderr.String(), test.status, test.problem)
		}
	}
}

// A call that was given up is not known to have had no effect, and the error says
// so.
func TestNoAnswerInTime(t *testing.T) {
	ended := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer silent.Close()
	defer close(ended)
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), []string{"call", "Counter", "me", "Add", "--timeout", "20ms", "--server", silent.URL, "-o", "json"},
		strings.NewReader(""), &stdout, &stderr, noEnv)
	var got struct{ Error shownError }
	if err := json.Unmarshal(stderr.Bytes(), &got); err != nil {
		t.Fatalf("%v in %q", err, stderr.String())
	}
	if status != exitFailed || got.Error.Kind != "deadline" || got.Error.Retryable || !strings.Contains(got.Error.Message, "may have taken effect") {
		t.Errorf("status %d, %+v", status, got.Error)
	}
}

func TestErrorsInJSONAreOneObject(t *testing.T) {
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), []string{"call", "Counter", "-o", "json"}, strings.NewReader(""), &stdout, &stderr, noEnv)
	var got struct{ Error shownError }
	if err := json.Unmarshal(stderr.Bytes(), &got); err != nil {
		t.Fatalf("%v in %q", err, stderr.String())
	}
	if status != exitUsage || got.Error.Kind != kindUsage || got.Error.Message != "ID is missing" || stdout.Len() > 0 {
		t.Errorf("status %d, %+v, standard output %q", status, got.Error, stdout.String())
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"src", "build", ".git"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w, err := watch(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	write := func(path string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(path), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(what string) {
		t.Helper()
		select {
		case <-w.Changes:
		case <-time.After(patience):
			t.Fatalf("no change seen of %s", what)
		}
	}
	// Outputs are not changes: only the source that follows is, once.
	write("build/x.wasm")
	write(".git/index")
	select {
	case <-w.Changes:
		t.Error("a change of an output was reported")
	case <-time.After(3 * watchQuiet):
	}
	write("src/main.go")
	wait("a file")
	write("new/deep.go")
	wait("a new folder")
	write("new/deep.go")
	wait("a file in a new folder")
	if err := os.Remove(filepath.Join(dir, "src", "main.go")); err != nil {
		t.Fatal(err)
	}
	wait("a removed file")
}

func TestLimitsThatLeaveNoRoom(t *testing.T) {
	for args, want := range map[string]string{
		"--max-state 6000000":                 "--max-state 6000000 and --max-payload 4194304 are",
		"--limit shop/Cart:max-state=7340032": "--limit shop/Cart: --max-state 7340032",
		"--max-state-memory 4194304":          "--max-state-memory must be at least",
		"--max-call-memory 1000000":           "--max-call-memory must be at least",
	} {
		var f serveFlags
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		registerLimits(flags, &f.limits, host.DefaultLimits())
		flags.Int64Var(&f.stateMemory, "max-state-memory", 0, "")
		flags.Int64Var(&f.callMemory, "max-call-memory", 0, "")
		flags.StringArrayVar(&f.overrides, "limit", nil, "")
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		overrides, err := parseOverrides(f.overrides)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkMemory(f, overrides); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestPoolsOfFlags: what --pool and the pool of --limit say, and which mistake is named.
func TestPoolsOfFlags(t *testing.T) {
	pools, err := parsePools([]string{"reports:concurrency=2,weight=3", "batch:weight=4"})
	if want := []host.PoolConfig{{Name: "reports", Concurrency: 2, Weight: 3}, {Name: "batch", Weight: 4}}; err != nil || !slices.Equal(pools, want) {
		t.Errorf("%v, %v", pools, err)
	}
	for value, want := range map[string]string{
		"reports": "give it as NAME:concurrency=NUMBER,weight=NUMBER", "reports:": "give it as", "reports:cpu=1": `"cpu=1" is not known`, "r:weight": "give a number",
		"r:concurrency=0": "give a number above 0", "r:weight=1001": "give 1 to 1000", "a/b:weight=1": "only A-Z", "r:concurrency=x": "give a number above 0",
	} {
		if _, err := parsePools([]string{value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
	if _, err := parsePools([]string{"r:weight=1", "r:weight=1"}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("one pool twice: %v", err)
	}
	overrides, err := parseOverrides([]string{"shop/Report:pool=reports", "shop:pool=batch"})
	if err != nil || overrides[host.Scope{App: "shop", Type: "Report"}].Pool != "reports" || overrides[host.Scope{App: "shop"}].Pool != "batch" {
		t.Errorf("%v, %v", overrides, err)
	}
	if err := checkPools(pools, overrides); err != nil {
		t.Error(err)
	}
	if err := checkPools(nil, overrides); err == nil || !strings.Contains(err.Error(), "--limit shop/Report: there is no pool \"reports\"; the pools are system, interconnect, user, batch") {
		t.Error(err)
	}
}

// TestDoctorSaysWhyNotReady: the server's own reason is what doctor shows.
func TestDoctorSaysWhyNotReady(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("the disk has 3 MiB left\n"))
	}))
	defer server.Close()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), []string{"doctor", "--server", server.URL}, strings.NewReader(""), &stdout, &stderr, noEnv)
	if status != exitFailed || !strings.Contains(stdout.String(), "the server is not ready: the disk has 3 MiB left") {
		t.Errorf("status %d, %s", status, stdout.String())
	}
}

// TestTableColumns: rows that lack their last cells do not end the columns of the others.
func TestTableColumns(t *testing.T) {
	var out bytes.Buffer
	c := &cli{console: console{stdout: &out, getenv: noEnv}}
	c.table([]string{"TYPE", "SCHEMA", "PLACEMENT"}, [][]string{{"Cart", "0"}, {"Till", "0", "any"}})
	if want := "TYPE  SCHEMA  PLACEMENT\nCart  0\nTill  0       any\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"Get", "Add", "Remove", "SetQuantity", "Cart"}
	for word, want := range map[string]string{
		"get": "Get", "Gte": "Get", "Bad": "", "Ad": "Add", "Foo": "", "Crat": "Cart", "Card": "Cart", "Item": "", "remov": "Remove", "Renew": "", "SetQuantitty": "SetQuantity", "X": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%q) is %q, want %q", word, got, want)
		}
	}
}

// TestTokensFileMisfit: the error of a file of another shape names no type of this program.
func TestTokensFileMisfit(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"ci"}`:                 "it is a JSON object where another kind belongs",
		`[{"name":"ci","token":17}]`:    "token is a JSON number",
		`[{"name":"ci","token":["x"]}]`: "token is a JSON array",
	} {
		file := filepath.Join(t.TempDir(), "tokens.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readTokens(file); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "main.") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestTimesHaveZones: a time in a table says in which zone it is.
func TestTimesHaveZones(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	if got, err := time.Parse("2006-01-02 15:04:05Z07:00", when(timestamppb.New(at))); err != nil || !got.Equal(at) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestDurationsInJSONLogs: a duration has its unit.
func TestDurationsInJSONLogs(t *testing.T) {
	var out bytes.Buffer
	log, err := newLogger(&out, "json", "info")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("served", "took", 1500*time.Millisecond)
	if !strings.Contains(out.String(), `"took":"1.5s"`) {
		t.Error(out.String())
	}
}

// TestStickyAlone: --sticky is as good on the embedded store as a sticky placement.
func TestStickyAlone(t *testing.T) {
	if _, err := serveConfig(t, []string{"--sticky"}, nil); err != nil {
		t.Error(err)
	}
}

// TestRemediesNameFlags: errors that a flag or a command mends name it.
func TestRemediesNameFlags(t *testing.T) {
	for kind, want := range map[actor.Kind]string{
		actor.ErrNoGeneration.Kind(): "--to", actor.ErrSchemaRollback.Kind(): "--force", actor.ErrNoOwner.Kind(): "greenroom doctor",
		actor.ErrTypeNotFound.Kind(): "--server",
	} {
		err := connect.NewWireError(connect.CodeUnavailable, errors.New("refused"))
		detail, detailErr := connect.NewErrorDetail(&greenroomv1.ErrorDetail{Kind: string(kind)})
		if detailErr != nil {
			t.Fatal(detailErr)
		}
		err.AddDetail(detail)
		if got := describeError(&cli{}, err).Remedy; !strings.Contains(got, want) {
			t.Errorf("%s: the remedy is %q", kind, got)
		}
	}
}

// TestOtherScheme: a server that speaks plain HTTP is no riddle to those who ask for TLS.
func TestOtherScheme(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var stdout, stderr bytes.Buffer
	run(t.Context(), []string{"types", "--server", strings.Replace(server.URL, "http:", "https:", 1)}, strings.NewReader(""), &stdout, &stderr, noEnv)
	if !strings.Contains(stderr.String(), "it speaks plain HTTP: --server "+server.URL) {
		t.Error(stderr.String())
	}
}

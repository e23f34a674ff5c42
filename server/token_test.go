package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
	"github.com/greenroom-run/greenroom/settings"
)

// fakeSettings are empty, whatever is set.
type fakeSettings struct{}

func (fakeSettings) List(context.Context, string) (settings.Listing, error) {
	return settings.Listing{}, nil
}
func (fakeSettings) SetConfig(context.Context, string, string, string) error { return nil }
func (fakeSettings) UnsetConfig(context.Context, string, string) error       { return nil }
func (fakeSettings) SetSecret(context.Context, string, string, []byte) error { return nil }
func (fakeSettings) UnsetSecret(context.Context, string, string) error       { return nil }
func (fakeSettings) GrantHTTP(context.Context, string, actor.HTTPGrant) (string, error) {
	return "", nil
}
func (fakeSettings) RevokeHTTP(context.Context, string, string) error { return nil }
func (fakeSettings) SetQuota(context.Context, string, actor.Quota, actor.Rate, int64) error {
	return nil
}
func (fakeSettings) UnsetQuota(context.Context, string, actor.Quota) error { return nil }
func (fakeSettings) SetLimit(context.Context, string, actor.LimitScope, actor.Limit) error {
	return nil
}
func (fakeSettings) UnsetLimit(context.Context, string, actor.LimitScope) error   { return nil }
func (fakeSettings) PauseType(context.Context, string, string, actor.Pause) error { return nil }
func (fakeSettings) ResumeType(context.Context, string, string) error             { return nil }
func (fakeSettings) Missing(context.Context, string, abi.Capabilities) (abi.Capabilities, error) {
	return abi.Capabilities{}, nil
}

// rolesOf has every procedure and what it needs; 0: nothing.
var rolesOf = map[string]edge.Role{
	"/greenroom.v1.ActorService/Invoke":                              edge.RoleInvoke,
	"/greenroom.v1.ActorService/InvokeAll":                           edge.RoleInvoke,
	"/greenroom.v1.ActorService/InvokeStream":                        edge.RoleRead, // and RoleInvoke for invocations that are not read-only
	"/greenroom.v1.ActorService/Query":                               edge.RoleRead,
	"/greenroom.v1.ActorService/GetActor":                            edge.RoleRead,
	"/greenroom.v1.ActorService/Send":                                edge.RoleInvoke,
	"/greenroom.v1.ActorService/ListMessages":                        edge.RoleRead,
	"/greenroom.v1.ActorService/ListActors":                          edge.RoleRead,
	"/greenroom.v1.ActorService/GetState":                            edge.RoleRead,
	"/greenroom.v1.ActorService/DeleteActor":                         edge.RoleDeploy,
	"/greenroom.v1.ActorService/CancelQueued":                        edge.RoleDeploy,
	"/greenroom.v1.ModuleService/Upload":                             edge.RoleDeploy,
	"/greenroom.v1.ModuleService/UploadModule":                       edge.RoleDeploy,
	"/greenroom.v1.ModuleService/Download":                           edge.RoleRead,
	"/greenroom.v1.ModuleService/GetModule":                          edge.RoleRead,
	"/greenroom.v1.ModuleService/ListModules":                        edge.RoleRead,
	"/greenroom.v1.ModuleService/DeleteModule":                       edge.RoleDeploy,
	"/greenroom.v1.ModuleService/Deploy":                             edge.RoleDeploy,
	"/greenroom.v1.ModuleService/Rollback":                           edge.RoleDeploy,
	"/greenroom.v1.ModuleService/Undeploy":                           edge.RoleDeploy,
	"/greenroom.v1.ModuleService/ListApps":                           edge.RoleRead,
	"/greenroom.v1.ModuleService/History":                            edge.RoleRead,
	"/greenroom.v1.ModuleService/ListTypes":                          edge.RoleRead,
	"/greenroom.v1.LogService/Tail":                                  edge.RoleRead,
	"/greenroom.v1.SettingsService/GetSettings":                      edge.RoleDeploy,
	"/greenroom.v1.SettingsService/SetConfig":                        edge.RoleAdmin,
	"/greenroom.v1.SettingsService/UnsetConfig":                      edge.RoleAdmin,
	"/greenroom.v1.SettingsService/SetSecret":                        edge.RoleAdmin,
	"/greenroom.v1.SettingsService/UnsetSecret":                      edge.RoleAdmin,
	"/greenroom.v1.SettingsService/GrantHTTP":                        edge.RoleAdmin,
	"/greenroom.v1.SettingsService/RevokeHTTP":                       edge.RoleAdmin,
	"/greenroom.v1.SettingsService/SetQuota":                         edge.RoleAdmin,
	"/greenroom.v1.SettingsService/UnsetQuota":                       edge.RoleAdmin,
	"/greenroom.v1.SettingsService/SetLimit":                         edge.RoleDeploy,
	"/greenroom.v1.SettingsService/UnsetLimit":                       edge.RoleDeploy,
	"/greenroom.v1.SettingsService/PauseType":                        edge.RoleDeploy,
	"/greenroom.v1.SettingsService/ResumeType":                       edge.RoleDeploy,
	"/greenroom.v1.ActorService/Subscribe":                           edge.RoleRead,
	"/greenroom.v1.ActorService/ListServices":                        edge.RoleRead,
	"/greenroom.v1.ActorService/ListSubscriptions":                   edge.RoleRead,
	"/greenroom.v1.ActorService/WatchServices":                       edge.RoleRead,
	"/greenroom.v1.ClusterService/ListHosts":                         edge.RoleRead,
	"/greenroom.v1.ClusterService/DrainHost":                         edge.RoleAdmin,
	"/greenroom.v1.ClusterService/Where":                             edge.RoleRead,
	"/greenroom.v1.ClusterService/ListSticky":                        edge.RoleRead,
	"/greenroom.v1.ClusterService/GetPlacement":                      edge.RoleRead,
	"/greenroom.v1.ReminderService/CreateReminder":                   edge.RoleInvoke,
	"/greenroom.v1.ReminderService/GetReminder":                      edge.RoleRead,
	"/greenroom.v1.ReminderService/ListReminders":                    edge.RoleRead,
	"/greenroom.v1.ReminderService/DeleteReminders":                  edge.RoleInvoke,
	"/greenroom.v1.ReminderService/PauseReminders":                   edge.RoleInvoke,
	"/greenroom.v1.ReminderService/ResumeReminders":                  edge.RoleInvoke,
	"/greenroom.v1.ReminderService/GetDeadLetter":                    edge.RoleRead,
	"/greenroom.v1.ReminderService/ListDeadLetters":                  edge.RoleRead,
	"/greenroom.v1.ReminderService/RetryDeadLetter":                  edge.RoleInvoke,
	"/greenroom.v1.ReminderService/DeleteDeadLetter":                 edge.RoleDeploy,
	"/greenroom.v1.ReminderService/ListBuckets":                      edge.RoleRead,
	"/greenroom.v1.StatusService/GetServer":                          edge.RoleRead,
	"/greenroom.v1.StatusService/Diagnose":                           edge.RoleRead,
	"/greenroom.v1.StatusService/ListTurns":                          edge.RoleRead,
	"/greenroom.v1.StatusService/ListTokens":                         edge.RoleAdmin,
	"/grpc.health.v1.Health/Check":                                   0,
	"/greenroom.v1.ReminderService/Connect":                          edge.RoleInvoke,
	"/grpc.health.v1.Health/Watch":                                   0,
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      edge.RoleRead,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": edge.RoleRead,
}

// procedures are all that the services of the server have.
func procedures(tb testing.TB) map[string]protoreflect.MethodDescriptor {
	tb.Helper()
	all := make(map[string]protoreflect.MethodDescriptor)
	for _, pkg := range []protoreflect.FullName{"greenroom.v1", "grpc.health.v1"} {
		protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(file protoreflect.FileDescriptor) bool {
			for i := range file.Services().Len() {
				if name := file.Services().Get(i).Name(); name == "InterconnectService" || name == "SchedulerService" {
					continue // between hosts, which have no roles
				}
				methods := file.Services().Get(i).Methods()
				for j := range methods.Len() {
					m := methods.Get(j)
					all[fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())] = m
				}
			}
			return true
		})
	}
	return all
}

var allRoles = []edge.Role{edge.RoleRead, edge.RoleInvoke, edge.RoleDeploy, edge.RoleAdmin}

// withRoles gives a server a token for each role, with the role's name, and, if
// it is for one app only, the app's after it.
func withRoles(c *Config) {
	for _, role := range allRoles {
		c.Tokens = append(c.Tokens,
			edge.Token{Name: role.String(), Secret: role.String(), Role: role},
			edge.Token{Name: role.String() + ".mine", Secret: role.String() + "-mine", Role: role, App: "mine"})
	}
	c.Settings, c.Cluster, c.Reminders = fakeSettings{}, fakeCluster{}, noReminders{}
}

// ask calls a procedure in JSON, and returns what came back.
func (f *fixture) ask(tb testing.TB, name string, m protoreflect.MethodDescriptor, token, body string) string {
	tb.Helper()
	contentType := "application/json"
	streams := m == nil || m.IsStreamingClient() || m.IsStreamingServer()
	if streams {
		contentType = "application/connect+json"
		body = string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))) + body //nolint:gosec // small
	}
	if strings.HasSuffix(name, "/Watch") {
		return "it is endless, and open"
	}
	headers := []string{"Content-Type", contentType, "Authorization", "Bearer " + token}
	if strings.HasSuffix(name, "/WatchServices") { // which is endless, too
		headers = append(headers, "Connect-Timeout-Ms", "10")
	}
	return do(tb, client(tb, streams), "POST", f.url+name, body, headers...).body
}

const denied = "permission_denied"

// TestRolesOfProcedures: every procedure of the API has a role, in this table and
// on the server. One that is new and has none here fails.
func TestRolesOfProcedures(t *testing.T) {
	f := start(t, withRoles)
	all := procedures(t)
	for path := range f.edge.Routes.Exact {
		if _, ok := all[path]; !ok && strings.Contains(path[1:], "/") && !strings.HasPrefix(path, ConsolePath) {
			all[path] = nil // of reflection, whose descriptors are its own
		}
	}
	for name, m := range all {
		want, ok := rolesOf[name]
		if !ok {
			t.Errorf("%s has no role: give it one here and where its service is registered, and say so in docs/tokens.md", name)
			continue
		}
		for _, role := range allRoles {
			answer := f.ask(t, name, m, role.String(), "{}")
			if refused := strings.Contains(answer, denied); refused != (role < want) {
				t.Errorf("%s, role %v: refused %v: %s", name, role, refused, answer)
			}
		}
	}
	if len(all) != len(rolesOf) {
		t.Errorf("%d procedures were found, of %d", len(all), len(rolesOf))
	}
}

// TestRolesOfPaths: the same for the paths that are no procedures.
func TestRolesOfPaths(t *testing.T) {
	f := start(t, withRoles)
	for _, tt := range []struct {
		method, path string
		want         edge.Role
	}{
		{"GET", actorPath(key("a"), "Get"), edge.RoleRead},
		{"PUT", actorPath(key("a"), "Add"), edge.RoleInvoke},
		{"POST", actorPath(key("a"), "Get"), edge.RoleInvoke},
		{"PATCH", actorPath(key("a"), "Get"), edge.RoleInvoke},
		{"GET", "/metrics", edge.RoleRead},
		{"GET", "/healthz", 0},
		{"GET", "/readyz", 0},
		{"GET", "/nothing", edge.RoleRead},
		{"GET", ConsolePath, 0},
		{"GET", ConsolePath + "/console.js", 0},
		{"GET", ConsolePath + "/nothing", edge.RoleRead},
		{"GET", "/", 0},
	} {
		for _, role := range allRoles {
			a := do(t, client(t, false), tt.method, f.url+tt.path, "", "Authorization", "Bearer "+role.String())
			if refused := a.StatusCode == http.StatusForbidden && a.failure(t).Kind == denied; refused != (role < tt.want) {
				t.Errorf("%s %s, role %v: %s %s", tt.method, tt.path, role, a.Status, a.body)
			}
		}
	}
}

// TestTokenOfOneApp reaches nothing of another, by whichever procedure.
func TestTokenOfOneApp(t *testing.T) {
	f := start(t, withRoles)
	request := func(m protoreflect.MethodDescriptor, app string) string {
		members := map[string]any{
			"app": app, "actor": map[string]any{"app": app, "type": "T", "id": "a"}, "header": map[string]any{"app": app},
			"type": "T", "method": "Get",
		}
		maps.DeleteFunc(members, func(name string, _ any) bool { return m.Input().Fields().ByJSONName(name) == nil })
		data, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, m := range procedures(t) {
		// Of a stream in both directions HTTP/1 sees nothing: below.
		if rolesOf[name] == 0 || m.IsStreamingClient() {
			continue
		}
		if name == "/greenroom.v1.StatusService/GetServer" || name == "/greenroom.v1.StatusService/Diagnose" {
			continue // of no app; TestDiagnose has what they leave out
		}
		// Which apps there are is of no app.
		everywhere := name == "/greenroom.v1.ModuleService/ListApps" ||
			name == "/greenroom.v1.ClusterService/ListHosts" || name == "/greenroom.v1.ClusterService/DrainHost" || // nor are its servers
			name == "/greenroom.v1.StatusService/ListTokens"
		if answer := f.ask(t, name, m, "admin-mine", request(m, "mine")); strings.Contains(answer, denied) != everywhere {
			t.Errorf("%s, of its own app: %s", name, answer)
		}
		for _, app := range []string{"other", ""} {
			if answer := f.ask(t, name, m, "admin-mine", request(m, app)); !strings.Contains(answer, denied) {
				t.Errorf("%s, of the app %q: %s", name, app, answer)
			}
		}
	}
	for app, want := range map[string]int{"mine": http.StatusOK, "other": http.StatusForbidden, "default": http.StatusForbidden} {
		path := actorPath(actor.Key{App: app, Type: "T", ID: "a"}, "Get")
		if a := do(t, client(t, false), "GET", f.url+path, "", "Authorization", "Bearer read-mine"); a.StatusCode != want {
			t.Errorf("%s: %s %s", path, a.Status, a.body)
		}
	}
	if a := do(t, client(t, false), "GET", f.url+"/metrics", "", "Authorization", "Bearer admin-mine"); a.StatusCode != http.StatusForbidden {
		t.Errorf("/metrics, which are of all apps: %s", a.Status)
	}

	for app, want := range map[string]bool{"mine": true, "other": false, "": false} {
		c := openUpload(t, f, "admin-mine")
		_ = c.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Header{Header: &greenroomv1.UploadHeader{App: app}}})
		_ = c.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Chunk{Chunk: []byte(wasmMagic)}})
		_ = c.CloseRequest()
		var err error
		for err == nil {
			_, err = c.Receive()
		}
		if allowed := connect.CodeOf(err) != connect.CodePermissionDenied; allowed != want {
			t.Errorf("an upload to %q: %v", app, err)
		}
		_, err = uploadModule(t, f, "admin-mine", app, []byte(wasmMagic))
		if allowed := connect.CodeOf(err) != connect.CodePermissionDenied; allowed != want {
			t.Errorf("an upload over HTTP/1.1 to %q: %v", app, err)
		}
	}
}

// TestRolesOnStreams: what an invocation of a stream needs, each for itself.
func TestRolesOnStreams(t *testing.T) {
	f := start(t, withRoles)
	for _, tt := range []struct {
		token, app string
		readOnly   bool
		want       string // empty: answered
	}{
		{"read", "", true, ""}, {"read", "", false, denied}, {"invoke", "", false, ""},
		{"read-mine", "mine", true, ""}, {"read-mine", "other", true, denied}, {"read-mine", "", true, denied},
		{"admin-mine", "other", false, denied},
	} {
		st := open(t.Context(), t, f.url, connect.WithInterceptors(bearer(tt.token)))
		inv := invocation(1, "a")
		inv.Actor.App, inv.ReadOnly, inv.Method = tt.app, tt.readOnly, "Get"
		st.send(inv)
		reply, err := st.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if got := reply.GetReplies()[0].GetError().GetDetail().GetKind(); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
		_ = st.CloseRequest()
	}
}

// TestTokensAreChecked: what New refuses.
func TestTokensAreChecked(t *testing.T) {
	good := edge.Token{Name: "ci", Secret: "s", Role: edge.RoleRead}
	for name, change := range map[string]func(*edge.Token){
		"no name": func(t *edge.Token) { t.Name = "" }, "no secret": func(t *edge.Token) { t.Secret = "" }, "no role": func(t *edge.Token) { t.Role = 0 },
		"an unknown role": func(t *edge.Token) { t.Role = edge.RoleAdmin + 1 }, "a space": func(t *edge.Token) { t.Secret = "a b" }, "app": func(t *edge.Token) { t.App = "a b" },
		"another's name": func(t *edge.Token) { t.Name, t.Secret = "other", "x" }, "another's secret": func(t *edge.Token) { t.Secret = "o" },
	} {
		bad := good
		change(&bad)
		conf := Config{
			Config:   edge.Config{Addr: "127.0.0.1:0", Tokens: []edge.Token{{Name: "other", Secret: "o", Role: edge.RoleRead}, bad}},
			Backends: rpc.Backends{Host: &fakeHost{}, Modules: newFakeModules(), Actors: fakeLister(0)},
		}
		if _, err := New(conf); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, role := range allRoles {
		if got, err := edge.ParseRole(role.String()); err != nil || got != role {
			t.Errorf("%v: %v, %v", role, got, err)
		}
	}
	if _, err := edge.ParseRole("root"); err == nil {
		t.Error("root is a role")
	}
}

// listenerAt is a listener that claims another address.
type listenerAt struct {
	net.Listener
	at net.Addr
}

func (l listenerAt) Addr() net.Addr { return l.at }

// TestWarnings of what is permitted and seldom meant.
func TestWarnings(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Tokens = []edge.Token{{Name: "short", Secret: "123456789012345", Role: edge.RoleRead}, {Name: "long", Secret: "1234567890123456", Role: edge.RoleRead}}
	})
	log := f.log.String()
	if !strings.Contains(log, "token=short") || strings.Contains(log, "token=long") || strings.Contains(log, "plain text") {
		t.Error(log)
	}
	// The address is one that others reach; nobody does, since the listener is another one.
	f = start(t, func(c *Config) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c.Token, c.Listener = "a-token-that-is-long", listenerAt{l, addressOf("192.0.2.1:1")}
	})
	if !strings.Contains(f.log.String(), "plain text") {
		t.Error(f.log.String())
	}
}

// TestChangesAreOnRecord: the log says whose token changed something.
func TestChangesAreOnRecord(t *testing.T) {
	f := start(t, withRoles)
	all := procedures(t)
	for _, call := range []struct{ name, token, body string }{
		{"/greenroom.v1.ModuleService/Deploy", "deploy", `{"digest":"00000000"}`},
		{"/greenroom.v1.ActorService/Invoke", "invoke", `{"actor":{"type":"T","id":"a"},"method":"Add"}`},
	} {
		f.ask(t, call.name, all[call.name], call.token, call.body)
	}
	for _, line := range strings.Split(f.log.String(), "\n") {
		deploy := strings.Contains(line, "token=deploy")
		if strings.Contains(line, "request served") && deploy != strings.Contains(line, "level=INFO") {
			t.Error(line)
		}
	}
	if !strings.Contains(f.log.String(), "token=deploy") {
		t.Error(f.log.String())
	}
}

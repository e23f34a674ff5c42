package modules_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/store/sqlstore"
)

// serves is the member of a type that serves a Protobuf service with an rpc for each method.
func serves(t *testing.T, service string, rpcs ...string) string {
	t.Helper()
	pkg, name, _ := strings.Cut(service, ".")
	var methods []string
	for _, rpc := range rpcs {
		methods = append(methods, fmt.Sprintf(`{"name":%q,"inputType":".%s.M","outputType":".%s.M"}`, rpc, pkg, pkg))
	}
	var set descriptorpb.FileDescriptorSet
	text := fmt.Sprintf(`{"file":[{"name":"a.proto","package":%q,"messageType":[{"name":"M"}],"service":[{"name":%q,"method":[%s]}]}]}`, pkg, name, strings.Join(methods, ","))
	if err := protojson.Unmarshal([]byte(text), &set); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`"protobuf":{"service":%q,"descriptor":%q}`, service, base64.StdEncoding.EncodeToString(data))
}

func TestServices(t *testing.T) {
	f := newFixture(t)
	if f.HasService("a.S") || len(f.Services(app)) > 0 {
		t.Fatal("a service is there before its deployment")
	}
	f.deploy(f.upload(typ("B", serves(t, "b.S", "Do"), "Do"), typ("A", serves(t, "a.S", "Do"), "Do"), typ("C", "", "Do")))
	if got := f.Services(app); !slices.Equal(got, []string{"a.S", "b.S"}) {
		t.Errorf("services %q", got)
	}
	if got, ok := f.ServiceType(app, "a.S"); !ok || got.Spec.Name != "A" || got.Deployment != f.serving("A") {
		t.Errorf("got %+v, %v", got, ok)
	}
	if _, ok := f.ServiceType("other", "a.S"); ok || !f.HasService("a.S") || len(f.Services("other")) > 0 {
		t.Error("another app has the service")
	}
	if _, _, err := f.Undeploy(context.Background(), modules.UndeployRequest{App: app, Types: []string{"A"}}); err != nil {
		t.Fatal(err)
	}
	if got := f.Services(app); !slices.Equal(got, []string{"b.S"}) || f.HasService("a.S") {
		t.Errorf("after it was undeployed: %q", got)
	}
}

func TestOneTypeForAService(t *testing.T) {
	f := newFixture(t)
	f.deploy(f.upload(typ("A", serves(t, "a.S", "Do"), "Do")))
	second := f.upload(typ("B", serves(t, "a.S", "Do"), "Do"))
	_, _, err := f.Deploy(context.Background(), modules.DeployRequest{App: app, Digest: second})
	var wrong *actor.ArgumentError
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "B, whose service a.S is that of type A; undeploy that type, or give the service another package") {
		t.Errorf("got %v", err)
	}
	// The type that has the service may leave it to another one of its module.
	f.deploy(f.upload(typ("A", "", "Do"), typ("B", serves(t, "a.S", "Do"), "Do")))
	if got, _ := f.ServiceType(app, "a.S"); got.Spec == nil || got.Spec.Name != "B" {
		t.Errorf("got %+v", got)
	}
}

// Of types that are deployed at the same moment, by two processes that know neither of them, one gets
// the service.
func TestRaceForAService(t *testing.T) {
	for name, newFixture := range map[string]func(*testing.T) *fixture{
		"embedded": newFixture,
		"PostgreSQL": func(t *testing.T) *fixture {
			st, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: pgtest.URL(t), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { st.Close() })
			return (&fixture{t: t, inspector: &inspector{}}).on(st)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			processes := []*modules.Service{f.Service, f.service(time.Hour)}
			digests := []actor.Digest{f.upload(typ("A", serves(t, "a.S", "Do"), "Do")), f.upload(typ("B", serves(t, "a.S", "Do"), "Do"))}
			// Both have decided before either is stored.
			var calls atomic.Int32
			both := make(chan struct{})
			f.store.set(func() {
				f.store.deploy = func(ctx context.Context, ds []actor.Deployment, revision uint64) error {
					if n := calls.Add(1); n == 2 {
						close(both)
					}
					<-both
					return f.store.Modules.Deploy(ctx, ds, revision)
				}
			})
			errs := make([]error, 2)
			var deploying sync.WaitGroup
			for i, p := range processes {
				deploying.Go(func() {
					_, _, errs[i] = p.Deploy(context.Background(), modules.DeployRequest{App: app, Digest: digests[i]})
				})
			}
			deploying.Wait()
			var wrong *actor.ArgumentError
			if (errs[0] == nil) == (errs[1] == nil) || !errors.As(cmp.Or(errs[0], errs[1]), &wrong) || !strings.Contains(wrong.Problem, "whose service a.S is that of type") {
				t.Fatalf("got %v and %v", errs[0], errs[1])
			}
			ds, err := f.store.Deployments(context.Background(), app)
			if err != nil || len(ds) != 1 || ds[0].Type == "A" != (errs[0] == nil) {
				t.Errorf("deployed are %v, %v", ds, err)
			}
		})
	}
}

func TestDeployWarnsOfBreakingServices(t *testing.T) {
	f := newFixture(t)
	f.deploy(f.upload(typ("A", serves(t, "a.S", "Do", "Go"), "Do", "Go")))
	warnings := f.deploy(f.upload(typ("A", serves(t, "a.S", "Do"), "Do", "Go")))
	if want := []string{"A: the rpc Go of a.S is gone; calls of it fail with path_not_found"}; !slices.Equal(warnings, want) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
}

package node_test

import (
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/scheduler"
)

// TestDeployBesideAnOlderServer: a module is not deployed that a server of the cluster does not
// know enough for, until that server has left.
func TestDeployBesideAnOlderServer(t *testing.T) {
	url := pgtest.URL(t)
	first := start(t, inCluster(url, nil))
	older := start(t, inCluster(url, func(c *node.Config) {
		c.Cluster.MaxProtocol, c.Cluster.HostName, c.Version = 4, "older", "v0.9.9"
	}))
	first.deploy(t, "default", example(t, "counter", guestbuild.Go)) // which it knows all of
	m, err := first.upload(t.Context(), "default", build(t, filepath.Join("testdata", "bank"), guestbuild.Go))
	if err != nil {
		t.Fatal(err)
	}
	deploy := func() error {
		_, err := first.modules.Deploy(t.Context(), connect.NewRequest(&greenroomv1.DeployRequest{App: "default", Digest: m.Digest}))
		return err
	}
	err = deploy()
	if detail(err).GetKind() != "host_too_old" || !strings.Contains(err.Error(), "the host older at") || !strings.Contains(err.Error(), "version v0.9.9, does not know the host function call;") {
		t.Fatal(err)
	}
	stop(t, older.Node)
	// One that only leads places actors by rules that it has to know.
	leads := start(t, inCluster(url, func(c *node.Config) {
		c.Cluster.MaxProtocol, c.Cluster.HostName, c.Cluster.Roles = 4, "leads", []string{scheduler.RoleScheduler}
	}))
	if err := deploy(); detail(err).GetKind() != "host_too_old" || !strings.Contains(err.Error(), "the host leads at") {
		t.Errorf("beside an older server that leads: %v", err)
	}
	stop(t, leads.Node)
	if err := deploy(); err != nil {
		t.Error(err)
	}
}

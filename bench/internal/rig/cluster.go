package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
)

// settleTimeout bounds how long servers take to share what is deployed.
const settleTimeout = time.Minute

// Cluster is several servers of one database, with the guest deployed.
type Cluster struct{ Servers []*Server }

// ServeCluster starts n servers with args, which name their database, and deploys a guest, by the
// path of its module.
func (r *Rig) ServeCluster(ctx context.Context, module string, n int, args ...string) (*Cluster, error) {
	c := &Cluster{}
	for i := range n {
		s, err := r.Start(ctx, append([]string{"--name", fmt.Sprint("server-", i+1)}, args...)...)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.Servers = append(c.Servers, s)
	}
	if err := r.deploy(ctx, c.Servers[0].URL, module); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close stops the servers that run.
func (c *Cluster) Close() error {
	var errs []error
	for _, s := range c.Servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// URLs are the servers'.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		urls[i] = s.URL
	}
	return urls
}

// Watch names the servers' processes.
func (c *Cluster) Watch() map[string]int {
	pids := map[string]int{}
	for i, s := range c.Servers {
		pids[fmt.Sprint("server ", i+1)] = s.PID
	}
	return pids
}

// Settled waits until every server has a share of what is deployed, by the leader's
// word.
func (c *Cluster) Settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		hosts, err := c.hosts(ctx, c.Servers[0].URL)
		if err == nil {
			sharing := 0
			for _, h := range hosts {
				if h.GetConnected() && !h.GetDraining() && h.GetRanges() > 0 {
					sharing++
				}
			}
			if sharing == len(c.Servers) && len(hosts) == len(c.Servers) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the servers did not share the actors within %v: %w", settleTimeout, errors.Join(err, ctx.Err()))
		case <-tick.C:
		}
	}
}

// Leader returns the server that leads.
func (c *Cluster) Leader(ctx context.Context) (*Server, error) {
	hosts, err := c.hosts(ctx, c.Servers[0].URL)
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		for _, s := range c.Servers {
			if h.GetLeader() && s.URL == "http://"+h.GetAddress() {
				return s, nil
			}
		}
	}
	return nil, errors.New("none of the servers leads")
}

func (c *Cluster) hosts(ctx context.Context, url string) ([]*greenroomv1.ClusterHost, error) {
	res, err := greenroomv1connect.NewClusterServiceClient(http.DefaultClient, url).ListHosts(ctx, connect.NewRequest(&greenroomv1.ListHostsRequest{}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetHosts(), nil
}

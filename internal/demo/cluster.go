package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// clusterAddresses are where the servers of -cluster listen.
var clusterAddresses = []string{"127.0.0.1:8081", "127.0.0.1:8082", "127.0.0.1:8083"}

// cluster runs a database and three servers, which listen at addresses, until ctx ends. A
// store that is given is used instead of a database of its own.
func (d *demo) cluster(ctx context.Context, store string, addresses []string) (err error) {
	folder, log, end, err := workplace("greenroom-cluster-", "servers.log")
	if err != nil {
		return err
	}
	defer func() { end(err) }()
	for _, addr := range addresses {
		if err := free(addr); err != nil {
			return err
		}
	}
	if store == "" {
		d.say("Start a PostgreSQL of its own, which ends with this program")
		db, err := pgtest.Open()
		if err != nil {
			return err
		}
		defer db.Close()
		if store, err = db.CreateDatabase(ctx); err != nil {
			return err
		}
	}
	d.say("Build the example actors")
	guests, err := d.buildGuests(ctx, folder)
	if err != nil {
		return err
	}
	d.say("Start three servers")
	for i, addr := range addresses {
		p, err := crash.Start(ctx, crash.Options{
			Binary: d.binary, Listen: addr, Log: log, Args: []string{"--store", store, "--name", fmt.Sprint("server-", i+1), patient},
			Detach: true, // Ctrl-C reaches this program only, which then stops them gracefully
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stopAnyway(p)) }()
		d.say("   %s, process %d", p.URL, p.PID())
	}
	first := "http://" + addresses[0]
	for _, g := range guests {
		if err := d.greenroom(ctx, first, "deploy", g); err != nil {
			return err
		}
	}
	d.say(`
Call any of the servers. One that does not hold the actor passes the call on, and the
header Greenroom-Host says where to:

   curl -i -X PUT %[1]s/v2.0/actors/default/Counter/alice/method/Add -d '{"amount":1}'
   %[2]s call --server http://%[3]s Counter alice Add '{"amount":1}'
   %[2]s where --server %[1]s Counter alice
   %[2]s hosts list --server %[1]s

Kill one (kill -9 PROCESS), freeze one (kill -STOP PROCESS), or stop one gracefully
(kill PROCESS), and go on calling the others. A change that was under way at one that
is lost is "ambiguous"; with --idempotency-key KEY it is made again, once. Start one
of your own with

   %[2]s serve --listen 127.0.0.1:8084 --store '%[5]s'

The servers log to %[4]s.
Ctrl-C ends everything.`, first, d.binary, addresses[1], log.Name(), store)
	<-ctx.Done()
	d.say("\nStopping %s", strings.Join(addresses, ", "))
	return nil
}

// stopAnyway stops a server, whatever was done to it: one that was ended is no failure,
// and one that was frozen goes on.
func stopAnyway(p *crash.Process) error {
	if p.Ended() {
		return nil
	}
	if err := syscall.Kill(p.PID(), syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("continue process %d: %w", p.PID(), err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return p.Stop(ctx)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// clusterAddresses are where the servers of -cluster listen.
var clusterAddresses = []string{"127.0.0.1:8081", "127.0.0.1:8082", "127.0.0.1:8083"}

// cluster runs a database and three servers until ctx ends. A store that is given is
// used instead of a database of its own.
func (d *demo) cluster(ctx context.Context, store string) (err error) {
	folder, err := os.MkdirTemp("", "greenroom-cluster-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	log, err := os.Create(filepath.Join(folder, "servers.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	defer func() {
		if err != nil {
			showLog(log.Name())
		}
	}()
	for _, addr := range clusterAddresses {
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
	for i, addr := range clusterAddresses {
		p, err := crash.Start(ctx, crash.Options{
			Binary: d.binary, Listen: addr, Log: log, Args: []string{"--store", store, "--name", fmt.Sprint("server-", i+1)},
		})
		if err != nil {
			return err
		}
		defer func() {
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			err = errors.Join(err, p.Stop(stopCtx))
		}()
		d.say("   %s, process %d", p.URL, p.PID())
	}
	first := "http://" + clusterAddresses[0]
	for _, g := range guests {
		if err := d.greenroom(ctx, first, "deploy", g); err != nil {
			return err
		}
	}
	d.say(`
Call any of the servers; each passes on what another one holds, and the header
Greenroom-Host says which:

   curl -i -X PUT %[1]s/v2.0/actors/default/Counter/alice/method/Add -d '{"amount":1}'
   %[2]s call --server http://%[3]s Counter alice Add '{"amount":1}'

Kill one (kill -9 PROCESS), freeze one (kill -STOP PROCESS), or stop one in order
(kill PROCESS), and go on calling the others. The servers log to
%[4]s. Ctrl-C ends everything.`, first, d.binary, clusterAddresses[1], log.Name())
	<-ctx.Done()
	d.say("\nstopping %s", strings.Join(clusterAddresses, ", "))
	return nil
}

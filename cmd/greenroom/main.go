// Command greenroom is Greenroom in one binary: the host and its API, and the
// command line that builds guests, deploys them and calls actors.
//
// One file holds one subcommand. Flags and environment variables are read here
// and nowhere else in the repository; what the subcommands do is in the
// packages that they call. Everything but serve, dev, new, build and store
// is an ordinary client of the API.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once, for those who cannot wait.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

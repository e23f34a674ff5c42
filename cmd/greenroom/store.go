package main

import (
	"context"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/greenroom-run/greenroom/internal/node"
)

func storeCommand(c *cli) *cobra.Command {
	var from, to node.StorePlace
	copyAll := &cobra.Command{
		Use: "copy", Short: "Copy a store into an empty one, of either kind",
		Long: `Copy everything in a store into an empty one: from the folder of the embedded store to
a database, back, or between two stores of one kind. Stop all servers of both stores
first, and start none on the old store again: the new store does not get later changes.

Everything is copied as it is: states with their versions, tombstones, modules, the
history of deployments, configuration, grants, secrets (encrypted), idempotency keys,
reminders with their IDs, and dead letters. The key of the secrets is a file of its own,
which the servers of the new store need: docs/backup.md.

The old store is only read. If the copy ends early, no server opens the new one: remove
it and copy again. Other users of this machine can see the password in a URL on the
command line, but not in GREENROOM_FROM_STORE or GREENROOM_TO_STORE.`,
		Example: `  greenroom store copy --from-data-dir /var/lib/greenroom --to-store 'postgresql://greenroom@db/greenroom'
  greenroom store copy --from-store 'postgresql://greenroom@db/greenroom' --to-data-dir greenroom-data`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.fromEnv(cmd.Flags(), "from-store", "GREENROOM_FROM_STORE", &from.StoreURL)
			c.fromEnv(cmd.Flags(), "to-store", "GREENROOM_TO_STORE", &to.StoreURL)
			return copyStore(cmd.Context(), c, from, to)
		},
	}
	flags := copyAll.Flags()
	flags.SortFlags = false
	flags.StringVar(&from.DataDir, "from-data-dir", "", "copy from the embedded store in this `folder`, the --data-dir of a server")
	flags.StringVar(&from.StoreURL, "from-store", "", "copy from the database with this `URL` (GREENROOM_FROM_STORE)")
	flags.StringVar(&to.DataDir, "to-data-dir", "", "copy into an embedded store in this `folder`, which is made if it is missing")
	flags.StringVar(&to.StoreURL, "to-store", "", "copy into the database with this `URL` (GREENROOM_TO_STORE)")
	return group(&cobra.Command{
		Use: "store", Short: "Move what servers keep from one store to another",
		Long:    "Copy everything from one store to another, while no server runs.",
		Example: "  greenroom store copy --from-data-dir greenroom-data --to-store 'postgresql://greenroom@db/greenroom'",
	}, copyAll)
}

// progressStep is after how many things the command says how far it is.
const progressStep = 100_000

func copyStore(ctx context.Context, c *cli, from, to node.StorePlace) error {
	if (from.DataDir == "") == (from.StoreURL == "") {
		return usagef("give either --from-data-dir or --from-store: it is what is copied")
	}
	if (to.DataDir == "") == (to.StoreURL == "") {
		return usagef("give either --to-data-dir or --to-store: it is what is copied to")
	}
	logger, err := newLogger(c.stderr, "text", "warn")
	if err != nil {
		return err
	}
	told := 0
	n, err := node.CopyStore(ctx, from, to, logger, func(n node.CopyCounts) {
		if total := n.Total(); total >= told+progressStep {
			told = total
			c.printf(c.stderr, "copied %d so far, %d actors among them\n", total, n.Actors)
		}
	})
	if err != nil {
		return err
	}
	if n.Secrets > 0 {
		c.printf(c.stderr, "%s the secrets can be read with their old key alone: %s\n", c.paint(c.stderr, yellow, "note:"), keyAdvice(from, to))
	}
	if c.wantsJSON() {
		return writeJSON(c.stdout, n)
	}
	c.table([]string{"COPIED", "NUMBER"}, [][]string{
		{"actors", strconv.Itoa(n.Actors)}, {"tombstones of deleted actors", strconv.Itoa(n.Tombstones)},
		{"modules", strconv.Itoa(n.Modules)}, {"deployments", strconv.Itoa(n.Deployments)},
		{"configuration and grants", strconv.Itoa(n.Settings)}, {"secrets", strconv.Itoa(n.Secrets)},
		{"idempotency keys", strconv.Itoa(n.Records)}, {"reminders", strconv.Itoa(n.Reminders)},
		{"dead letters", strconv.Itoa(n.DeadLetters)}, {"buckets of reminders", strconv.Itoa(n.Buckets)}, {"events", strconv.Itoa(n.Events)},
	})
	return nil
}

// keyAdvice says where the key of the secrets goes.
func keyAdvice(from, to node.StorePlace) string {
	key := "the file that --secrets-key-file named"
	if from.DataDir != "" {
		key = filepath.Join(from.DataDir, "secrets.key")
	}
	if to.DataDir != "" {
		return "copy " + key + " to " + filepath.Join(to.DataDir, "secrets.key") + " before a server starts there"
	}
	return "keep " + key + ", and give it to servers with --secrets-key-file"
}

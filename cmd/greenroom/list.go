package main

import (
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

// pageFlags are those of commands that list.
type pageFlags struct {
	limit int32
	token string
	all   bool
}

func (p *pageFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Int32Var(&p.limit, "limit", 100, "at most this `number`, up to 1000")
	flags.StringVar(&p.token, "page-token", "", "continue after an earlier page, by its `token`")
	flags.BoolVar(&p.all, "all", false, "all pages")
}

// collect calls fetch for one page or, with --all, for each. It returns what the pages
// have, and the token of the page after the last one read.
func collect[T any](p *pageFlags, fetch func(size int32, token string) (items []T, next string, err error)) (all []T, next string, err error) {
	if p.limit < 1 || p.limit > 1000 {
		return nil, "", usagef("--limit is %d; give 1 to 1000, or --all", p.limit)
	}
	for next = p.token; ; {
		var items []T
		items, next, err = fetch(p.limit, next)
		if all = append(all, items...); err != nil || next == "" || !p.all {
			return all, next, err
		}
	}
}

// listing is what a command lists: for JSON the message of the API that has it.
type listing interface {
	proto.Message
	GetNextPageToken() string
}

// rowsOf are the rows of a table, one for each item.
func rowsOf[T any](items []T, row func(item T) []string) [][]string {
	rows := make([][]string, len(items))
	for i, item := range items {
		rows[i] = row(item)
	}
	return rows
}

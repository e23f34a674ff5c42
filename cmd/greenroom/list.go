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

// listing is a page of what a command lists, as the API answers with it.
type listing interface {
	proto.Message
	GetNextPageToken() string
}

// collect calls fetch for one page or, with --all, for each. It returns the pages in one,
// with the token of the page after the last one read.
func collect[M listing](p *pageFlags, fetch func(size int32, token string) (M, error)) (all M, err error) {
	if p.limit < 1 || p.limit > 1000 {
		return all, usagef("--limit is %d; give 1 to 1000, or --all", p.limit)
	}
	if all, err = fetch(p.limit, p.token); err != nil {
		return all, err
	}
	token := all.ProtoReflect().Descriptor().Fields().ByName("next_page_token")
	for p.all && all.GetNextPageToken() != "" {
		page, err := fetch(p.limit, all.GetNextPageToken())
		if err != nil {
			return all, err
		}
		all.ProtoReflect().Clear(token) // the last page has none
		proto.Merge(all, page)
	}
	return all, nil
}

// mapped returns the result of a function for each item.
func mapped[T, M any](items []T, of func(item T) M) []M {
	all := make([]M, len(items))
	for i, item := range items {
		all[i] = of(item)
	}
	return all
}

package role

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// roles are what this test's own binary plays.
var roles = Roles{
	"double": Of(func(_ context.Context, n int) (int, error) {
		if n < 0 {
			return 0, errors.New("below zero")
		}
		return 2 * n, nil
	}),
	"stay": func(ctx context.Context, _ json.RawMessage, say func(any) error) error {
		if err := say("here"); err != nil {
			return err
		}
		<-ctx.Done()
		return say(strings.Repeat("more than a pipe holds", 1<<14))
	},
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == Verb {
		if err := roles.Serve(context.Background(), os.Args[2], os.Stdin, os.Stdout); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestCall(t *testing.T) {
	if n, err := Call[int](t.Context(), "double", 21); n != 42 || err != nil {
		t.Fatalf("double = %d, %v", n, err)
	}
	for _, name := range []string{"double", "nobody"} {
		if n, err := Call[int](t.Context(), name, -1); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s = %d, %v", name, n, err)
		}
	}
}

func TestCloseEndsWhatServes(t *testing.T) {
	p, err := Start(t.Context(), "stay", nil)
	if err != nil {
		t.Fatal(err)
	}
	var said string
	if err := p.Answer(&said); err != nil || said != "here" {
		t.Fatalf("said %q, %v", said, err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package actortest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// Forgetful keeps something where a host does not.
type Forgetful struct {
	Total int `json:"total"`
	seen  int
}

func (f *Forgetful) See(*actor.Context, actor.None) (int, error) {
	f.seen++
	return f.seen, nil
}

func init() { actor.Register("Forgetful", actor.Method("See", (*Forgetful).See)) }

// An instance goes back to its first memory when another actor comes to it.
func TestAChangeOfActorLosesWhatIsNotState(t *testing.T) {
	h := actortest.New(t)
	see := func(id string) (n int) {
		if err := h.Call("Forgetful", id, "See", nil, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := []int{see("a"), see("a"), see("b"), see("a")}; fmt.Sprint(got) != "[1 2 1 1]" {
		t.Errorf("got %v, want [1 2 1 1]: the same actor again keeps its memory, another does not", got)
	}
}

const guestWithVariables = `package main

import "github.com/greenroom-run/greenroom/guest-sdk/go/actor"

var calls int

var (
	cache = map[string]int{}
	table = []int{1, 2}
	//greenroom:shared
	compiled *int
	errGone  = actor.NewError(actor.StatusNotFound, "gone", "gone")
)

type T struct{ N int }

func (t *T) Do(ctx *actor.Context, name string) (int, error) {
	calls++
	cache[name] = calls
	compiled = new(int)
	table := []int{3}
	table[0] = 4
	t.N = len(table)
	return cache[name], nil
}

func (t *T) Forget() { delete(cache, "a") }

func init() {
	table = append(table, 5)
	actor.Register("T", actor.Method("Do", (*T).Do))
}

func main() {}
`

// What plain Go cannot put back is found in the source.
func TestPackageVariablesAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.go": guestWithVariables, "main_test.go": "package main\n\nvar n int\n\nfunc f() { n++ }\n", "other.go": "package main\n\nvar m int\n\nfunc g() { m++ }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rec := &complaints{TB: t}
	actortest.ComplainOfVariables(rec, dir)
	got := strings.Join(rec.errors, "\n")
	for _, want := range []string{"main.go:18:2: Do changes the package variable calls;", "main.go:19:2: Do changes the package variable cache;"} {
		if !strings.Contains(got, want) {
			t.Errorf("not found: %s in\n%s", want, got)
		}
	}
	if len(rec.errors) != 2 {
		t.Errorf("%d found, want 2:\n%s", len(rec.errors), got)
	}
}

type complaints struct {
	testing.TB
	errors []string
}

func (c *complaints) Helper() {}

func (c *complaints) Errorf(format string, args ...any) {
	c.errors = append(c.errors, fmt.Sprintf(format, args...))
}

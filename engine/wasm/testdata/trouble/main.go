// Command trouble is a guest that does what guests of standard Go do when they
// go wrong, and what they may rely on.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

type Trouble struct{}

func (*Trouble) Panic(*actor.Context, actor.None) (actor.None, error) {
	panic("everything is lost")
}

func (*Trouble) NilMap(*actor.Context, actor.None) (actor.None, error) {
	var m map[string]int
	m["a"] = 1
	return actor.None{}, nil
}

func (*Trouble) Exit(*actor.Context, actor.None) (actor.None, error) {
	os.Exit(3)
	return actor.None{}, nil
}

func (*Trouble) Recurse(*actor.Context, actor.None) (int, error) { return recurse(1), nil }

// recurse has a large frame: it reaches the limit in few steps.
func recurse(n int) int {
	var frame [1024]int
	frame[n%len(frame)] = recurse(n+1) + 1
	return frame[(n+1)%len(frame)]
}

func (*Trouble) Hoard(*actor.Context, actor.None) (int, error) {
	var all [][]byte
	for {
		all = append(all, make([]byte, 1<<20))
		for i := range all {
			all[i][0]++
		}
	}
}

func (*Trouble) Loop(*actor.Context, actor.None) (actor.None, error) {
	for {
	}
}

func (*Trouble) Print(*actor.Context, actor.None) (actor.None, error) {
	fmt.Println("to stdout")
	fmt.Fprint(os.Stderr, "to stderr, ")
	fmt.Fprint(os.Stderr, "without an end")
	return actor.None{}, nil
}

// Environment answers what must be the same whenever the same turn runs.
func (*Trouble) Environment(ctx *actor.Context, _ actor.None) (map[string]any, error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	start := time.Now()
	time.Sleep(time.Hour)
	_, fileErr := os.ReadFile("/etc/passwd")
	_, dirErr := os.ReadDir("/")
	return map[string]any{
		"now":    start.UTC().Format(time.RFC3339Nano),
		"ctx":    ctx.Now().UTC().Format(time.RFC3339Nano),
		"slept":  time.Since(start) >= time.Hour,
		"random": hex.EncodeToString(random[:]),
		"args":   len(os.Args),
		"env":    len(os.Environ()),
		"files":  !errors.Is(fileErr, nil) && !errors.Is(dirErr, nil),
	}, nil
}

func init() {
	actor.Register("Trouble",
		actor.Method("Panic", (*Trouble).Panic),
		actor.Method("NilMap", (*Trouble).NilMap),
		actor.Method("Exit", (*Trouble).Exit),
		actor.Method("Recurse", (*Trouble).Recurse),
		actor.Method("Hoard", (*Trouble).Hoard),
		actor.Method("Loop", (*Trouble).Loop),
		actor.Method("Print", (*Trouble).Print),
		actor.Method("Environment", (*Trouble).Environment),
	)
}

func main() {}

// Command system does what the runtime and the library of standard Go ask of WASI,
// and prints what they got. It prints the same on every WASI whose clock, randomness
// and sleep are those of a turn.
package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"time"
)

func main() {
	fmt.Println("args", len(os.Args), "env", len(os.Environ()))
	start := time.Now()
	fmt.Println("now", start.UTC().Format(time.RFC3339Nano))
	time.Sleep(time.Hour)
	fmt.Println("slept an hour", time.Since(start) >= time.Hour, time.Now().UTC().Format(time.RFC3339Nano))

	random := make([]byte, 300)
	_, err := rand.Read(random)
	fmt.Printf("random %x %v %d\n", random, err, mathrand.Uint64())

	var group sync.WaitGroup
	order := make(chan int, 3)
	for _, n := range []int{3, 1, 2} {
		group.Go(func() {
			time.Sleep(time.Duration(n) * time.Minute)
			order <- n
		})
	}
	group.Wait()
	fmt.Println("woke up", <-order, <-order, <-order)
	select {
	case <-time.After(time.Second):
		fmt.Println("a timer")
	case <-make(chan int):
	}

	_, err = os.ReadFile("/etc/passwd")
	fmt.Println("no file", err != nil, errors.Is(err, fs.ErrPermission))
	_, err = os.ReadDir("/")
	fmt.Println("no folder", err != nil)
	fmt.Println("no way to make one", os.Mkdir("x", 0o700) != nil, os.WriteFile("x", nil, 0o600) != nil)
	_, err = os.Getwd()
	fmt.Println("working folder", err)
	in, err := io.ReadAll(os.Stdin)
	fmt.Printf("input %q %v\n", in, err)
	_, err = os.Stdin.Write([]byte("x"))
	fmt.Println("output to the input", err != nil)
	fmt.Println("sync", os.Stdout.Sync())
	fmt.Fprint(os.Stderr, "to stderr\n")
	if len(os.Args) > 5 {
		return
	}
	var m map[string]int
	m["x"] = 1
}

// Command faults has one of everything that TinyGo refuses, or panics in.
package main

import (
	"errors"
	"os/signal" // want package os/signal is not known
	"reflect"
	"strings"
)

type failure struct{}

func (*failure) Error() string { return "" }

func faults(v any) {
	defer func() {
		_ = recover() // want recover
	}()
	ch := make(chan int, 1)
	go faults(v) // want a goroutine
	ch <- 1      // want a channel operation
	<-ch         // want a channel operation
	select {     // want select
	default:
	}
	for range ch { // want a channel operation
	}
	var e *failure
	_ = errors.As(nil, &e) // want errors.As is missing
	_ = errors.Is(nil, e)

	t := reflect.TypeOf(v)
	_ = t.Implements(reflect.TypeFor[error]())   // want reflect.Type.Implements is missing
	_ = t.AssignableTo(reflect.TypeFor[error]()) // want reflect.Type.AssignableTo is missing
	_, _ = t.MethodByName("M")                   // want reflect.Type.MethodByName is missing
	_ = t.NumField()
	_ = reflect.SliceOf(t)           // want reflect.SliceOf is missing
	_ = reflect.ValueOf(v).Call(nil) // want reflect.Value.Call is missing
	convert := reflect.Value.Convert // want reflect.Value.Convert is missing
	_ = convert
	signal.Reset()
	_ = strings.ToUpper("")
}

package guest

import (
	"slices"
	"testing"
)

func TestStack(t *testing.T) {
	for _, tc := range []struct{ name, wazero, printed, want string }{
		{
			"Go's own trace has lines",
			".runtime.abort(i32) i32\n.main.__Boom_.Panic(i32) i32",
			"panic: no\n\ngoroutine 1 [running]:\nmain.inner(...)\n\texample.com/x/panic.go:8\nmain.(*Boom).Panic(0x28e850, 0x2d6100, {})\n" +
				"\texample.com/x/panic.go:7 +0x9\ngithub.com/greenroom-run/greenroom/guest-sdk/go/actor.newMethod[...].func1()\n\tgithub.com/x/method.go:49 +0xc\n",
			"main.inner  example.com/x/panic.go:8\nmain.(*Boom).Panic  example.com/x/panic.go:7",
		},
		{
			"Go's runtime on top",
			"", "fatal error: out of memory\n\ngoroutine 1 gp=0x2821c0 m=0 mp=0x19e0a0 [running]:\nruntime.throw({0x38b9b, 0xd})\n\truntime/panic.go:1229 +0x3 fp=0x295ae0\n" +
				"main.(*Boom).Big(0x28e850, {})\n\texample.com/x/panic.go:13 +0x2 fp=0x295c20 sp=0x295bf8 pc=0x189c0002\n\ngoroutine 2 gp=0x1 m=nil [force gc (idle)]:\nruntime.gopark(0x41e28)\n\truntime/proc.go:462 +0x21\n",
			"main.(*Boom).Big  example.com/x/panic.go:13",
		},
		{
			"Go without a trace, and repeats",
			"greenroom_meter.refill(i64) i64\n.main.deep(i32) i32\n.main.deep(i32) i32\n.main.deep(i32) i32\n... maybe followed by omitted frames", "",
			"main.deep  (3 times or more)",
		},
		{
			"Go's methods by the linker's names",
			".runtime.sigpanic(i32) i32\n.main.__Boom_.Panic(i32) i32\n.github.com_greenroom_run_greenroom_guest_sdk_go_actor.__instance_.turn(i32) i32\n.greenroom_turn(i32,i32) i32", "",
			"main.(*Boom).Panic",
		},
		{
			"Rust, mangled and not",
			".rust_begin_unwind(i32)\n._ZN4core9panicking9panic_fmt17h0123456789abcdefE(i32,i32)\n" +
				"._ZN4shop4Cart3add17h0123456789abcdefE(i32,i32,i32)\n.shop::Cart::check::h0123456789abcdef(i32) i32\n.greenroom::turn::h0123456789abcdef(i32)\n.greenroom_turn(i32,i32) i32", "",
			"shop::Cart::add\nshop::Cart::check",
		},
		{"nothing but runtime", ".runtime.abort(i32) i32", "", "runtime.abort"},
		{"no names", ".$3(i32,i32) i32", "", "$3"},
		{"none", "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Stack(tc.wazero, tc.printed); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

type texts []string

func (l *texts) Log(_ int32, text string) { *l = append(*l, text) }

// TestDump: what Go prints when it ends is part of the trap and not of the log,
// unless the guest lives on.
func TestDump(t *testing.T) {
	const text = "before\npanic: no\n\ngoroutine 1 [running]:\nmain.f(...)\n\tx/x.go:8\n"
	for _, traps := range []bool{true, false} {
		var o Output
		var got texts
		o.Begin(&got)
		o.Print(2, []byte(text))
		want := texts{"before"}
		if traps {
			if frames := Stack("", o.Dump()); frames != "main.f  x/x.go:8" {
				t.Errorf("stack %q", frames)
			}
		} else {
			want = texts{"before", "panic: no", "goroutine 1 [running]:", "main.f(...)", "\tx/x.go:8"}
		}
		o.End()
		if !slices.Equal(got, want) {
			t.Errorf("traps %t: logged %q, want %q", traps, got, want)
		}
	}
}

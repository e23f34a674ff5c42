package storetest

import (
	"context"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
)

var services = suite{"Services", []testCase{
	{"a service stands for the actor that claimed it, until that releases it", func(f *fixture) {
		before := f.now()
		a := f.apply(claiming(write(f.key("a"), actor.Row{}, `{}`), "mailer", "printer"))
		found := f.stands("mailer", "a")
		if found.ClaimedAt.Before(before) || found.ClaimedAt.After(f.now()) {
			f.Fatalf("it was claimed at %v", found.ClaimedAt)
		}
		f.stands("nobody", "")
		a = f.apply(claiming(touch(f.key("a"), a), "mailer")) // once more
		if again := f.stands("mailer", "a"); !again.ClaimedAt.Equal(found.ClaimedAt) {
			f.Fatalf("claimed at %v, and again at %v", found.ClaimedAt, again.ClaimedAt)
		}
		f.apply(releasing(touch(f.key("a"), a), "mailer", "never claimed"))
		f.stands("mailer", "")
		f.stands("printer", "a")
		f.apply(claiming(write(f.key("b"), actor.Row{}, `{}`), "mailer"))
		f.stands("mailer", "b")
	}},
	{"a commit that claims what another one stands for is refused as a whole", func(f *fixture) {
		f.apply(claiming(write(f.key("a"), actor.Row{}, `{}`), "mailer"))
		b := f.apply(write(f.key("b"), actor.Row{}, `{"n":1}`))
		c := recording(claiming(write(f.key("b"), b, `{"n":2}`), "free", "mailer"), record("k", "reply"))
		neighbour := write(f.key("c"), actor.Row{}, `{}`)
		errs := f.s.Commit(f.ctx(), []actor.Commit{c, neighbour})
		f.is(errs[0], actor.ErrServiceTaken)
		f.ok(errs[1])
		f.same(f.load(f.key("b")), b)
		f.stands("free", "")
		f.stands("mailer", "a")
		// To release what is another's does nothing.
		f.apply(releasing(touch(f.key("b"), b), "mailer"))
		f.stands("mailer", "a")
	}},
	{"a commit that is refused claims and releases nothing", func(f *fixture) {
		old := f.apply(claiming(write(f.key("a"), actor.Row{}, `{}`), "mailer"))
		f.apply(write(f.key("a"), old, `{"n":1}`))
		f.refuse(claiming(touch(f.key("a"), old), "printer"), actor.ErrStale)
		f.refuse(releasing(touch(f.key("a"), old), "mailer"), actor.ErrStale)
		f.refuse(remove(f.key("a"), old), actor.ErrStale)
		f.stands("printer", "")
		f.stands("mailer", "a")
	}},
	{"one of several that claim at once has it", func(f *fixture) {
		const callers = 4
		f.inParallel(callers, func(i int) error {
			c := claiming(write(f.key(manyID(i)), actor.Row{}, `{}`), "mailer")
			if err := f.s.Commit(f.ctx(), []actor.Commit{c})[0]; err != nil {
				f.is(err, actor.ErrServiceTaken)
			}
			return nil
		})
		there := 0
		for i := range callers {
			if row := f.load(f.key(manyID(i))); row.Version != 0 {
				there++
				f.stands("mailer", manyID(i))
			}
		}
		if there != 1 {
			f.Fatalf("%d commits of %d have claimed it", there, callers)
		}
	}},
	{"deletion and the end of a life release services", func(f *fixture) {
		for _, end := range []func(actor.Key, actor.Row) actor.Commit{remove, passAway} {
			row := f.apply(claiming(write(f.key("a"), f.load(f.key("a")), `{}`), "mailer", "printer"))
			f.apply(end(f.key("a"), row))
			f.stands("mailer", "")
			f.stands("printer", "")
		}
		f.apply(claiming(write(f.key("a"), f.load(f.key("a")), `{}`), "printer"))
		f.apply(claiming(write(f.key("b"), actor.Row{}, `{}`), "mailer"))
		f.apply(remove(f.key("a"), f.load(f.key("a"))))
		f.stands("mailer", "b")
	}},
	{"a locked turn claims and releases", func(f *fixture) {
		turn := func(id string, change func(actor.Commit, ...string) actor.Commit, names ...string) error {
			_, err := f.s.LockedTurn(f.ctx(), f.key(id), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
				c := change(write(f.key(id), row, `{"n":1}`), names...)
				return &c, nil
			})
			return err
		}
		f.ok(turn("a", claiming, "mailer"))
		f.stands("mailer", "a")
		f.is(turn("b", claiming, "free", "mailer"), actor.ErrServiceTaken)
		f.same(f.load(f.key("b")), actor.Row{})
		f.stands("free", "")
		f.ok(turn("a", releasing, "mailer"))
		f.stands("mailer", "")
	}},
	{"services are listed by name, of one app", func(f *fixture) {
		f.apply(claiming(write(f.key("a"), actor.Row{}, `{}`), "work/2", "mailer", "é"))
		f.apply(claiming(write(f.key("b"), actor.Row{}, `{}`), "work/1", "work/10", "worker"))
		for _, c := range []struct {
			q    actor.ServiceQuery
			want []string
		}{
			{actor.ServiceQuery{Limit: 10}, []string{"mailer", "work/1", "work/10", "work/2", "worker", "é"}},
			{actor.ServiceQuery{Prefix: "work/", Limit: 10}, []string{"work/1", "work/10", "work/2"}},
			{actor.ServiceQuery{Prefix: "work/", After: "work/1", Limit: 1}, []string{"work/10"}},
			{actor.ServiceQuery{After: "work/2", Limit: 10}, []string{"worker", "é"}},
			{actor.ServiceQuery{Prefix: "none", Limit: 10}, nil},
		} {
			c.q.App = f.app
			list, err := f.s.ListServices(f.ctx(), c.q)
			f.ok(err)
			var got []string
			for _, v := range list {
				got = append(got, v.Name)
			}
			if !slices.Equal(got, c.want) {
				f.Fatalf("%+v lists %q, want %q", c.q, got, c.want)
			}
		}
		other, err := f.s.FindService(f.ctx(), f.app+"x", "mailer")
		if f.ok(err); other.Name != "" {
			f.Fatalf("another app has %+v", other)
		}
	}},
	{"what breaks the contract is refused", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{}`))
		other := claiming(write(f.key("b"), actor.Row{}, `{}`), "mailer")
		other.Services[0].Actor = f.key("a")
		for _, c := range []actor.Commit{
			other, claiming(write(f.key("a"), row, `{}`), ""), claiming(write(f.key("a"), row, `{}`), "new\nline"),
			claiming(write(f.key("a"), row, `{}`), "x", "x"), claiming(remove(f.key("a"), row), "x"),
		} {
			f.argument(f.commit(c))
		}
		_, err := f.s.FindService(f.ctx(), f.app, "")
		f.argument(err)
		_, err = f.s.ListServices(f.ctx(), actor.ServiceQuery{App: f.app})
		f.argument(err)
	}},
}}

package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/executor"
)

// registerLimits adds a flag for each limit, with the values of defaults.
func registerLimits(flags *pflag.FlagSet, l *host.Limits, defaults host.Limits) {
	flags.Int64Var(&l.StateBytes, "max-state", defaults.StateBytes, "largest state of an actor, in `bytes`")
	flags.Int64Var(&l.PayloadBytes, "max-payload", defaults.PayloadBytes, "largest payload and reply, in `bytes`")
	flags.IntVar(&l.Mailbox, "max-mailbox", defaults.Mailbox, "largest `number` of calls waiting for one actor")
	flags.DurationVar(&l.TurnDeadline, "turn-deadline", defaults.TurnDeadline, "longest time of a turn")
	flags.Uint64Var(&l.Fuel, "turn-fuel", defaults.Fuel, "most `units` of fuel for a turn, about one per simple instruction; 0: bounded by its time and its type's own limit alone")
	flags.Int64Var(&l.MemoryBytes, "max-instance-memory", defaults.MemoryBytes, "largest memory of a guest instance, in `bytes`")
	flags.IntVar(&l.Instances, "max-instances", defaults.Instances, "largest `number` of shared instances for an actor type")
	flags.DurationVar(&l.IdempotencyTTL, "idempotency-window", defaults.IdempotencyTTL, "longest time for which a call with an idempotency key is remembered; a type may ask for less")
	flags.DurationVar(&l.IdleTimeout, "idle-timeout", defaults.IdleTimeout, "how long an unused actor stays in memory")
}

// parseOverrides reads the values of --limit: APP[/TYPE]:NAME=VALUE[,NAME=VALUE].
// The names are those of the flags for all types.
func parseOverrides(values []string) (map[host.Scope]host.Limits, error) {
	overrides := make(map[host.Scope]host.Limits, len(values))
	for _, value := range values {
		where, assignments, ok := strings.Cut(value, ":")
		app, typ, _ := strings.Cut(where, "/")
		if !ok || app == "" || assignments == "" {
			return nil, usagef("--limit is %q; give it as APP/TYPE:NAME=VALUE or APP:NAME=VALUE", value)
		}
		err := actor.ValidateName("app", app)
		if err == nil && typ != "" {
			err = actor.ValidateName("type", typ)
		}
		if err != nil {
			return nil, usagef("--limit %s: %v", where, err)
		}
		scope := host.Scope{App: app, Type: typ}
		// What an earlier --limit of the same scope said stays.
		l := overrides[scope]
		flags := pflag.NewFlagSet("limit", pflag.ContinueOnError)
		registerLimits(flags, &l, l)
		flags.StringVar(&l.Pool, "pool", l.Pool, "the pool of turns")
		for assignment := range strings.SplitSeq(assignments, ",") {
			name, v, ok := strings.Cut(assignment, "=")
			if !ok {
				return nil, usagef("--limit %s: %q is not of the form NAME=VALUE", where, assignment)
			}
			if flags.Lookup(name) == nil {
				var names []string
				flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
				meant := "the names are " + strings.Join(names, ", ")
				if near := nearest(name, names); near != "" {
					meant = "did you mean " + near + "?"
				}
				return nil, usagef("--limit %s: there is no limit %q; %s", where, name, meant)
			}
			if err := flags.Set(name, v); err != nil {
				return nil, usagef("--limit %s: %v", where, err)
			}
		}
		if err := refuseNegative("--limit "+where+": ", flags); err != nil {
			return nil, err
		}
		overrides[scope] = l
	}
	return overrides, nil
}

// parsePools reads the values of --pool: NAME:concurrency=NUMBER,weight=NUMBER, either or both.
func parsePools(values []string) ([]host.PoolConfig, error) {
	pools := make([]host.PoolConfig, len(values))
	for i, value := range values {
		name, assignments, ok := strings.Cut(value, ":")
		if !ok || assignments == "" {
			return nil, usagef("--pool is %q; give it as NAME:concurrency=NUMBER,weight=NUMBER, with one of them or both", value)
		}
		p := host.PoolConfig{Name: name}
		for assignment := range strings.SplitSeq(assignments, ",") {
			what, v, _ := strings.Cut(assignment, "=")
			n, err := strconv.Atoi(v)
			switch {
			case what != "concurrency" && what != "weight":
				return nil, usagef("--pool %s: %q is not known; a pool has concurrency=NUMBER and weight=NUMBER", name, assignment)
			case err != nil || n < 1:
				return nil, usagef("--pool %s: %s is %q; give a number above 0", name, what, v)
			case what == "concurrency":
				p.Concurrency = n
			default:
				p.Weight = n
			}
		}
		pools[i] = p
	}
	if _, err := executor.Pools(1, pools); err != nil {
		return nil, usagef("--pool: %v", err)
	}
	return pools, nil
}

// checkPools refuses limits that name a pool which there is not.
func checkPools(configured []host.PoolConfig, overrides map[host.Scope]host.Limits) error {
	pools, err := executor.Pools(1, configured)
	if err != nil {
		return err
	}
	names := mapped(pools, func(p host.PoolConfig) string { return p.Name })
	for scope, l := range overrides {
		if l.Pool != "" && !slices.Contains(names, l.Pool) {
			return usagef("--limit %s: %v", scope, &executor.UnknownPoolError{Name: l.Pool, Known: names})
		}
	}
	return nil
}

// refuseNegative refuses the numbers and times below 0 among the flags that were
// given.
func refuseNegative(where string, flags *pflag.FlagSet) error {
	var err error
	flags.Visit(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "int", "int64", "duration":
			if err == nil && strings.HasPrefix(f.Value.String(), "-") {
				err = usagef("%s--%s is %s; give a value above 0", where, f.Name, f.Value)
			}
		}
	})
	return err
}

// checkMemory refuses limits that the host would refuse as well, in the words of
// the command line.
func checkMemory(f serveFlags, overrides map[host.Scope]host.Limits) error {
	cfg := host.Config{Limits: f.limits, Overrides: overrides, StateMemory: f.stateMemory, CallMemory: f.callMemory}.WithDefaults()
	check := func(where string, l host.Limits) error {
		switch {
		case l.StateBytes+l.PayloadBytes > host.MaxStateAndPayload:
			return usagef("%s--max-state %d and --max-payload %d are %d bytes together; a store takes at most %d in one commit: lower either",
				where, l.StateBytes, l.PayloadBytes, l.StateBytes+l.PayloadBytes, host.MaxStateAndPayload)
		case l.StateBytes > cfg.StateMemory/host.StatesInMemory:
			return usagef("%s--max-state is %d; --max-state-memory must be at least %d times as much", where, l.StateBytes, host.StatesInMemory)
		case l.PayloadBytes > cfg.CallMemory/host.PayloadsInMemory:
			return usagef("%s--max-payload is %d; --max-call-memory must be at least %d times as much", where, l.PayloadBytes, host.PayloadsInMemory)
		}
		return nil
	}
	if err := check("", cfg.Limits); err != nil {
		return err
	}
	for scope := range overrides {
		if err := check("--limit "+scope.String()+": ", cfg.LimitsOf(scope)); err != nil {
			return err
		}
	}
	return nil
}

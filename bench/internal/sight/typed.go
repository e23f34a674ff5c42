package sight

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	walletv1 "github.com/greenroom-run/greenroom/internal/node/gen/wallet/v1"
	"github.com/greenroom-run/greenroom/internal/node/gen/wallet/v1/walletv1connect"
)

// TypedRole calls the actors of examples/wallet by a generated client and by Invoke.
const TypedRole = "typed"

const (
	typedCalls = "processor time"

	connections  = 64
	typedActors  = 10_000
	roundsOfCall = 3 // in a run
)

// typed is sight.3.
func typed(b *bar.B) {
	s := b.ServeEmbedded(b.Build("examples/wallet", guestbuild.Go))
	b.Each(func(run int) {
		plan := b.Plan(connections, typedActors, map[string]int{"server": s.PID})
		for _, r := range bar.Call[[]TypedRound](b, TypedRole, TypedSpec{URL: s.URL, Plan: plan, Rounds: roundsOfCall}) {
			b.Measured("typed client", run, r.Typed)
			b.Measured("Invoke", run, r.Invoke)
			b.Compare(typedCalls, bar.Micros(r.Typed.CPUPerCall()), bar.Micros(r.Invoke.CPUPerCall()))
		}
	})
}

// TypedSpec says how to load a server. A round has the calls of both kinds, one after the other; which
// come first alternates.
type TypedSpec struct {
	URL    string
	Plan   load.Plan
	Rounds int
}

// TypedRound is what a round measured.
type TypedRound struct{ Typed, Invoke load.Result }

// Typed plays [TypedRole].
func Typed(ctx context.Context, s TypedSpec) (rounds []TypedRound, err error) {
	client := &http.Client{Transport: &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, MaxIdleConns: s.Plan.Outstanding, MaxIdleConnsPerHost: s.Plan.Outstanding, DisableCompression: true,
	}}
	wallets := walletv1connect.NewWalletServiceClient(client, s.URL)
	actors := greenroomv1connect.NewActorServiceClient(client, s.URL)
	deposit := func(target int) *walletv1.DepositRequest {
		return &walletv1.DepositRequest{WalletId: "w" + strconv.Itoa(target), Cents: 1}
	}
	byClient := func(ctx context.Context, _, target, _ int) error {
		_, err := wallets.Deposit(ctx, connect.NewRequest(deposit(target)))
		return err
	}
	// Both decode the reply: a caller of Invoke has the bytes of the same messages.
	byInvoke := func(ctx context.Context, _, target, _ int) error {
		in := deposit(target)
		payload, err := proto.Marshal(in)
		if err != nil {
			return err
		}
		resp, err := actors.Invoke(ctx, connect.NewRequest(&greenroomv1.InvokeRequest{
			Actor: &greenroomv1.ActorKey{Type: "Wallet", Id: in.WalletId}, Method: "Deposit", ContentType: "application/protobuf", Payload: payload,
		}))
		if err != nil {
			return err
		}
		return proto.Unmarshal(resp.Msg.GetPayload(), new(walletv1.Balance))
	}
	must.Check(sameReply(ctx, byClient, byInvoke, wallets))
	once := load.Plan{Outstanding: s.Plan.Outstanding, Actors: s.Plan.Actors, Once: true} // activates all
	must.Get(load.Drive(ctx, once, byClient))
	for n := range s.Rounds {
		var r TypedRound
		kinds := []struct {
			call load.Call
			to   *load.Result
		}{{byClient, &r.Typed}, {byInvoke, &r.Invoke}}
		for i := range kinds {
			k := kinds[(n+i)%len(kinds)]
			*k.to = must.Get(load.Drive(ctx, s.Plan, k.call))
		}
		rounds = append(rounds, r)
	}
	return rounds, nil
}

// sameReply makes sure that both kinds of calls change the same actor.
func sameReply(ctx context.Context, byClient, byInvoke load.Call, wallets walletv1connect.WalletServiceClient) error {
	req := &walletv1.GetBalanceRequest{WalletId: "w-1"}
	before, err := wallets.GetBalance(ctx, connect.NewRequest(req))
	if err != nil {
		return err
	}
	for _, call := range []load.Call{byClient, byInvoke} {
		if err := call(ctx, 0, -1, 0); err != nil {
			return err
		}
	}
	after, err := wallets.GetBalance(ctx, connect.NewRequest(req))
	if err == nil && after.Msg.Cents != before.Msg.Cents+2 {
		err = fmt.Errorf("after two deposits of one cent there are %d, and %d before", after.Msg.Cents, before.Msg.Cents)
	}
	return err
}

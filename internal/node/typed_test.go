package node_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	walletv1 "github.com/greenroom-run/greenroom/internal/node/gen/wallet/v1"
	"github.com/greenroom-run/greenroom/internal/node/gen/wallet/v1/walletv1connect"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestWalletExample calls a guest with clients that are generated from its service.
func TestWalletExample(t *testing.T) {
	withGoToolchains(t, func(t *testing.T, toolchain string) {
		testWallets(t, example(t, "wallet", toolchain))
	})
}

// TestRustWalletExample calls the same in Rust, whose code is generated as well.
func TestRustWalletExample(t *testing.T) {
	testWallets(t, example(t, filepath.Join("wallet", "rust"), guestbuild.Cargo))
}

// testWallets calls the wallets of a module, by each protocol.
func testWallets(t *testing.T, module []byte) {
	t.Helper()
	r := start(t, node.Config{})
	r.deploy(t, "", module)
	client := h2c()
	t.Cleanup(client.CloseIdleConnections)
	for name, opts := range map[string][]connect.ClientOption{
		"connect": nil, "json": {connect.WithProtoJSON()}, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()}, "get": {connect.WithHTTPGet()},
	} {
		t.Run(name, func(t *testing.T) {
			wallets := walletv1connect.NewWalletServiceClient(client, r.URL, opts...)
			ann, bob := "ann by "+name, "bob by "+name
			res, err := wallets.Deposit(t.Context(), connect.NewRequest(&walletv1.DepositRequest{WalletId: ann, Cents: 100}))
			if err != nil || res.Msg.GetCents() != 100 || !res.Msg.GetChangedAt().IsValid() || res.Msg.GetChangedAt().AsTime().Year() < 2020 {
				t.Fatalf("got %v, %v", res, err)
			}
			pay := connect.NewRequest(&walletv1.PayRequest{To: bob, Cents: 30})
			pay.Header().Set("Greenroom-Actor", ann)
			pay.Header().Set("Idempotency-Key", "once")
			for range 2 {
				if res, err = wallets.Pay(t.Context(), pay); err != nil || res.Msg.GetCents() != 70 {
					t.Fatalf("got %v, %v", res, err)
				}
			}
			if res, err = wallets.GetBalance(t.Context(), connect.NewRequest(&walletv1.GetBalanceRequest{WalletId: bob})); err != nil || res.Msg.GetCents() != 30 {
				t.Errorf("got %v, %v", res, err)
			}
			_, err = wallets.Pay(t.Context(), connect.NewRequest(&walletv1.PayRequest{WalletId: bob, To: ann, Cents: 31}))
			if connect.CodeOf(err) != connect.CodeFailedPrecondition || detail(err).GetGuest().GetCode() != "insufficient" || detail(err).GetActorId() != bob {
				t.Errorf("got %v", err)
			}
			_, err = wallets.Deposit(t.Context(), connect.NewRequest(&walletv1.DepositRequest{Cents: 1}))
			if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "wallet_id is empty") {
				t.Errorf("no ID: %v", err)
			}
		})
	}
	if got, err := r.call(t.Context(), "", "Wallet", "json", "Deposit", `{"cents": "9007199254740993"}`); err != nil || !strings.Contains(got, `"9007199254740993"`) {
		t.Errorf("JSON by Invoke: got %s, %v", got, err)
	}
	_, err := r.call(t.Context(), "", "Wallet", "json", "Deposit", `{"cents": 1, "note": 2}`)
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), `unknown field "note"`) {
		t.Errorf("JSON with an unknown field: got %v", err)
	}
}

// TestWalletByGRPCurl lists, describes and calls a guest's service with grpcurl, which asks the server
// for its descriptor.
func TestWalletByGRPCurl(t *testing.T) {
	if _, err := exec.LookPath("grpcurl"); err != nil {
		t.Skip("grpcurl is not installed: go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4")
	}
	r := start(t, node.Config{})
	r.deploy(t, "", example(t, "wallet", ""))
	grpcurl := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "grpcurl", append([]string{"-plaintext"}, args...)...).CombinedOutput() //nolint:gosec // a test's own arguments
		if err != nil {
			t.Fatalf("grpcurl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	addr := strings.TrimPrefix(r.URL, "http://")
	if got := grpcurl(addr, "list"); !strings.Contains(got, "wallet.v1.WalletService\n") || !strings.Contains(got, "greenroom.v1.ActorService\n") {
		t.Errorf("list: %s", got)
	}
	if got := grpcurl(addr, "describe", "wallet.v1.WalletService"); !strings.Contains(got, "rpc Deposit ( .wallet.v1.DepositRequest ) returns ( .wallet.v1.Balance );") {
		t.Errorf("describe: %s", got)
	}
	if got := grpcurl("-d", `{"wallet_id": "ann", "cents": 5}`, addr, "wallet.v1.WalletService/Deposit"); !strings.Contains(got, `"cents": "5"`) {
		t.Errorf("Deposit: %s", got)
	}
	if got := grpcurl("-H", "Greenroom-Actor: ann", addr, "wallet.v1.WalletService/GetBalance"); !strings.Contains(got, `"cents": "5"`) {
		t.Errorf("GetBalance: %s", got)
	}
}

// watched is a stream of changes of a wallet, as a generated client has it.
type watched struct {
	*connect.ServerStreamForClient[walletv1.WalletEvent]
	t *testing.T
}

// watch opens a stream of a wallet, from a position on; from now on if that is empty.
func watch(t *testing.T, wallets walletv1connect.WalletServiceClient, id, from string) watched {
	t.Helper()
	req := connect.NewRequest(&walletv1.WatchRequest{WalletId: id})
	if from != "" {
		req.Header().Set("Greenroom-Events", from)
	}
	s, err := wallets.Watch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return watched{s, t}
}

// wants receives a change, and returns its position.
func (w watched) wants(cents, balance int64) string {
	w.t.Helper()
	if !w.Receive() {
		w.t.Fatalf("the stream ended: %v", w.Err())
	}
	e := w.Msg()
	if e.GetCents() != cents || e.GetBalance() != balance || e.GetAt().AsTime().Year() < 2020 || e.GetGreenroomPosition() == "" {
		w.t.Fatalf("got %v, want %d cents of %d", e, cents, balance)
	}
	return e.GetGreenroomPosition()
}

// TestWatchExample follows a guest's actors with clients that are generated from its service, over every
// protocol, and goes on after the server was started anew.
func TestWatchExample(t *testing.T) {
	withGoToolchains(t, func(t *testing.T, toolchain string) {
		testWatches(t, example(t, "wallet", toolchain))
	})
}

// TestRustWatchExample watches the same in Rust.
func TestRustWatchExample(t *testing.T) {
	testWatches(t, example(t, filepath.Join("wallet", "rust"), guestbuild.Cargo))
}

// testWatches watches the wallets of a module, by each protocol and over a restart.
func testWatches(t *testing.T, module []byte) {
	t.Helper()
	cfg := node.Config{DataDir: t.TempDir()}
	r := start(t, cfg)
	r.deploy(t, "", module)
	client := h2c()
	t.Cleanup(client.CloseIdleConnections)
	for name, opts := range map[string][]connect.ClientOption{
		"connect": nil, "json": {connect.WithProtoJSON()}, "grpc": {connect.WithGRPC()}, "grpc json": {connect.WithGRPC(), connect.WithProtoJSON()}, "grpc-web": {connect.WithGRPCWeb()},
	} {
		t.Run(name, func(t *testing.T) {
			wallets := walletv1connect.NewWalletServiceClient(client, r.URL, opts...)
			ann, bob := "ann by "+name, "bob by "+name
			now := watch(t, wallets, ann, "")
			if begins := now.ResponseHeader().Get("Greenroom-Position"); begins != "0-0" {
				t.Errorf("the stream begins at %q", begins)
			}
			if _, err := wallets.Deposit(t.Context(), connect.NewRequest(&walletv1.DepositRequest{WalletId: ann, Cents: 100})); err != nil {
				t.Fatal(err)
			}
			deposit := now.wants(100, 100)
			if _, err := wallets.Pay(t.Context(), connect.NewRequest(&walletv1.PayRequest{WalletId: ann, To: bob, Cents: 30})); err != nil {
				t.Fatal(err)
			}
			now.wants(-30, 70)
			watch(t, wallets, ann, deposit).wants(-30, 70)
			watch(t, wallets, bob, "start").wants(30, 30)

			for id, from := range map[string]string{"": "", ann: "soon"} {
				bad := watch(t, wallets, id, from)
				if bad.Receive() || connect.CodeOf(bad.Err()) != connect.CodeInvalidArgument {
					t.Errorf("the wallet %q from %q: %v", id, from, bad.Err())
				}
			}
			if _, err := r.call(t.Context(), "", "Wallet", ann, "Watch", `{}`); detail(err).GetKind() != "method_not_found" {
				t.Errorf("the rpc as a method: %v", err)
			}
		})
	}

	wallets := walletv1connect.NewWalletServiceClient(client, r.URL, connect.WithGRPC())
	before := watch(t, wallets, "ann by grpc", "start")
	before.wants(100, 100)
	last := before.wants(-30, 70)
	stop(t, r.Node)
	if before.Receive() || before.Err() != nil || before.ResponseTrailer().Get("Greenroom-Position") != last {
		t.Errorf("the server stopped: %v, trailer %v, want %s", before.Err(), before.ResponseTrailer(), last)
	}
	r = start(t, cfg)
	wallets = walletv1connect.NewWalletServiceClient(client, r.URL, connect.WithGRPC())
	after := watch(t, wallets, "ann by grpc", last)
	if _, err := wallets.Deposit(t.Context(), connect.NewRequest(&walletv1.DepositRequest{WalletId: "ann by grpc", Cents: 5})); err != nil {
		t.Fatal(err)
	}
	after.wants(5, 75)

	send := func(payload string) error {
		_, err := r.actors.Send(t.Context(), connect.NewRequest(&greenroomv1.SendRequest{Messages: []*greenroomv1.OutgoingMessage{
			{Type: "Wallet", Id: "ann by grpc", Method: "Deposit", Payload: []byte(payload)},
		}}))
		return err
	}
	if err := send(`{"cents": 6}`); err != nil {
		t.Fatal(err)
	}
	after.wants(6, 81)
	if err := send(`{"cent": 6}`); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a message with an unknown field: %v", err)
	}
}

// TestWatchOfTheCluster: every server of a cluster streams the events of every actor, and a stream of
// one that stops goes on at another, without a gap.
func TestWatchOfTheCluster(t *testing.T) {
	url := pgtest.URL(t)
	first := start(t, inCluster(url, nil))
	first.deploy(t, "", example(t, "wallet", guestbuild.Go))
	second := start(t, inCluster(url, nil))
	client := h2c()
	t.Cleanup(client.CloseIdleConnections)
	atFirst := walletv1connect.NewWalletServiceClient(client, first.URL)
	atSecond := walletv1connect.NewWalletServiceClient(client, second.URL, connect.WithGRPC())
	deposit := func(wallets walletv1connect.WalletServiceClient, cents int64) {
		t.Helper()
		if _, err := wallets.Deposit(t.Context(), connect.NewRequest(&walletv1.DepositRequest{WalletId: "ann", Cents: cents})); err != nil {
			t.Fatal(err)
		}
	}
	deposit(atFirst, 1)
	ends, stays := watch(t, atFirst, "ann", "start"), watch(t, atSecond, "ann", "start")
	ends.wants(1, 1)
	stays.wants(1, 1)
	deposit(atSecond, 2)
	stays.wants(2, 3)
	last := ends.wants(2, 3)
	stop(t, first.Node)
	if ends.Receive() || ends.Err() != nil || ends.ResponseTrailer().Get("Greenroom-Position") != last {
		t.Errorf("the server stopped: %v, trailer %v, want %s", ends.Err(), ends.ResponseTrailer(), last)
	}
	deposit(atSecond, 4)
	stays.wants(4, 7)
	watch(t, atSecond, "ann", last).wants(4, 7)
}

package node_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	walletv1 "github.com/greenroom-run/greenroom/internal/node/gen/wallet/v1"
	"github.com/greenroom-run/greenroom/internal/node/gen/wallet/v1/walletv1connect"
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

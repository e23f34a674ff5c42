package extism

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/abi/manifest"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine/binary"
	"github.com/greenroom-run/greenroom/engine/enginetest"
	. "github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// The PDK's config_get and http_request give what the app was given, by Greenroom's
// rules, and a refusal ends the turn with a typed error.
func TestCapabilitiesOfAPlugin(t *testing.T) {
	e := newEngine(t, Config{})
	i := instantiate(t, enginetest.Load(t, e, ledger(t)))
	ctx := context.Background()
	c := newCalls()
	c.gives = map[string]string{"config report_url": "https://reports.example/ledger", "secret report_key": "hush"}
	c.answer = abi.HTTPResponse{Status: 202, Body: []byte("noted")}
	if err := i.Run(ctx, frame("a", "deposit", `{"cents":500}`), c); err != nil {
		t.Fatal(err)
	}
	if err := i.Run(ctx, frame("a", "report", ""), c); err != nil {
		t.Fatal(err)
	}
	if got := string(c.reply.Data); got != "202 noted" {
		t.Errorf("replied %q", got)
	}
	if len(c.requests) != 1 || c.requests[0].Method != http.MethodPost || c.requests[0].URL != "https://reports.example/ledger" || string(c.requests[0].Body) != `{"cents":500}` ||
		len(c.requests[0].Headers) != 1 || c.requests[0].Headers[0] != (abi.Header{Name: "authorization", Value: "Bearer hush"}) {
		t.Errorf("sent %+v", c.requests)
	}

	var ge *actor.GuestError
	for code, status := range map[string]uint16{
		abi.HTTPDenied: abi.StatusPermissionDenied, abi.HTTPTimeout: abi.StatusDeadlineExceeded, abi.HTTPUnreachable: abi.StatusUnavailable,
		abi.HTTPReadOnly: abi.StatusFailedPrecondition, abi.HTTPTooLarge: abi.StatusResourceExhausted,
	} {
		c.answer = abi.HTTPResponse{Code: code, Message: "because"}
		if err := i.Run(ctx, frame("a", "report", ""), c); !errors.As(err, &ge) || ge.Code != "http_"+code || ge.Status != actor.Status(status) || !strings.Contains(ge.Message, "because") {
			t.Errorf("%s: %v", code, err)
		}
	}
	// A secret that is not declared ends the turn; a configuration value that is not
	// is not there, as Extism has it.
	delete(c.gives, "secret report_key")
	if err := i.Run(ctx, frame("a", "report", ""), c); !errors.As(err, &ge) || ge.Code != "denied" {
		t.Errorf("without the secret: %v", err)
	}
	c.gives = map[string]string{"secret report_key": "hush"}
	c.requests, c.answer = nil, abi.HTTPResponse{Status: 200}
	if err := i.Run(ctx, frame("a", "report", ""), c); err != nil || len(c.requests) != 1 || c.requests[0].URL != "" {
		t.Errorf("without the configuration: %v, sent %+v", err, c.requests)
	}
}

// What a plug-in must declare are Greenroom's functions; Extism's own are imported by
// PDKs whether they are called or not.
func TestUndeclaredCapabilitiesOfPlugins(t *testing.T) {
	for _, tt := range []struct {
		module, name, capabilities string
		faults                     int
	}{
		{userModule, "greenroom_config_get", ``, 1},
		{userModule, "greenroom_config_get", `,"capabilities":{"config":["a"]}`, 0},
		{userModule, "greenroom_secret_get", `,"capabilities":{"config":["a"]}`, 1},
		{userModule, "greenroom_secret_get", `,"capabilities":{"secrets":["a"]}`, 0},
		{envModule, "config_get", ``, 0},
		{envModule, "http_request", ``, 0},
	} {
		b := &Builder{}
		b.ImportFunc(tt.module, tt.name, []byte{I64}, []byte{I64})
		m, err := binary.Parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		spec, wrong := manifest.Parse([]byte(`{"abi":1,"types":[{"name":"T","methods":[{"name":"M"}]` + tt.capabilities + `}]}`))
		if len(wrong) > 0 {
			t.Fatal(wrong)
		}
		var f faults
		checkCapabilities(m, spec, &f)
		if len(f) != tt.faults || len(f) > 0 && (f[0].Code != FaultCapability || !strings.Contains(f[0].Message, tt.name)) {
			t.Errorf("%s with %q: %v", tt.name, tt.capabilities, f)
		}
	}
}

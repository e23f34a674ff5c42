package typed_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/internal/typed"
)

func TestBreaking(t *testing.T) {
	replaced := func(pairs ...string) func(*abi.TypeSpec) {
		return func(s *abi.TypeSpec) {
			s.Protobuf.Descriptor = encoded(t, strings.NewReplacer(pairs...).Replace(shop))
		}
	}
	const amount = `{"name": "amount", "jsonName": "amount", "number": 1, "label": "LABEL_OPTIONAL", "type": "TYPE_INT64"}`
	for _, tt := range []struct {
		name   string
		change func(*abi.TypeSpec)
		want   []string
	}{
		{"nothing", func(*abi.TypeSpec) {}, nil},
		{"a new field", replaced(amount, amount+`,{"name": "more", "jsonName": "more", "number": 9, "label": "LABEL_OPTIONAL", "type": "TYPE_INT64"}`), nil},
		{"a field that is renamed, but not in JSON", replaced(`"name": "amount"`, `"name": "sum"`), nil},
		{"a field that is renamed", replaced(`"name": "amount", "jsonName": "amount"`, `"name": "sum", "jsonName": "sum"`), []string{"the field shop.v1.Request.amount is called sum in JSON instead of amount"}},
		{"a field of another type", replaced(amount, strings.Replace(amount, "INT64", "STRING", 1)), []string{"the field shop.v1.Request.amount is string instead of int64"}},
		{"a field that is repeated", replaced(amount, strings.Replace(amount, "OPTIONAL", "REPEATED", 1)), []string{"the field shop.v1.Request.amount is repeated instead of one value"}},
		{"a field that is gone", replaced(amount+",", ""), []string{"the field shop.v1.Request.amount, number 1, is gone; reserve its number"}},
		{"a field that is gone and reserved", replaced(amount+",", "", `{"name": "Request",`, `{"name": "Request", "reservedRange": [{"start": 1, "end": 2}],`), nil},
		{"a field of another message", replaced(".google.protobuf.Any", ".google.protobuf.Timestamp"), []string{"the field shop.v1.Request.extra is google.protobuf.Timestamp instead of google.protobuf.Any"}},
		{"an rpc that is gone", replaced(`{"name": "Add", "inputType": ".shop.v1.Request", "outputType": ".shop.v1.Request"},`, ""), []string{"the rpc Add of shop.v1.Cart is gone; calls of it fail with path_not_found"}},
		{"an rpc that takes another message", replaced(`"name": "Add", "inputType": ".shop.v1.Request"`, `"name": "Add", "inputType": ".google.protobuf.Any"`), []string{
			"the actor's ID is no longer in the field cart_id", "the rpc Add takes google.protobuf.Any instead of shop.v1.Request",
		}},
		{"an rpc with side effects", replaced("NO_SIDE_EFFECTS", "IDEMPOTENT"), []string{"the rpc View may have side effects now; GETs of it are refused"}},
		{"an rpc that becomes streaming", replaced(`"name": "Add",`, `"name": "Add", "serverStreaming": true,`), []string{"the rpc Add returns a stream instead of one message; calls of it are refused"}},
		{"no service", func(s *abi.TypeSpec) { s.Protobuf = abi.Protobuf{} }, []string{"the service shop.v1.Cart is gone; its clients get path_not_found"}},
		{"a new service", func(s *abi.TypeSpec) { s.Protobuf.Service = "shop.v2.Cart" }, []string{"the service shop.v1.Cart is gone; its clients get path_not_found"}},
		{"another ID field", func(s *abi.TypeSpec) { s.Protobuf.IDField = "" }, []string{"the actor's ID is no longer in the field cart_id"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after := cart(t), cart(t)
			tt.change(&after)
			if strings.Contains(tt.name, "takes another") {
				after.Protobuf.IDField = ""
			}
			if _, problems := typed.Parse(&after); after.Protobuf.Service == before.Protobuf.Service && len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := typed.Breaking(&before, &after); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	var none abi.TypeSpec
	after := cart(t)
	if got := typed.Breaking(&none, &after); got != nil {
		t.Errorf("the first service: %q", got)
	}
}

// TestStreamThatCeases: clients of a stream learn that its rpc returns one message.
func TestStreamThatCeases(t *testing.T) {
	before, after := cart(t), cart(t)
	before.Protobuf.Descriptor = encoded(t, strings.Replace(shop, `"name": "Add",`, `"name": "Add", "serverStreaming": true,`, 1))
	want := []string{"the rpc Add returns one message instead of a stream; open streams end with path_not_found"}
	if got := typed.Breaking(&before, &after); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := typed.Breaking(&before, &before); len(got) > 0 {
		t.Errorf("nothing changed: %q", got)
	}
}

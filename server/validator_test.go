package server

import (
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// FuzzQuickValidator: what passes the short way passes protovalidate.
func FuzzQuickValidator(f *testing.F) {
	long := strings.Repeat("x", 65)
	for _, s := range append(oddIDs, "", "a\nb", "\xff", long, strings.Repeat("x", 513)) {
		f.Add(s, "T", "a", "M", "", int32(0))
		f.Add("", s, "a", "M", "", int32(1))
		f.Add("", "T", s, "M", "", int32(2))
		f.Add("", "T", "a", s, "", int32(-1))
		f.Add("", "T", "a", "M", s, int32(0))
	}
	f.Fuzz(func(t *testing.T, app, typ, id, method, contentType string, consistency int32) {
		key := &greenroomv1.ActorKey{App: app, Type: typ, Id: id}
		for _, m := range []proto.Message{
			&greenroomv1.InvokeRequest{Actor: key, Method: method, ContentType: contentType},
			&greenroomv1.QueryRequest{Actor: key, Method: method, ContentType: contentType, Consistency: greenroomv1.Consistency(consistency)},
		} {
			if !wellFormed(m) {
				continue
			}
			if err := protovalidate.Validate(m); err != nil {
				t.Errorf("passed %v, of which protovalidate says: %v", m, err)
			}
		}
	})
}

func TestQuickValidatorIsQuickForCalls(t *testing.T) {
	key := &greenroomv1.ActorKey{Type: "Counter", Id: "a/b"}
	for _, m := range []proto.Message{&greenroomv1.InvokeRequest{Actor: key, Method: "Add"}, &greenroomv1.QueryRequest{Actor: key, Method: "Get"}} {
		if !wellFormed(m) {
			t.Errorf("%v took the long way", m)
		}
	}
	if wellFormed(&greenroomv1.InvokeRequest{Method: "Add"}) {
		t.Error("a call without an actor took the short way")
	}
}

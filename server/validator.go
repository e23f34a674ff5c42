package server

import (
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// quickValidator passes the calls of actors that are plainly well formed, and
// leaves everything else to protovalidate, which takes microseconds and
// allocates. What it passes, protovalidate would pass: a test holds it to that.
type quickValidator struct{ full protovalidate.Validator }

// Validate implements [protovalidate.Validator].
func (v quickValidator) Validate(msg proto.Message, opts ...protovalidate.ValidationOption) error {
	if wellFormed(msg) {
		return nil
	}
	return v.full.Validate(msg, opts...)
}

func wellFormed(msg proto.Message) bool {
	switch m := msg.(type) {
	case *greenroomv1.InvokeRequest:
		return wellFormedCall(m.GetActor(), m.GetMethod(), m.GetContentType())
	case *greenroomv1.QueryRequest:
		return wellFormedCall(m.GetActor(), m.GetMethod(), m.GetContentType()) &&
			(m.GetConsistency() == greenroomv1.Consistency_CONSISTENCY_UNSPECIFIED ||
				m.GetConsistency() == greenroomv1.Consistency_CONSISTENCY_STRONG)
	}
	return false
}

// maxContentType is the bound of actor.proto, in bytes.
const maxContentType = 255

func wellFormedCall(key *greenroomv1.ActorKey, method, contentType string) bool {
	return key != nil && keyOf(key).Validate() == nil &&
		actor.ValidateName("method", method) == nil && len(contentType) <= maxContentType
}

package invokestream

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// generatedRequest is r as the generated type has it.
// It is that between hosts, of which the one of clients has the first fields.
func generatedRequest(r *Request) *greenroomv1.ExchangeRequest {
	g := &greenroomv1.ExchangeRequest{Cancels: r.Cancels, Hello: r.Hello}
	for _, i := range r.Invocations {
		var firing *greenroomv1.ForwardedFiring
		if len(i.Firing) > 0 {
			firing = &greenroomv1.ForwardedFiring{}
			if err := proto.Unmarshal(i.Firing, firing); err != nil {
				panic(err)
			}
		}
		var tell *greenroomv1.ForwardedMessage
		if len(i.Tell) > 0 {
			tell = &greenroomv1.ForwardedMessage{}
			if err := proto.Unmarshal(i.Tell, tell); err != nil {
				panic(err)
			}
		}
		var origin *greenroomv1.ForwardedOrigin
		if len(i.Origin) > 0 {
			origin = &greenroomv1.ForwardedOrigin{}
			if err := proto.Unmarshal(i.Origin, origin); err != nil {
				panic(err)
			}
		}
		g.Invocations = append(g.Invocations, &greenroomv1.ForwardedInvocation{
			Id: i.ID, Actor: &greenroomv1.ActorKey{App: i.Key.App, Type: i.Key.Type, Id: i.Key.ID}, Method: i.Method,
			Payload: i.Payload.Data, ContentType: i.Payload.ContentType, TimeoutMs: i.TimeoutMS,
			IdempotencyKey: i.IdempotencyKey, ReadOnly: i.ReadOnly, Consistency: i.Consistency,
			InvocationId: i.InvocationID, Caller: i.Caller, RefusedBy: i.RefusedBy, Firing: firing,
			Traceparent: i.Traceparent, Tracestate: i.Tracestate, Origin: origin, Tell: tell,
		})
	}
	return g
}

func generatedResponse(r *Response) *greenroomv1.ExchangeResponse {
	g := &greenroomv1.ExchangeResponse{Hello: r.Hello}
	for _, i := range r.Replies {
		g.Replies = append(g.Replies, &greenroomv1.ExchangeReply{
			Id: i.ID, Payload: i.Payload.Data, ContentType: i.Payload.ContentType, Version: i.Version, Error: i.Error, Fuel: i.Fuel,
			Host: i.Host, Owner: i.Owner, Joined: i.Joined, Callbacks: i.Callbacks,
		})
	}
	return g
}

func requests() []*Request {
	return []*Request{
		{},
		{Invocations: []Invocation{{}}},
		{Cancels: []uint64{0, 1, 1 << 63}},
		{Invocations: []Invocation{
			{ID: 1, Key: actor.Key{App: "a", Type: "T", ID: "x||ü🎭"}, Method: "M", Payload: actor.Payload{ContentType: "x/y", Data: bytes.Repeat([]byte{0, 0xff}, 300)}},
			{ID: 1 << 63, Key: actor.Key{ID: "only"}, TimeoutMS: 1<<32 - 1, IdempotencyKey: "k k", ReadOnly: true, Consistency: greenroomv1.Consistency_CONSISTENCY_STRONG},
			{Consistency: -7},
			{ID: 4, InvocationID: "0123456789abcdef", Caller: "ci", RefusedBy: "host-b"},
			{ID: 5, Firing: encodedFiring(firing())},
			{ID: 6, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Tracestate: "a=1,b=2"},
			{ID: 7, Origin: encodedOrigin(origin())},
			{ID: 8, Tell: encodedTell(told())},
		}, Cancels: []uint64{300}},
		{Hello: &greenroomv1.ExchangeHello{}},
		{Hello: &greenroomv1.ExchangeHello{Cluster: "c", From: "a", To: "b", MinProtocol: 1, MaxProtocol: 2}},
	}
}

func responses() []*Response {
	return []*Response{
		{},
		{Replies: []Reply{{}}},
		{Replies: []Reply{
			{ID: 9, Payload: actor.Payload{ContentType: "x/y", Data: bytes.Repeat([]byte{1, 0x80}, 300)}, Version: 1<<62 + 3, Fuel: 1 << 40},
			{ID: 10, Error: &greenroomv1.StreamError{Code: 9, Message: "no", Detail: &greenroomv1.ErrorDetail{Kind: "guest_error", Retryable: true, Guest: &greenroomv1.GuestErrorDetail{Code: "c"}}}},
			{ID: 11, Error: &greenroomv1.StreamError{}, Fuel: 1, Host: "127.0.0.1:8080", Owner: "someone"},
			{ID: 12, Joined: "p.1"},
			{ID: 13, Callbacks: true},
		}},
		{Hello: &greenroomv1.ExchangeHello{ApiAddress: "[::1]:80"}},
	}
}

// TestAsGenerated: both directions agree with the generated code, byte for byte
// and value for value.
func TestAsGenerated(t *testing.T) {
	check := func(f, back Frame, generated, parsed proto.Message, backAsGenerated func() proto.Message) {
		t.Helper()
		got, err := f.Append([]byte("prefix"))
		if err != nil {
			t.Fatal(err)
		}
		got = got[len("prefix"):]
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(generated)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("encoded\n%x\nthe generated code\n%x", got, want)
		}
		if err := proto.Unmarshal(got, parsed); err != nil || !proto.Equal(parsed, generated) {
			t.Errorf("the generated code reads %v (%v)", parsed, err)
		}
		if err := back.Decode(want); err != nil || !proto.Equal(backAsGenerated(), generated) {
			t.Errorf("decoded %v (%v), want %v", backAsGenerated(), err, generated)
		}
	}
	var req Request // used again, as streams do
	for _, r := range requests() {
		check(r, &req, generatedRequest(r), &greenroomv1.ExchangeRequest{}, func() proto.Message { return generatedRequest(&req) })
	}
	var res Response
	for _, r := range responses() {
		check(r, &res, generatedResponse(r), &greenroomv1.ExchangeResponse{}, func() proto.Message { return generatedResponse(&res) })
	}
}

// TestClientsHaveTheFirstFields: what clients and servers send each other is, byte for
// byte, their own messages.
func TestClientsHaveTheFirstFields(t *testing.T) {
	var frames []Frame
	for _, r := range requests() {
		r.Hello = nil
		for i := range r.Invocations {
			r.Invocations[i].InvocationID, r.Invocations[i].Caller, r.Invocations[i].RefusedBy = "", "", ""
			r.Invocations[i].Firing, r.Invocations[i].Origin, r.Invocations[i].Tell = nil, nil, nil
		}
		frames = append(frames, r)
	}
	for _, r := range responses() {
		r.Hello = nil
		for i := range r.Replies {
			r.Replies[i].Owner, r.Replies[i].Joined, r.Replies[i].Callbacks = "", "", false
		}
		frames = append(frames, r)
	}
	for _, f := range frames {
		data, err := f.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		theirs := f.Generated()
		if err := proto.Unmarshal(data, theirs); err != nil || len(theirs.ProtoReflect().GetUnknown()) > 0 {
			t.Errorf("%x is not a message of clients: %v", data, err)
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(theirs)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("encoded\n%x\nclients\n%x", data, again)
		}
	}
}

func TestSize(t *testing.T) {
	for _, r := range requests() {
		total := 0
		for i := range r.Invocations {
			total += r.Invocations[i].Size()
		}
		if n := r.cancelsSize(); n > 0 {
			total += sizeMessage(n)
		}
		if r.Hello != nil {
			total += sizeMessage(proto.Size(r.Hello))
		}
		if b, err := r.Append(nil); err != nil || len(b) != total {
			t.Errorf("%d bytes (%v), said to be %d", len(b), err, total)
		}
	}
	for _, r := range responses() {
		total := 0
		for i := range r.Replies {
			total += r.Replies[i].Size()
		}
		if r.Hello != nil {
			total += sizeMessage(proto.Size(r.Hello))
		}
		if b, err := r.Append(nil); err != nil || len(b) != total {
			t.Errorf("%d bytes (%v), said to be %d", len(b), err, total)
		}
	}
}

// TestOwnsItsMemory: the bytes of a message may change once it is decoded.
func TestOwnsItsMemory(t *testing.T) {
	for _, r := range requests() {
		data, _ := r.Append(nil)
		var got Request
		if err := got.Decode(data); err != nil {
			t.Fatal(err)
		}
		for i := range data {
			data[i] = 0xee
		}
		if !proto.Equal(generatedRequest(&got), generatedRequest(r)) {
			t.Errorf("changed to %v", generatedRequest(&got))
		}
	}
}

// TestEntriesAreBounded: few bytes do not become much memory.
func TestEntriesAreBounded(t *testing.T) {
	var got Request
	for name, one := range map[string][]byte{"invocations": {0x0a, 0}, "cancels": {0x10, 1}} {
		if err := got.Decode(bytes.Repeat(one, MaxEntries)); err != nil || len(got.Invocations)+len(got.Cancels) != MaxEntries {
			t.Errorf("%s: as many as allowed: %v", name, err)
		}
		if err := got.Decode(bytes.Repeat(one, MaxEntries+1)); err == nil || len(got.Invocations)+len(got.Cancels) != 0 {
			t.Errorf("%s: one more was decoded", name)
		}
		if cap(got.Invocations) > keptEntries || cap(got.Cancels) > keptEntries {
			t.Errorf("%s: their memory is kept", name)
		}
	}
	packed, _ := (&Request{Cancels: make([]uint64, MaxEntries+1)}).Append(nil)
	if got.Decode(packed) == nil {
		t.Error("too many packed cancels were decoded")
	}
}

// TestNamesAreBounded: a peer cannot make a stream remember without end.
func TestNamesAreBounded(t *testing.T) {
	var got Request
	for n := range 10 * maxNames {
		data, _ := (&Request{Invocations: []Invocation{{Method: fmt.Sprint(n), Key: actor.Key{Type: string(bytes.Repeat([]byte{'x'}, 1000+n))}}}}).Append(nil)
		if err := got.Decode(data); err != nil || got.Invocations[0].Method != fmt.Sprint(n) {
			t.Fatal(err, got.Invocations)
		}
	}
	if len(got.names) > maxNames {
		t.Errorf("%d names are kept", len(got.names))
	}
	for name := range got.names {
		if len(name) > maxName {
			t.Errorf("a name of %d bytes is kept", len(name))
		}
	}
}

func TestCodecRefusesOtherMessages(t *testing.T) {
	if _, err := (Codec{}).Marshal(1); err == nil {
		t.Error("an int was marshaled")
	}
	if err := (Codec{}).Unmarshal(nil, new(int)); err == nil {
		t.Error("an int was unmarshaled")
	}
}

// FuzzRequest and FuzzResponse: whatever the bytes, both decoders agree on
// whether they are a message, and on which.
func FuzzRequest(f *testing.F) {
	for _, r := range requests() {
		b, _ := r.Append(nil)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Request
		g := &greenroomv1.ExchangeRequest{}
		err, want := r.Decode(data), proto.Unmarshal(data, g)
		if errors.Is(err, errEntries) {
			return // which the generated code does not know
		}
		for i := range r.Invocations {
			_, noFiring := DecodeFiring(&r.Invocations[i])
			if _, err := DecodeOrigin(&r.Invocations[i]); err != nil || noFiring != nil {
				return // it is read later, and the generated code refuses the frame
			}
		}
		if (err == nil) != (want == nil) {
			t.Fatalf("decode: %v; the generated code: %v", err, want)
		}
		if err != nil {
			if len(r.Invocations) != 0 || len(r.Cancels) != 0 {
				t.Fatal("something was decoded in spite of the error")
			}
			return
		}
		for _, i := range g.GetInvocations() {
			i.ProtoReflect().SetUnknown(nil)
			if i.Actor == nil {
				i.Actor = &greenroomv1.ActorKey{}
			}
			i.Actor.ProtoReflect().SetUnknown(nil)
		}
		g.ProtoReflect().SetUnknown(nil)
		if got := generatedRequest(&r); !proto.Equal(got, g) {
			t.Fatalf("decoded %v, the generated code %v", got, g)
		}
	})
}

func FuzzResponse(f *testing.F) {
	for _, r := range responses() {
		b, _ := r.Append(nil)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Response
		g := &greenroomv1.ExchangeResponse{}
		err, want := r.Decode(data), proto.Unmarshal(data, g)
		if (err == nil) != (want == nil) {
			t.Fatalf("decode: %v; the generated code: %v", err, want)
		}
		if err != nil {
			if len(r.Replies) != 0 {
				t.Fatal("something was decoded in spite of the error")
			}
			return
		}
		for _, i := range g.GetReplies() {
			i.ProtoReflect().SetUnknown(nil)
		}
		g.ProtoReflect().SetUnknown(nil)
		if got := generatedResponse(&r); !proto.Equal(got, g) {
			t.Fatalf("decoded %v, the generated code %v", got, g)
		}
	})
}

// BenchmarkRequest compares with the generated code: 64 invocations a message.
func BenchmarkRequest(b *testing.B) {
	var r Request
	for n := range 64 {
		r.Invocations = append(r.Invocations, Invocation{
			ID: uint64(n), Key: actor.Key{App: "default", Type: "Counter", ID: fmt.Sprint("counter-", n)}, Method: "Add", Payload: actor.Payload{Data: []byte(`{"amount":1}`)}, //nolint:gosec // small
		})
	}
	data, _ := r.Append(nil)
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			g := &greenroomv1.ExchangeRequest{}
			if err := proto.Unmarshal(data, g); err != nil {
				b.Fatal(err)
			}
			if _, err := proto.Marshal(g); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		var got Request
		var buf []byte
		for b.Loop() {
			if err := got.Decode(data); err != nil {
				b.Fatal(err)
			}
			buf, _ = got.Append(buf[:0])
		}
	})
}

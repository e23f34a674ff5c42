package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/client"
)

// App is an app of a server, with a token for this app only.
type App struct{ URL, Name, Token string }

// HTTP returns a client that speaks HTTP/2 and sends the token with each request. Closing
// its idle connections is the caller's duty.
func (a App) HTTP() *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &bearer{a.Token, &http.Transport{Protocols: &protocols}}}
}

// bearer adds a token to requests.
type bearer struct {
	token string
	*http.Transport
}

// RoundTrip implements [http.RoundTripper].
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.Transport.RoundTrip(r)
}

// Client returns a client of package client whose calls are requests of their own and are
// tried once.
func (a App) Client() (*client.Client, error) {
	return client.New(client.Config{URL: a.URL, App: a.Name, Token: a.Token, Unary: true, MaxAttempts: 1})
}

// Deploy uploads a module and has it serve its types.
func (a App) Deploy(ctx context.Context, wasm []byte) error {
	hc := a.HTTP()
	defer hc.CloseIdleConnections()
	return a.deploy(ctx, greenroomv1connect.NewModuleServiceClient(hc, a.URL), wasm)
}

func (a App) deploy(ctx context.Context, modules greenroomv1connect.ModuleServiceClient, wasm []byte) error {
	digest, err := Upload(ctx, modules, a.Name, wasm)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if _, err := modules.Deploy(ctx, connect.NewRequest(&greenroomv1.DeployRequest{App: a.Name, Digest: digest})); err != nil {
		return fmt.Errorf("deploy: %w", err)
	}
	return nil
}

// Upload uploads a module to an app and returns its digest.
func Upload(ctx context.Context, modules greenroomv1connect.ModuleServiceClient, app string, wasm []byte) (digest string, err error) {
	stream := modules.Upload(ctx)
	defer stream.CloseResponse() //nolint:errcheck // Receive has said it
	err = stream.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Header{
		Header: &greenroomv1.UploadHeader{App: app, Size: int64(len(wasm))},
	}})
	const chunkBytes = 256 << 10
	for chunk := range slices.Chunk(wasm, chunkBytes) {
		if err == nil {
			err = stream.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Chunk{Chunk: chunk}})
		}
	}
	if err == nil {
		err = stream.CloseRequest()
	}
	if err != nil && !errors.Is(err, io.EOF) { // on EOF the reason comes from Receive
		return "", err
	}
	for {
		event, err := stream.Receive()
		if err != nil {
			if errors.Is(err, io.EOF) && digest != "" {
				err = nil
			}
			return digest, err
		}
		if m := event.GetModule(); m != nil {
			digest = m.GetDigest()
		}
	}
}

// Remind has a method of an actor run once, at a time, until a turn has committed.
func (a App) Remind(ctx context.Context, reminders greenroomv1connect.ReminderServiceClient, typ, id, name, method string, at time.Time) error {
	const attempts = 1000
	_, err := reminders.CreateReminder(ctx, connect.NewRequest(&greenroomv1.CreateReminderRequest{
		Actor: &greenroomv1.ActorKey{App: a.Name, Type: typ, Id: id}, Name: name,
		Spec: &greenroomv1.ReminderSpec{
			Method: method, Payload: []byte("null"), Failure: &greenroomv1.FailurePolicy{Attempts: attempts},
			Schedule: &greenroomv1.ReminderSchedule{First: &greenroomv1.ReminderSchedule_At{At: timestamppb.New(at)}},
		},
	}))
	return err
}

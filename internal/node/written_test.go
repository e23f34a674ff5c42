package node_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/sqlstore"
)

// What earlier versions of Greenroom wrote is kept in testdata/written, a folder
// each: a data folder, and a dump of a PostgreSQL database. They are never
// changed. A version that changes a format adds its own:
//
//	go test ./internal/node -run TestWrite -write vN
var write = flag.String("write", "", "write testdata/written/NAME with this version, and test nothing")

const (
	dataArchive  = "data.tar.gz"
	databaseDump = "postgresql.sql.gz"
	writtenKey   = "written 0123456789abcdef" // an idempotency key
	writtenActs  = 40                         // actors that are there
)

// TestOpensWhatEarlierVersionsWrote opens what each version wrote and serves it:
// actors, deployments and their history, records, settings and secrets.
func TestOpensWhatEarlierVersionsWrote(t *testing.T) {
	versions, err := os.ReadDir(filepath.Join("testdata", "written"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		dir := filepath.Join("testdata", "written", v.Name())
		t.Run(v.Name()+"/embedded", func(t *testing.T) {
			data := t.TempDir()
			unpack(t, filepath.Join(dir, dataArchive), data)
			serveWritten(t, node.Config{DataDir: data})
		})
		t.Run(v.Name()+"/postgresql", func(t *testing.T) {
			data := t.TempDir()
			unpack(t, filepath.Join(dir, dataArchive), data) // for the key of its secrets
			url := pgtest.URL(t)
			restore(t, filepath.Join(dir, databaseDump), url)
			serveWritten(t, node.Config{StoreURL: url, SecretsKeyFile: filepath.Join(data, "secrets.key")})
		})
	}
	if len(versions) == 0 {
		t.Error("nothing is kept that an earlier version wrote")
	}
}

// serveWritten starts a node on what writeAll wrote, twice: the second finds what
// the first made of it.
func serveWritten(t *testing.T, cfg node.Config) {
	t.Helper()
	for round := range 2 {
		r := start(t, cfg)
		for i := range writtenActs {
			r.mustCall(t, "", "Account", fmt.Sprint("a", i), "Balance", "", fmt.Sprint(100+i+round))
			if _, err := r.call(t.Context(), "", "Account", fmt.Sprint("a", i), "Deposit", `{"amount":1}`); err != nil {
				t.Fatal(err)
			}
		}
		// The recorded call is answered, and happens no second time.
		reply, err := r.deposit(t, "keyed", 7, writtenKey)
		if err != nil || reply != "7" {
			t.Errorf("the recorded call is answered %s, %v", reply, err)
		}
		if _, err := r.deposit(t, "keyed", 8, writtenKey); detail(err).GetKind() != "idempotency_key_reused" {
			t.Errorf("the key with another payload: %v", err)
		}
		r.mustCall(t, "", "Account", "keyed", "Balance", "", "7")
		_, err = r.actors.GetState(t.Context(), connect.NewRequest(&greenroomv1.GetStateRequest{Actor: &greenroomv1.ActorKey{Type: "Account", Id: "gone"}}))
		if round == 0 && connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("a deleted actor: %v", err)
		}
		history, err := r.modules.History(t.Context(), connect.NewRequest(&greenroomv1.HistoryRequest{Type: "Account"}))
		if err != nil || len(history.Msg.Deployments) != 3+round || history.Msg.Deployments[round].RolledBackFrom != 2 {
			t.Errorf("the history is %v, %v", history, err)
		}
		r.mustCall(t, "shop", "T", "x", "Do", "", "hush")
		r.mustCall(t, "conf", "T", "x", "Do", "", "eu")
		if _, err := r.modules.Deploy(t.Context(), connect.NewRequest(&greenroomv1.DeployRequest{Digest: history.Msg.Deployments[1].Digest})); err != nil {
			t.Errorf("deploy the one before: %v", err)
		}
		stop(t, r.Node)
	}
}

// TestWriteVersion writes what this version of Greenroom writes.
func TestWriteVersion(t *testing.T) {
	if *write == "" {
		t.Skip("no version to write; see -write")
	}
	dir := filepath.Join("testdata", "written", *write)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	data, url := t.TempDir(), pgtest.URL(t)
	wasm := example(t, "account", guestbuild.Cargo)
	for _, w := range []struct {
		cfg  node.Config
		open func() (store.Store, error)
	}{
		{node.Config{DataDir: data}, func() (store.Store, error) {
			return embedded.Open(t.Context(), embedded.Config{Dir: filepath.Join(data, "store")})
		}},
		{node.Config{StoreURL: url, SecretsKeyFile: filepath.Join(data, "secrets.key")}, func() (store.Store, error) {
			return sqlstore.Open(t.Context(), sqlstore.Config{URL: url})
		}},
	} {
		r := start(t, w.cfg)
		writeAll(t, r, wasm)
		stop(t, r.Node)
		st, err := w.open()
		if err != nil {
			t.Fatal(err)
		}
		recordForLong(t, st)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	pack(t, data, filepath.Join(dir, dataArchive))
	dump(t, url, filepath.Join(dir, databaseDump))
}

// deposit makes a call of an account, with an idempotency key if key is not empty.
func (r *running) deposit(t *testing.T, id string, amount int, key string) (string, error) {
	t.Helper()
	req := connect.NewRequest(&greenroomv1.InvokeRequest{
		Actor: &greenroomv1.ActorKey{Type: "Account", Id: id}, Method: "Deposit", Payload: fmt.Appendf(nil, `{"amount":%d}`, amount),
	})
	if key != "" {
		req.Header().Set("Idempotency-Key", key)
	}
	resp, err := r.actors.Invoke(t.Context(), req)
	if err != nil {
		return "", err
	}
	return string(resp.Msg.Payload), nil
}

func writeAll(t *testing.T, r *running, wasm []byte) {
	t.Helper()
	r.deploy(t, "", wasm)
	r.deploy(t, "", append(wasm[:len(wasm):len(wasm)], 0, 2, 1, 'x')) // another module
	if _, err := r.modules.Rollback(t.Context(), connect.NewRequest(&greenroomv1.RollbackRequest{Type: "Account"})); err != nil {
		t.Fatal(err)
	}
	deposit := func(id string, amount int, key string) {
		t.Helper()
		if _, err := r.deposit(t, id, amount, key); err != nil {
			t.Fatal(err)
		}
	}
	for i := range writtenActs {
		deposit(fmt.Sprint("a", i), 100, "")
		if i > 0 {
			deposit(fmt.Sprint("a", i), i, "")
		}
	}
	deposit("keyed", 7, "brief")
	deposit("gone", 1, "")
	if _, err := r.actors.DeleteActor(t.Context(), connect.NewRequest(&greenroomv1.DeleteActorRequest{Actor: &greenroomv1.ActorKey{Type: "Account", Id: "gone"}})); err != nil {
		t.Fatal(err)
	}
	r.deploy(t, "shop", getter("secret_get", "key", `{"secrets":["key"]}`))
	r.deploy(t, "conf", getter("config_get", "region", `{"config":["region"]}`))
	done[*connect.Response[greenroomv1.SetSecretResponse]](t)(r.settings.SetSecret(t.Context(),
		connect.NewRequest(&greenroomv1.SetSecretRequest{App: "shop", Name: "key", Value: []byte("hush")})))
	done[*connect.Response[greenroomv1.SetConfigResponse]](t)(r.settings.SetConfig(t.Context(),
		connect.NewRequest(&greenroomv1.SetConfigRequest{App: "conf", Name: "region", Value: "eu"})))
}

// recordForLong records the keyed call once more, under a key that answers for a
// hundred years.
func recordForLong(t *testing.T, st store.Store) {
	t.Helper()
	k := actor.Key{App: "default", Type: "Account", ID: "keyed"}
	found, err := st.LoadIdempotency(t.Context(), []actor.KeyedCall{{Actor: k, Method: "Deposit", Key: "brief"}})
	if err != nil || !found[0].Found {
		t.Fatal(found, err)
	}
	r := found[0].Record
	rows, err := st.LoadActors(t.Context(), []actor.Key{k}, actor.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Key, r.TTL = writtenKey, 100*365*24*time.Hour
	c := actor.Commit{
		ID: actor.NewCommitID(), Fences: []actor.RowFence{{Key: k, Version: rows[0].Version}}, Records: []actor.IdempotencyRecord{r},
	}
	if err := errors.Join(st.Commit(t.Context(), []actor.Commit{c})...); err != nil {
		t.Fatal(err)
	}
}

// pack archives the files of a folder, without the cache, which may be deleted at
// any time.
func pack(t *testing.T, dir, to string) {
	t.Helper()
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	archive := tar.NewWriter(z)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || strings.HasPrefix(name, "cache") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err := errors.Join(err, archive.Close(), z.Close(), os.WriteFile(to, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, from, dir string) {
	t.Helper()
	archive := tar.NewReader(bytes.NewReader(decompressed(t, from)))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func decompressed(t *testing.T, from string) []byte {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// dump writes a database as SQL without psql's own commands.
func dump(t *testing.T, url, to string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "pg_dump", "--inserts", "--no-owner", "--no-privileges", "--no-comments", url).Output()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, `\`) && !strings.HasPrefix(line, "--") && strings.TrimSpace(line) != "" {
			_, _ = z.Write([]byte(line))
		}
	}
	if err := errors.Join(z.Close(), os.WriteFile(to, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func restore(t *testing.T, from, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.PgConn().Exec(t.Context(), string(decompressed(t, from))).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

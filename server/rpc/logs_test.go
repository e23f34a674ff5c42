package rpc

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/edge"
)

// texts are the lines' own.
func texts(lines []logLine) []string {
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = l.line.Text
	}
	return all
}

// publish adds lines that are numbers, from 0.
func publish(l *Logs, n int) {
	for i := range n {
		l.Publish(time.Unix(int64(i), 0), host.GuestLog{Key: logKey, Text: strconv.Itoa(i)})
	}
}

// TestLogsKeepTheLatest lines, in their order, and give as many as are asked for.
func TestLogsKeepTheLatest(t *testing.T) {
	for _, tt := range []struct{ published, last, first, want int }{
		{3, 0, 0, 0}, {3, 2, 1, 2}, {3, 10, 0, 3},
		{keptLines, keptLines, 0, keptLines}, {keptLines + 5, keptLines, 5, keptLines}, {2*keptLines + 7, 3, 2*keptLines + 4, 3},
	} {
		l := NewLogs()
		publish(l, tt.published)
		got := texts(l.subscribe(&logReader{req: &greenroomv1.TailRequest{Last: int32(tt.last)}})) //nolint:gosec // small
		if len(got) != tt.want {
			t.Errorf("%+v: %d lines", tt, len(got))
			continue
		}
		for i, text := range got {
			if text != strconv.Itoa(tt.first+i) {
				t.Errorf("%+v: line %d is %s", tt, i, text)
				break
			}
		}
	}
}

// TestLogReadersBehind lose lines, are told how many, each once, and hold nobody
// up.
func TestLogReadersBehind(t *testing.T) {
	l := NewLogs()
	r := &logReader{req: &greenroomv1.TailRequest{Follow: true}, lines: make(chan logLine, readerQueue)}
	l.subscribe(r)
	publish(l, readerQueue+3)
	if got := []uint64{l.lost(r), l.lost(r)}; got[0] != 3 || got[1] != 0 {
		t.Errorf("lost %v", got)
	}
	if got := texts(r.drain(<-r.lines)); len(got) != readerQueue || got[0] != "0" || got[readerQueue-1] != strconv.Itoa(readerQueue-1) {
		t.Errorf("%d lines arrived", len(got))
	}
	publish(l, 1)
	if n := l.lost(r); n != 0 || len(r.lines) != 1 {
		t.Errorf("a reader that has caught up lost %d, and has %d", n, len(r.lines))
	}
	l.unsubscribe(r)
	if publish(l, 1); len(r.lines) != 1 {
		t.Error("a reader that left gets lines")
	}
}

// TestLogsOfAppsApart: what one app logs, however much and however long its lines, pushes
// out none of another's, and all of them together stay within their bound.
func TestLogsOfAppsApart(t *testing.T) {
	l := NewLogs()
	log := func(app, text string) {
		l.Publish(time.Unix(0, 0), host.GuestLog{Key: actor.Key{App: app, Type: "T", ID: "a"}, Text: text})
	}
	count := func(app string) int {
		return len(l.subscribe(&logReader{req: &greenroomv1.TailRequest{App: app, Last: allLines}}))
	}
	log("calm", "one")
	for range 2 * keptLines {
		log("loud", "x")
	}
	if got := count("calm"); got != 1 {
		t.Errorf("%d lines of the calm app", got)
	}
	if got := count("loud"); got != keptLines {
		t.Errorf("%d lines of the loud app", got)
	}
	long := strings.Repeat("x", keptBytes/8)
	for i := range 2 * keptOfAll / keptBytes {
		for range 10 {
			log("long"+strconv.Itoa(i), long)
		}
	}
	all := 0
	for _, app := range l.apps {
		all += app.bytes
	}
	if share := keptOfAll / len(l.apps); all > keptOfAll || count("calm") != 1 || count("long0") != share/(len(long)+lineOverhead) {
		t.Errorf("%d bytes of all apps, %d lines of the calm one, %d of a loud one", all, count("calm"), count("long0"))
	}
}

// TestLogReadersOfAppsApart: the readers of one app leave those of another their places.
func TestLogReadersOfAppsApart(t *testing.T) {
	l := NewLogs()
	for range maxReaders {
		if err := l.open.Enter("a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.open.Enter("a"); err == nil || !strings.Contains(err.Error(), "app a has 20 readers of logs of at most 20") {
		t.Errorf("one reader more: %v", err)
	}
	if err := l.open.Enter("b"); err != nil {
		t.Errorf("of another app: %v", err)
	}
	l.open.Leave("a")
	if err := l.open.Enter("a"); err != nil {
		t.Errorf("after one has left: %v", err)
	}
}

// logKey is the actor that logs.
var logKey = actor.Key{App: "default", Type: "Counter", ID: "a"}

// TestStreamsOfInventedAppsAreBounded: callers of all apps may name any, each of which may always
// have some; those of all together are bounded.
func TestStreamsOfInventedAppsAreBounded(t *testing.T) {
	const limit = 640
	streams, readers := edge.NewPlaces(streamBounds("streams open", limit), ""), NewLogs().open
	for places, most := range map[*edge.Places]int64{&streams: 2 * limit, &readers: 2 * maxOfAllReaders} {
		for i := range 10 * limit {
			for range 10 {
				_ = places.Enter(fmt.Sprint("invented", i))
			}
		}
		if taken := places.Taken(); taken > most {
			t.Errorf("%d places are taken, of at most %d", taken, most)
		}
	}
}

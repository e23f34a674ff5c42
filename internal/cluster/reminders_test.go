//go:build unix

package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

// alarms are actors whose reminders fire while members of a cluster break: in waves, each
// of actors of its own.
type alarms struct {
	*run
	waves   int
	setting sync.WaitGroup
}

// What each actor of a wave is told to set, and how often each of its reminders is due.
const (
	alarmsOfWave = 4
	alarmOrder   = `{"set":[
		{"name":"often","method":"Ring","every_ms":100,"times":40,"attempts":1000},
		{"name":"each","method":"Ring","every_ms":200,"times":20,"attempts":1000,"catch_up":true},
		{"name":"soon","method":"Ring","after_ms":20,"attempts":1000},
		{"name":"later","method":"Ring","after_ms":2500,"attempts":1000}]}`
)

var alarmDue = map[string]int{"often": 40, "each": 20, "soon": 1, "later": 1}

// newAlarms deploys what the reminders call.
func newAlarms(t *testing.T, r *run) *alarms {
	t.Helper()
	deployGuest(t, r.members[0], "../node/testdata/alarm", guestbuild.Go)
	a := &alarms{run: r}
	t.Cleanup(a.setting.Wait)
	return a
}

func alarmID(wave, i int) string { return fmt.Sprint("w", wave, "-", i) }

// wave has the actors of one more wave set their reminders, whatever breaks meanwhile.
func (a *alarms) wave(t *testing.T) {
	wave := a.waves
	a.waves++
	for i := range alarmsOfWave {
		a.setting.Go(func() {
			// Under one key, so that it is done once.
			req := client.Request{Type: "Alarm", ID: alarmID(wave, i), Method: "Do", Payload: []byte(alarmOrder), IdempotencyKey: "set"}
			if _, err := a.reply(t.Context(), req); err != nil {
				t.Errorf("set reminders of %s: %v", req.ID, err)
			}
		})
	}
}

// end waits until no reminder is left, and checks that each was counted as often as it was
// due, and never before.
func (a *alarms) end(t *testing.T) {
	t.Helper()
	a.setting.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), stalled)
	defer cancel()
	read := func(id, method, payload string, into any) {
		t.Helper()
		text, err := a.reply(ctx, client.Request{Type: "Alarm", ID: id, Method: method, Payload: []byte(payload), ReadOnly: true, Strong: true})
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatalf("%s of %s: %v", method, id, err)
		}
	}
	turns := 0
	for wave := range a.waves {
		for i := range alarmsOfWave {
			id := alarmID(wave, i)
			for names := []string{""}; len(names) > 0; {
				read(id, "Names", `""`, &names)
			}
			var got struct {
				Rung        int            `json:"rung"`
				Occurrences map[string]int `json:"occurrences"`
				Early       int            `json:"early"`
			}
			read(id, "Count", "", &got)
			turns += got.Rung
			if !maps.Equal(got.Occurrences, alarmDue) || got.Early != 0 {
				t.Errorf("%s: counted %v, %d before their time; want %v", id, got.Occurrences, got.Early, alarmDue)
			}
		}
	}
	t.Logf("reminders of %d actors fired in %d turns", a.waves*alarmsOfWave, turns)
}

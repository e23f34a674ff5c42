package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// exportVersion is the version of the file that reminders are exported to.
const exportVersion = 1

// exportHeader is the first line of such a file. Each of the others is a
// greenroom.v1.Reminder in JSON.
type exportHeader struct {
	Version int       `json:"greenroom_reminders"`
	App     string    `json:"app"`
	Type    string    `json:"type,omitempty"` // empty: of all types
	Began   time.Time `json:"began"`          // by the clock of who exported
}

const (
	// exportedLine bounds a line: a payload and metadata, escaped, with room.
	exportedLine = 1 << 20
	// progressEvery is after how many reminders there is word of how far it is.
	progressEvery = 10_000
	// importsAtOnce is how many reminders are set at the same time.
	importsAtOnce = 16
)

func remindersExportCommand(c *cli) *cobra.Command {
	var typ string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all reminders of the app to standard output",
		Long: `Write all reminders of the app, or of one of its types, to standard output: a line
that says what the file is, and then one reminder a line, as JSON. Reminders that are
set, fire or are deleted meanwhile may be missing from it. Dead letters are not in it.

The file contains the payloads, which may be secret.`,
		Example: `  greenroom reminders export > reminders.jsonl
  greenroom reminders export --app shop --type Cart | gzip > cart.jsonl.gz`,
		RunE: c.withAPI(func(cmd *cobra.Command, a *api, _ []string) error {
			return exportReminders(cmd.Context(), c, a, typ)
		}),
	}
	cmd.Flags().StringVar(&typ, "type", "", "only those of this actor `type`")
	completeFlag(cmd, "type", complete{c}.types)
	return cmd
}

func exportReminders(ctx context.Context, c *cli, a *api, typ string) error {
	out := bufio.NewWriter(c.stdout)
	header, err := json.Marshal(exportHeader{exportVersion, c.app, typ, time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	_, _ = out.Write(append(header, '\n')) // Flush returns what fails
	n := 0
	for token := ""; ; {
		page, err := unary(ctx, a.reminders.ListReminders, &greenroomv1.ListRemindersRequest{App: c.app, Type: typ, Payloads: true, PageToken: token, PageSize: 1000})
		if err != nil {
			_ = out.Flush()
			return fmt.Errorf("after %d reminders: %w", n, err)
		}
		for _, r := range page.Reminders {
			line, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r)
			if err != nil {
				return fmt.Errorf("encode reminder %s of %s: %w", r.Name, r.Actor.GetId(), err)
			}
			var compact bytes.Buffer // protojson puts spaces where it likes
			if err := json.Compact(&compact, line); err != nil {
				return fmt.Errorf("encode reminder %s of %s: %w", r.Name, r.Actor.GetId(), err)
			}
			compact.WriteByte('\n')
			_, _ = out.Write(compact.Bytes())
			if n++; n%progressEvery == 0 {
				c.printf(c.stderr, "%d reminders so far\n", n)
			}
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("write reminders: %w", err)
		}
		if token = page.NextPageToken; token == "" {
			c.printf(c.stderr, "exported %d reminders of app %s\n", n, c.app)
			return nil
		}
	}
}

type importFlags struct{ overwrite, keep, dryRun bool }

func remindersImportCommand(c *cli) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Set the reminders of an exported file",
		Long: `Set the reminders of a file that "greenroom reminders export" wrote, or of standard
input for -, in the app of --app. They keep their due times; the reminder's policy for
missed times applies to times that have passed. Paused reminders stay paused. The
number of failed attempts starts at zero.

A reminder whose name the actor has already is left as it is, or replaced with
--overwrite; so an import that ended early can be repeated. Their types must be
deployed. Refused lines are listed, and the other lines are imported.`,
		Example: `  greenroom reminders import reminders.jsonl --dry-run
  greenroom reminders import reminders.jsonl --app shop
  gunzip < cart.jsonl.gz | greenroom reminders import - --overwrite`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.overwrite && f.keep {
				return usagef("--overwrite and --keep exclude each other; give one")
			}
			in := c.stdin
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("open the reminders: %w", err)
				}
				defer file.Close()
				in = file
			}
			a, err := c.api()
			if err != nil {
				return err
			}
			return importReminders(cmd.Context(), c, a, in, f)
		},
	}
	cmd.Flags().BoolVar(&f.overwrite, "overwrite", false, "replace reminders of the same name")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "leave reminders of the same name as they are (the default)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be done, and set nothing")
	return cmd
}

// imported counts the outcomes of the lines of an import.
type imported struct {
	Created  int `json:"created"`
	Replaced int `json:"replaced"`
	Kept     int `json:"kept"`
	Refused  int `json:"refused"`
}

// importing is an import under way.
type importing struct {
	c     *cli
	a     *api
	flags importFlags

	mu    sync.Mutex
	count imported
	done  int
	fatal error // ends it
}

func importReminders(ctx context.Context, c *cli, a *api, in io.Reader, f importFlags) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, exportedLine)
	if err := readExportHeader(lines); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type numbered struct {
		n    int
		text []byte
	}
	im := &importing{c: c, a: a, flags: f}
	work := make(chan numbered)
	var workers sync.WaitGroup
	for range importsAtOnce {
		workers.Go(func() {
			for l := range work {
				if im.line(ctx, l.n, l.text) {
					cancel()
				}
			}
		})
	}
	n := 1
	for ctx.Err() == nil && lines.Scan() {
		n++
		if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
			select {
			case work <- numbered{n, bytes.Clone(text)}:
			case <-ctx.Done():
			}
		}
	}
	close(work)
	workers.Wait()
	err := im.fatal
	if err == nil && lines.Err() != nil {
		err = fmt.Errorf("line %d: read: %w", n+1, lines.Err())
	}
	if err == nil {
		err = ctx.Err() // the caller's: nothing else ends it without an error
	}
	return im.report(err)
}

// readExportHeader reads the first line.
func readExportHeader(lines *bufio.Scanner) error {
	var h exportHeader
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &h) != nil || h.Version == 0 {
		if err := lines.Err(); err != nil {
			return fmt.Errorf("line 1: read: %w", err)
		}
		return errors.New("line 1: this is no file of reminders; give one that `greenroom reminders export` wrote")
	}
	if h.Version > exportVersion {
		return fmt.Errorf("line 1: the file has version %d, and this program knows up to %d; take a newer one", h.Version, exportVersion)
	}
	return nil
}

// line imports one line, and reports whether nothing can go on after it.
func (im *importing) line(ctx context.Context, n int, text []byte) (ends bool) {
	outcome, err := im.set(ctx, text)
	im.mu.Lock()
	defer im.mu.Unlock()
	switch {
	case err == nil:
	case ctx.Err() != nil || !refusedLine(err):
		if im.fatal == nil && !errors.Is(err, context.Canceled) && !isCanceled(err) {
			im.fatal = fmt.Errorf("line %d: %w", n, err)
		}
		return true
	default:
		im.count.Refused++
		im.c.printf(im.c.stderr, "line %d: %s\n", n, describeError(im.c, err).Message)
	}
	switch outcome {
	case greenroomv1.CreateOutcome_CREATE_OUTCOME_CREATED:
		im.count.Created++
	case greenroomv1.CreateOutcome_CREATE_OUTCOME_REPLACED:
		im.count.Replaced++
	case greenroomv1.CreateOutcome_CREATE_OUTCOME_KEPT:
		im.count.Kept++
	}
	if im.done++; im.done%progressEvery == 0 {
		im.c.printf(im.c.stderr, "%d reminders so far\n", im.done)
	}
	return false
}

// lineError is a line that is no reminder.
type lineError struct{ error }

// refusedLine reports whether an error is about the one reminder, so that others may be
// set all the same.
func refusedLine(err error) bool {
	var bad lineError
	if errors.As(err, &bad) {
		return true
	}
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return true
	}
	return false
}

// set sets the reminder of one line, or says what setting it would do.
func (im *importing) set(ctx context.Context, text []byte) (greenroomv1.CreateOutcome, error) {
	const none = greenroomv1.CreateOutcome_CREATE_OUTCOME_UNSPECIFIED
	r := &greenroomv1.Reminder{}
	if err := protojson.Unmarshal(text, r); err != nil {
		return none, lineError{fmt.Errorf("is no reminder: %w", err)}
	}
	if r.Actor == nil || r.Spec == nil || r.Due == nil || r.Spec.Schedule == nil {
		return none, lineError{errors.New("is no reminder: its actor, spec, schedule or due time is missing")}
	}
	err := actor.ValidateReminderName(r.Name)
	if err == nil && r.Actor.Type != actor.SubscriptionType { // whose reminders have no method
		err = actor.ValidateName("method", r.Spec.Method)
	}
	if err != nil {
		return none, lineError{err}
	}
	r.Actor.App = im.c.app
	s := r.Spec.Schedule
	s.First = &greenroomv1.ReminderSchedule_At{At: r.Due}
	if s.Times > 0 {
		s.Times = max(r.Left, 1) // of all that there were
	}
	if s.Times == 1 {
		s.Every, s.Cron, s.Zone = nil, "", "" // the last one, at its time
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if im.flags.dryRun {
		return im.look(ctx, r)
	}
	resp, err := unary(ctx, im.a.reminders.CreateReminder, &greenroomv1.CreateReminderRequest{
		Actor: r.Actor, Name: r.Name, Spec: r.Spec, Keep: !im.flags.overwrite, Paused: r.Paused,
	})
	if err != nil {
		return none, err
	}
	return resp.Outcome, nil
}

// look says what setting a reminder would do.
func (im *importing) look(ctx context.Context, r *greenroomv1.Reminder) (greenroomv1.CreateOutcome, error) {
	_, err := unary(ctx, im.a.reminders.GetReminder, &greenroomv1.GetReminderRequest{Actor: r.Actor, Name: r.Name})
	switch {
	case err == nil && im.flags.overwrite:
		return greenroomv1.CreateOutcome_CREATE_OUTCOME_REPLACED, nil
	case err == nil:
		return greenroomv1.CreateOutcome_CREATE_OUTCOME_KEPT, nil
	case describeError(im.c, err).Kind == string(actor.ErrReminderNotFound.Kind()):
		return greenroomv1.CreateOutcome_CREATE_OUTCOME_CREATED, nil
	}
	return greenroomv1.CreateOutcome_CREATE_OUTCOME_UNSPECIFIED, err
}

// report says what was done, and returns err or an error about lines that were refused.
func (im *importing) report(err error) error {
	n := im.count
	if im.c.wantsJSON() {
		if writeErr := writeJSON(im.c.stdout, n); writeErr != nil && err == nil {
			err = writeErr
		}
	} else {
		said := "imported into app %s: %d created, %d replaced, %d kept, %d refused\n"
		if im.flags.dryRun {
			said = "an import into app %s would have: %d created, %d replaced, %d kept, %d refused (--dry-run: the server's own checks were not made)\n"
		}
		im.c.printf(im.c.stderr, said, im.c.app, n.Created, n.Replaced, n.Kept, n.Refused)
	}
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		return fmt.Errorf("the import ended early; repeat it, and what is there is %s: %w", im.again(), err)
	case err != nil:
		return err
	case n.Refused > 0:
		return fmt.Errorf("%d reminders were refused; their lines are named above", n.Refused)
	}
	return nil
}

// again says what a repeated import does with reminders that exist already.
func (im *importing) again() string {
	if im.flags.overwrite {
		return "replaced"
	}
	return "kept"
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/cluster"
	"github.com/greenroom-run/greenroom/bench/internal/plot"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/section"
	"github.com/greenroom-run/greenroom/bench/internal/survey"
)

// surveySection is the part of a document that -table writes; that of an area's
// bars, which -record writes, is "bars AREA". scaleSection is what -scale writes.
const (
	surveySection = "survey"
	scaleSection  = "scale"
)

func barsSection(area string) string { return "bars " + area }

// writable finds out, before anything is measured, whether it could be written.
func writable(table, scale, record, area, name string) error {
	if scale != "" {
		if table != "" || record != "" || area != "" || name != "" {
			return errors.New("-scale measures nothing else; leave out -table, -record, -area and -bar")
		}
		return section.Check(scale, scaleSection)
	}
	if table != "" {
		if record != "" || area != "" || name != "" {
			return errors.New("-table measures no bars; leave out -record, -area and -bar")
		}
		return section.Check(table, surveySection)
	}
	if record == "" {
		return nil
	}
	if name != "" {
		return errors.New("-record writes all bars of an area; give -area instead of -bar")
	}
	var errs []error
	for _, a := range areas() {
		if area == "" || a == area {
			errs = append(errs, section.Check(record, barsSection(a)))
		}
	}
	return errors.Join(errs...)
}

// areas are all there are, in order.
func areas() []string {
	var all []string
	for _, b := range bars() {
		all = append(all, b.Area())
	}
	return slices.Compact(all)
}

// writeSurvey measures what users may expect and writes it into a document.
func writeSurvey(ctx context.Context, r *rig.Rig, document, command string) error {
	report, err := survey.Measure(ctx, r)
	if err != nil {
		return err
	}
	picture := strings.TrimSuffix(document, filepath.Ext(document)) + ".svg"
	if err := draw(picture, func(file *os.File) error { return plot.DrawCurves(file, report.Curves) }); err != nil {
		return err
	}
	return section.Replace(document, surveySection, report.Markdown(filepath.Base(picture), command))
}

// writeScale measures what larger clusters say and writes it into a document.
func writeScale(ctx context.Context, r *rig.Rig, document, command string) error {
	text, err := cluster.Scale(ctx, r, command)
	if err != nil {
		return err
	}
	return section.Replace(document, scaleSection, text)
}

// writeBars writes the results of each area into a document.
func writeBars(document, command string, results []bar.Result) error {
	for len(results) > 0 {
		area, _, _ := strings.Cut(results[0].Bar, ".")
		end := slices.IndexFunc(results, func(r bar.Result) bool { return !strings.HasPrefix(r.Bar, area+".") })
		if end < 0 {
			end = len(results)
		}
		picture := area + ".svg"
		err := draw(filepath.Join(filepath.Dir(document), picture), func(file *os.File) error { return plot.DrawBars(file, results[:end]) })
		if err == nil {
			err = section.Replace(document, barsSection(area), fmt.Sprintf("Measured by `%s`:\n\n%s\n![What was measured over what was promised](%s)\n",
				command, bar.Markdown(results[:end]), picture))
		}
		if err != nil {
			return err
		}
		results = results[end:]
	}
	return nil
}

func draw(path string, write func(*os.File) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

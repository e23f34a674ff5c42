package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is a command line that cannot be understood.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

// isUsage reports whether err is about the command line.
func isUsage(err error) bool {
	var usage *usageError
	return errors.As(err, &usage)
}

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// flagError explains what usually went wrong: a misspelt command, whose flags its parent does not
// know, or an actor ID or a number that begins with a dash.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
		return unknownCommand(cmd, cmd.Flags().Args())
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		if want := valuesOf(value.GetFlag().Value.Type()); want != "" {
			return usagef("--%s is %q; give %s", value.GetFlag().Name, value.GetValue(), want)
		}
	}
	msg := err.Error()
	if strings.HasPrefix(msg, "unknown") {
		msg += "; if it is an argument, put -- before the arguments"
	}
	return usagef("%s", msg)
}

// valuesOf says which values a type of flag takes; empty if its own error says so.
func valuesOf(typ string) string {
	switch typ {
	case "duration":
		return "a duration such as 90s, 1h30m or 250ms"
	case "uint", "uint16", "uint32", "uint64":
		return "a whole number, 0 or more"
	case "int", "int32", "int64", "count":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return ""
}

// nearest returns the one of names that a person who typed word probably meant;
// empty if none is near.
func nearest(word string, names []string) string {
	best, at := "", max(min(len(word)/2, 2), len(word)/3)+1
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < at {
			best, at = name, d
		}
	}
	return best
}

// distance is how many characters must be added, removed, changed or swapped with their
// neighbour to make b of a (Damerau and Levenshtein's optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := range len(a) {
		for j := range len(b) {
			change := rows[i][j]
			if a[i] != b[j] {
				change++
			}
			best := min(change, rows[i+1][j]+1, rows[i][j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				best = min(best, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = best
		}
	}
	return rows[len(a)][len(b)]
}

// takeArguments has each command below cmd that says nothing else take the arguments that its
// usage names.
func takeArguments(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		takeArguments(child)
		if child.Args == nil && !child.HasSubCommands() {
			child.Args = takes(strings.Fields(child.Use)[1:]...)
		}
	}
}

// takes checks the number of arguments against their names: a name in brackets is optional, and
// the last one may end in … for one argument or more.
func takes(names ...string) cobra.PositionalArgs {
	required, most := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			required++
		}
		if strings.HasSuffix(name, "…") {
			most = math.MaxInt
		}
	}
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < required:
			return usagef("%s is missing", strings.TrimSuffix(names[len(args)], "…"))
		case len(args) > most && most == 0:
			return usagef("unexpected argument %q", args[0])
		case len(args) > most:
			return usagef("unexpected argument %q after %s; quote arguments that contain spaces", args[most], names[most-1])
		}
		return nil
	}
}

// parent is the annotation of a command that is nothing without a subcommand.
const parent = "parent"

// group makes cmd a mere parent: alone it shows its help, and an unknown
// subcommand is an error with suggestions.
func group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args)
	}
	cmd.Annotations = map[string]string{parent: "true"}
	cmd.AddCommand(children...)
	return cmd
}

// unknownCommand refuses arguments of a command that has subcommands and takes no arguments.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	meant := ""
	for _, child := range cmd.Commands() {
		if !child.Hidden {
			names = append(names, child.Name())
		}
		if slices.Contains(child.SuggestFor, args[0]) {
			meant = child.Name()
		}
	}
	msg := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmp.Or(meant, nearest(args[0], names)); near != "" {
		msg += "; did you mean " + near + "?"
	}
	return usagef("%s", msg)
}

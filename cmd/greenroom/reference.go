package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// referenceCommand prints the part of docs/cli.md that is generated.
func referenceCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:    "reference",
		Short:  "Print the reference of all commands in Markdown",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			writeReference(c.stdout, cmd.Root())
			return nil
		},
	}
}

func writeReference(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, "## Flags of every command\n\n```\n%s```\n", flagText(root.PersistentFlags()))
	for _, cmd := range root.Commands() {
		writeCommand(w, cmd)
	}
}

func writeCommand(w io.Writer, cmd *cobra.Command) {
	if cmd.Hidden || cmd.Name() == "help" || cmd.Parent().Name() == "completion" {
		return
	}
	fmt.Fprintf(w, "\n## %s\n\n", cmd.CommandPath())
	text := cmd.Long
	if text == "" || cmd.Name() == "completion" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(w, "%s\n", text)
	if cmd.Runnable() && !cmd.HasSubCommands() {
		fmt.Fprintf(w, "\n```\n%s\n```\n", cmd.UseLine())
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
	if flags := flagText(cmd.LocalNonPersistentFlags()); flags != "" {
		fmt.Fprintf(w, "\n```\n%s```\n", flags)
	}
	for _, child := range cmd.Commands() {
		writeCommand(w, child)
	}
}

func flagText(f *pflag.FlagSet) string {
	f.SortFlags = false
	var own strings.Builder
	for line := range strings.Lines(f.FlagUsages()) {
		if !strings.Contains(line, "--help ") {
			own.WriteString(line)
		}
	}
	return own.String()
}

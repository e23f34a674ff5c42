// Command template is a guest that uses text/template, which reaches methods by
// name: the linker then keeps every method of every type that the guest has.
package main

import (
	"strings"
	"text/template"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
)

// Letter is a text with names in it.
type Letter struct {
	Text string `json:"text"`
}

// Write sets the text.
func (l *Letter) Write(_ *actor.Context, text string) (actor.None, error) {
	l.Text = text
	return actor.None{}, nil
}

// Render fills the text in, with the context as its data.
func (l *Letter) Render(ctx *actor.Context, _ actor.None) (string, error) {
	t, err := template.New("letter").Parse(l.Text)
	if err != nil {
		return "", actor.Errorf("bad_template", "%v", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, ctx); err != nil {
		return "", err
	}
	return b.String(), nil
}

func init() {
	actor.Register("Letter",
		actor.Method("Write", (*Letter).Write),
		actor.ReadOnly("Render", (*Letter).Render),
	)
}

func main() {}

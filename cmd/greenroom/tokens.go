package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-run/greenroom/server/edge"
)

// tokenEntry is an entry of --tokens-file.
type tokenEntry struct {
	Name  string `json:"name"`
	Token string `json:"token"`
	Role  string `json:"role"`
	App   string `json:"app"`
}

// readTokens reads --tokens-file; none for no file.
func readTokens(file string) ([]edge.Token, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read --tokens-file: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var entries []tokenEntry
	if err := dec.Decode(&entries); err != nil {
		var misfit *json.UnmarshalTypeError
		if errors.As(err, &misfit) { // which names types of this program
			where := "it"
			if misfit.Field != "" {
				where = misfit.Field
			}
			err = fmt.Errorf("%s is a JSON %s where another kind belongs", where, misfit.Value)
		}
		return nil, usagef(`--tokens-file %s: %v; write a list like [{"name": "ci", "role": "deploy", "app": "shop", "token": "…"}]`, file, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, usagef("--tokens-file %s has something after its list; remove it", file)
	}
	if len(entries) == 0 {
		return nil, usagef("--tokens-file %s has no tokens; write some, or leave the flag out", file)
	}
	tokens := make([]edge.Token, len(entries))
	for i, e := range entries {
		role, err := edge.ParseRole(e.Role)
		if err != nil {
			return nil, usagef("--tokens-file %s: the role of %q: %v", file, e.Name, err)
		}
		tokens[i] = edge.Token{Name: e.Name, Secret: e.Token, Role: role, App: e.App}
	}
	return tokens, nil
}

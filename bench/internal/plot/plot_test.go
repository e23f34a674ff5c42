package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

const output = `
area.1  a <title>

{"bar":"area.1","value":3,"unit":"x","baseline":1,"ratio":3,"want":">=","target":2,"pass":true,"runs":[{"value":3,"baseline":1,"ratio":3}],"title":"a <title>","checks":[{"name":"<&>","value":3,"unit":"x","baseline":1,"ratio":3,"want":">=","target":2,"pass":true,"runs":[{"value":3,"baseline":1,"ratio":3}]}]}
{"bar":"area.2","pass":false,"error":"no disk"}
`

func TestReadPassesOverTables(t *testing.T) {
	results, err := Read(strings.NewReader(output))
	if err != nil || len(results) != 1 || results[0].Bar != "area.1" {
		t.Fatalf("%+v, %v", results, err)
	}
	for _, bad := range []string{"", "no line", output + `{"bar":`} {
		if results, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("Read(%.20q) = %+v", bad, results)
		}
	}
}

func TestDrawIsXML(t *testing.T) {
	results, err := Read(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	results[0].Checks[0].Ratio = 0 // off the scale
	var picture bytes.Buffer
	if err := Draw(&picture, results); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(&picture); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

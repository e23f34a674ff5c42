//go:build !wasm

package abi

import "embed"

// Source is this module's own source without its tests, so that the greenroom
// binary can give guest authors a copy to build against offline. Guests do not
// carry it.
//
//go:embed go.mod SPEC.md
//go:embed abi.go call.go error.go fields.go http.go keylist.go reminder.go source.go turn.go
//go:embed envelope/envelope.go manifest/colocate.go manifest/doc.go manifest/hostrule.go manifest/life.go manifest/manifest.go manifest/placement.go manifest/protobuf.go manifest/section.go manifest/values.go
//go:embed schedule/cron.go schedule/croncount.go schedule/doc.go schedule/retry.go schedule/timetable.go
var Source embed.FS

// Package jsonplan reads and writes the JSON of plain Go types by a plan that is
// made once, so that a turn neither walks types nor fills caches of reflection. A
// guest goes back to its image with every change of actor; what is planned when
// types are registered is part of that image.
//
// It is a faster encoding/json, never another one: what a plan writes is what an
// [encoding/json.Encoder] without HTML escapes writes, byte for byte, and what it
// reads is what [encoding/json.Unmarshal] reads into a zero value. Whatever it has
// no rule for it declines, and the caller asks encoding/json: types with marshalers
// of their own, interfaces, most embedded types, arrays, most maps; and, of inputs,
// everything that is faulty or rare, which also makes encoding/json the author of
// every error. A fuzz test holds both sides against encoding/json.
//
// It uses what TinyGo has of reflection, when a plan is made and for all but the
// commonest types of maps, and addresses of fields otherwise.
package jsonplan

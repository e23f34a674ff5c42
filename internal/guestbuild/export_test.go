package guestbuild

// CargoStatus is what [Probe] finds of cargo where the distribution's folder is another.
var CargoStatus = cargoStatus

// NoteOfAnotherRust is what a build that compiled nothing says of an old Rust in the distribution's
// folder that was taken for a reason.
func NoteOfAnotherRust(version, why string) string {
	r := rust{cargo: "/usr/bin/cargo", version: version, why: why, builds: buildsWithoutFeatures}
	return r.noteOf(&CompileError{NotBegun: true})
}

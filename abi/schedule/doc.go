// Package schedule works out when reminders are due: which times a schedule names, which of
// them a firing stands for when some were missed, and when a failed one is tried again. Hosts
// and the test kit of the Go SDK use it; section 4 of SPEC.md has the rules.
//
// It is pure: it reads no clock. Jitter is the host's.
package schedule

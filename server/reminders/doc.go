// Package reminders has what the forms of the API share about reminders, RPC and plain HTTP:
// [Setter] checks that a reminder's method exists before the reminder is set, and the errors
// and limits are the same in both.
package reminders

// Package bare holds the baselines: what the databases do for a program that
// uses them directly, without Greenroom. Each is a role, and so has a process of
// its own.
package bare

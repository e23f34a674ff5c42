// Package lint holds the tests that keep the shape of the repository: which
// package may import which, and why not the others.
package lint

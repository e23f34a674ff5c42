// Package lint holds the tests that keep the shape of the repository: which
// package may import which, and why not the others; that every page is listed where
// readers look; and that what guests are made of keeps to what TinyGo compiles,
// where no TinyGo is installed to say so.
package lint

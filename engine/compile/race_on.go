//go:build race

package compile

import "os"

const raceEnabled = true

// testCompiler names a test of this package that was built without the race detector: to
// compile under it takes ten times as long, and has nothing to find in one goroutine.
func testCompiler() string { return os.Getenv("GREENROOM_TEST_COMPILER") }

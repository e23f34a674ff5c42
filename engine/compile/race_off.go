//go:build !race

package compile

const raceEnabled = false

func testCompiler() string { return "" }

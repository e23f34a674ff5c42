# Reads the output of go test, with -v or without, and prints what failed tests and builds say:
# each up to 40 lines, each package up to 100, all together up to 400. What is left out of a test
# is in the middle: before its last lines are often the logs of servers.

# add adds a line to what one test, panic or race says.
function add(line) { block[++lines] = line }

# flush ends what one test, panic or race says.
function flush(  i) {
	for (i = 1; i <= lines; i++) {
		if (lines <= 40 || i <= 15 || i > lines - 25) said[++n] = block[i]
		else if (i == 16) said[++n] = "    (and " lines - 40 " lines more)"
	}
	lines = 0
}

function begin(line) { flush(); taking = 1; building = 0; add(line) }

function show(line) { if (printed++ < 400) print line }

function reset() { n = lines = taking = building = 0; test = ""; split("", said); split("", log_of); split("", logged) }

# The end of a package.
/^(ok|FAIL|\?)[ \t]+[^ \t]/ {
	if ($1 == "FAIL") {
		flush()
		for (i = 1; i <= n && i <= 100; i++) show(said[i])
		if (n > 100) show("    (and " n - 100 " lines more)")
		show($0)
	}
	reset()
	next
}

# With -v, what a test says comes before its result, and lines of several tests alternate.
/^=== / { test = $3; taking = building = 0; next }

/^ *--- FAIL: / {
	begin($0)
	for (i = 1; i <= logged[$3]; i++) add(log_of[$3, i])
	test = ""
	next
}
/^ *--- (PASS|SKIP|BENCH): / { test = ""; taking = building = 0; next }

# The errors of a build come before the results of other packages.
/^# / { building = 1; errors = 0 }
building { if (++errors <= 40) show($0); next }

/^(panic|fatal error): |^WARNING: DATA RACE/ { begin($0); test = ""; next }
/^(==================|PASS|FAIL)$/ { taking = 0; next }
taking { add($0); next }
test != "" { log_of[test, ++logged[test]] = $0 }

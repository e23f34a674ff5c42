# Runs one PostgreSQL for as long as standard input stays open.
# $1: the postgres program, $2: the server's folder, the rest: its arguments.
#
# The line "keep" stops the server and keeps the folder; the end of input stops
# it at once and removes the folder.
program=$1
folder=$2
shift 2
"$program" "$@" </dev/null >>"$folder/log" 2>&1 &
server=$!
if read -r order && [ "$order" = keep ]; then
	kill -INT "$server" 2>/dev/null
	wait "$server"
	exit 0
fi
kill -QUIT "$server" 2>/dev/null
wait "$server"
rm -rf "$folder"

# Becomes one PostgreSQL that lives for as long as standard input stays open.
# $1: the postgres program, $2: the server's folder, the rest: its arguments.
#
# A shell stays behind on the other end: the line "done" sends it away, the end
# of input makes it stop the server at once and remove the folder.
program=$1
folder=$2
shift 2
exec 3<&0 </dev/null >>"$folder/log" 2>&1
server=$$
(
	read -r order <&3 && [ "$order" = "done" ] && exit
	kill -QUIT "$server"
	tries=0
	while kill -0 "$server" 2>/dev/null && [ "$tries" -lt 100 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
	rm -rf "$folder"
) &
exec 3<&-
exec "$program" "$@"

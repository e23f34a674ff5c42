package typed

// reserved are the packages that services of guests may not be in: the host's own, and those whose
// messages it knows by their names.
var reserved = []string{"greenroom.", "grpc.", googleProtobuf + "."}

const googleProtobuf = "google.protobuf"

// shorten cuts a name of a guest for a message.
func shorten(name string) string {
	const most = 128
	if len(name) <= most {
		return name
	}
	return name[:most] + "…"
}

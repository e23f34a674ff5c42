package diagnosis

import greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"

// Store judges the store by why the server is not ready; empty: it is.
func Store(why string) *greenroomv1.Finding {
	if why == "" {
		return &greenroomv1.Finding{Check: "store", Verdict: verdictOK, Found: "the server reaches its store"}
	}
	return &greenroomv1.Finding{
		Check: "store", Verdict: verdictFail, Found: "the server is not ready: " + why,
		Remedy: "look into the server's log, and check that its database is there and takes writes (it may be read-only, or its disk full), and that it reaches the other servers of its cluster",
	}
}

// NoCluster says that the hosts of the cluster could not be read.
func NoCluster(why string) *greenroomv1.Finding {
	return &greenroomv1.Finding{Check: "cluster", Verdict: verdictFail, Found: why, Remedy: "ask the server's log"}
}

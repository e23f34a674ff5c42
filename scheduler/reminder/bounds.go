package reminder

import "time"

const (
	pollEvery  = 2 * time.Second  // buckets, recent tokens, progress
	recentFor  = time.Minute      // for how long a token that was handed out may still be committed
	sweepEvery = 30 * time.Second // a scan for what is due in the store
	// So often, and first of all, such scans begin to go through all that is due, which takes less
	// than an hour.
	sweepAllEvery = 40 * time.Minute
	startMargin   = 2 * time.Minute // reading begins so much before what was delivered
	loadGroup     = 256             // reminders read, and steps committed, at once
	pageSize      = 5000            // heads read at once

	// After what is not the actor's failure: the first wait, which doubles each time, and
	// the longest, of what goes by itself and of what somebody has to deploy.
	firstWait           = time.Second
	longestWait         = 8 * time.Second
	longestWaitUnserved = time.Minute

	// firstOrderWait is how long a message waits that was delivered before an earlier one, which
	// another instance delivers.
	firstOrderWait = 20 * time.Millisecond
)

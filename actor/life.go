package actor

import "time"

// SpawnedRetention is how long a spawned actor that has passed away, or was deleted, stays
// dead: its ID takes no calls for so long after its tombstone was written.
const SpawnedRetention = 24 * time.Hour

// Package guest has what the engines do alike with a guest that runs: [Output]
// takes what it prints and logs, and [TrapOf] reads from an error of wazero how it
// ended. Neither knows the guests' ABIs.
package guest

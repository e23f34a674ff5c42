// Package diagnosis judges a server and its cluster by what they say of themselves, and names the
// remedies. StatusService.Diagnose answers with its findings, and so `greenroom doctor` and the
// console say the same. All of it is pure: [Cluster] judges the hosts of a cluster, and [Calls]
// the transactions of actor types.
package diagnosis

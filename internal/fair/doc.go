// Package fair shares a server among apps, so that no app takes the share of another.
//
// Two things are shared: amounts and turns. An [Account] shares an amount, such as bytes of
// memory or open streams. A [Queue] deals turns, and [Places] is a queue that callers wait in. The
// packages that use them decide what an amount is and what a turn costs.
//
// # Account
//
// An app may take what is free, as long as it leaves a part free for other apps. The part
// follows what the app has: an app may have at most seven times what is left free. These are
// the dynamic thresholds of Choudhury and Hahne, "Dynamic Queue Length Thresholds for
// Shared-Memory Packet Switches" (1998), with a factor of 7. So an app that is alone may have
// seven eighths. Of k apps that take all they can, each has 7 of 7k+1 parts, and one part is
// free for the next app. An app that has more than its threshold loses nothing, and gets
// nothing more until it or the others give something back. Some amounts are known only when an app
// has them already, and exceed the bounds: what an app has beyond seven eighths does not reduce
// what others may have.
//
// # Queue
//
// A Queue deals in two levels, first between apps and then between the types of the app. At
// each level it is a deficit round robin: Shreedhar and Varghese, "Efficient Fair Queueing
// using Deficit Round Robin" (1995). Each flow in turn gets a quantum, and is served while its
// deficit pays for what it asks. Where costs are large against the quantum, the rounds that
// would serve no flow are computed, not walked. A flow that has nothing waiting has no deficit,
// and no memory.
//
// # What holds
//
//   - While two apps both have something waiting that may run, what each is served, divided by
//     its weight, differs by at most a quantum and twice the largest cost.
//   - The same holds for two types of one app.
//   - Entries of one type of one app are dealt in the order in which they came.
//   - Whatever other apps wait for, an app is refused only for what it has itself, or because
//     nothing at all is left.
//   - Push, Run, Remove, Take and Give are O(1). Next is O(1) if the flows at the front may be
//     served, and linear in the apps that wait otherwise.
//   - Nothing here reads a clock, starts a goroutine or depends on the order of a map: equal
//     calls in equal order have equal results.
package fair

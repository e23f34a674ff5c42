// Package modules keeps uploaded Wasm modules and says which of them serves each
// actor type: upload, deploy, roll back, undeploy, delete.
//
// # What it promises
//
//   - Nothing is stored that was not inspected. A refused upload leaves nothing
//     and names every fault found.
//   - A module is named by the SHA-256 of its bytes; what is read back is checked
//     against it. Uploading the same bytes again compiles nothing, and counts the module as new.
//   - A deployment switches all its types at once or none, each to the
//     generation after its current one. Deploying what serves already is no
//     change and makes no generation.
//   - A module that declares an older state schema than the one it would replace
//     is refused without Force: its code could not read what is stored.
//   - A placement that was deployed goes before the module's, and stays until another is
//     deployed, or the module's again. A rollback brings back what was deployed then.
//   - One type of an app serves a Protobuf service, and the types of a group have one placement,
//     also if several are deployed at once.
//   - A module that serves a type cannot be deleted.
//   - What an app stores is bounded. An upload beyond the bound removes the oldest modules
//     that serve no type; if that is not enough it is refused, and removes nothing.
//   - What an undeployed type's actors stored is kept, and so is its schema: what
//     is deployed next must be able to read it.
//
// # A type's deployments
//
//	(none) ──deploy──▶ generation 1 ──deploy──▶ 2 ──rollback to 1──▶ 3, the module of 1
//	  ──undeploy──▶ 4, no module: calls answer type_not_found ──rollback──▶ 5, the module of 3
//
// History only grows. A rollback is a new generation, so that rows written in
// between still say which code wrote them, and hosts see a newer number.
//
// # What hosts see
//
// [Service.Current] answers from a table in memory that is replaced as a whole,
// so it takes no lock. The table is read at Start, after each change made here,
// on [Service.Refresh], and every PollInterval for changes made by other
// processes on the same database. A generation never goes back in it, whatever
// the order in which reads return. A host that meets a row of a newer
// generation calls Refresh; a read that began before the call is not enough for
// it, so it waits for the next one.
//
// A type that nothing served before is in the table as soon as its manifest is
// read, and its module is compiled behind: a process with many deployed modules
// serves at once after its start, and a call whose module is not compiled yet waits
// for that module alone. A type that is served goes on with what serves it until the
// module that replaces it is compiled; no other app waits for that.
//
// # Failures
//
//   - Crash between upload and deploy: the module is stored and serves nothing.
//   - The store's answer to a change is lost ([actor.ErrAmbiguous]): the change is
//     tried again. It is harmless: bytes of a digest are the same bytes, and a
//     deployment that was applied is found to be the current one.
//   - Two deployments of one type at once: both are applied, one after the other.
//     Each of them judges schemas and warnings against what it replaces.
//   - Two deployments of different types at once, which have Protobuf services or are in
//     groups: the store refuses the later one, which is decided anew by what serves then.
//   - The store cannot be reached: changes fail with [actor.ErrUnavailable], the
//     table stays as it was, and the poll logs the first failure and the recovery.
//   - A stored manifest that this version cannot read: the types of that module
//     answer with [actor.ErrModuleDamaged], the others serve on.
package modules

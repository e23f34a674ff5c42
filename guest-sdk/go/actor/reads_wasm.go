package actor

// checksReads: a read-only method has a struct of its own, whose changes go nowhere: to find
// them would take more than the method.
const checksReads = false

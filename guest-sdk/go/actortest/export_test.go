package actortest

// ComplainOfVariables is what New does once, for a folder.
var ComplainOfVariables = complainOfVariables

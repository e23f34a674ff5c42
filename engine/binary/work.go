package binary

// What a module costs to compile, and for wazero to check. Optimizing compilers take
// time that grows with the square of a function's blocks, and memory for each value
// that is passed on at each of them: a few kilobytes that do nothing but nest blocks,
// or that pass a thousand values a thousand times, would keep one busy for hours, or
// take all memory. Code that is written by people and compilers is far below these
// bounds; what they let pass is bounded by package compile, in a process that can be
// ended.
//
// Figures are of wazero 1.12 on two shared cores. The largest guest of standard Go
// that was tried, half of the standard library, has 21 MB.
const (
	// A module may have a work of maxWork, and workPerByte for each byte of its code;
	// see [load.work] for the unit, of about 5 ns: what is small is compiled in three
	// seconds, whatever it does, and of what is large this is a part that is no larger
	// than what all code costs. Standard Go has a work of 6 for each byte, C and Rust
	// of up to 25.
	maxWork     = 400_000_000
	workPerByte = 60
	// workOfByte is what each byte of code costs besides: 3.3 MB of standard Go are
	// compiled in two to three seconds.
	workOfByte = 150
	// maxPassed and maxFunctionPassed are of the values that calls, blocks and
	// branches take and give, which take a compiler's memory until the function is
	// compiled. The 21 MB have 210,000, and 1,100 in one function.
	maxPassed         = 5_000_000
	maxFunctionPassed = 500_000
	// maxMerged is of one function's local variables times the places where its
	// control flow meets: at each, each variable may have to be merged, for about
	// 100 bytes. The 21 MB have 62,000 in one function; interpreters written in C
	// come to a million.
	maxMerged = 3_000_000
	// maxLoopDepth is of loops within each other: wazero finds out what they merge in
	// rounds, one for each that is within another; 3,000 take it half a minute.
	maxLoopDepth = 100
	// maxTypeValues is of the parameters and results of all types: wazero writes an
	// entry for each type, with code for each of them.
	maxTypeValues = 50_000
	// meteredGlobals are those that package meter adds.
	meteredGlobals = 2
)

// load is what one function costs.
type load struct {
	flow   uint64 // blocks, and branches that enter them
	chains uint64 // see weigher.follow
	merges uint64 // places where control flow meets
	merged uint64 // values that blocks and branches take and give
	passed uint64 // these, those of calls, and calls
	calls  uint64 // also those that metering adds
	host   uint64 // calls of imported functions
	loops  uint64
	depth  int // of loops within each other
}

// work is what compiling the function takes time for beyond what its instructions
// cost, in steps of the compiler from one block to another.
func (l load) work(locals uint64, w *weigher) uint64 {
	const (
		perValue  = 90 // of a call
		perGlobal = 20 // each is loaded anew after each call
		// For a variable at a place where control flow meets, and for each other one
		// of that place when wazero finds that it needs not be there.
		perMerge, variablesPerStep = 100, 5
		perLoops                   = 100 // within or behind each other, while registers are chosen
		importsPerStep             = 2   // each is looked at for each call of one
		pairsPerStep               = 20  // of blocks and branches, while they are put in order
	)
	return l.chains +
		l.flow*l.flow/pairsPerStep +
		l.merges*locals*(perMerge+locals/variablesPerStep) +
		l.flow*l.merged + // a value that many blocks pass on is followed back through all
		l.passed*perValue +
		l.calls*w.mutable*perGlobal +
		l.host*w.imports/importsPerStep +
		l.loops*l.loops*perLoops
}

// functionWork is what every function costs: wazero declares all types and globals
// anew for each, and looks at all imports.
func (w *weigher) functionWork() uint64 {
	const perType, perGlobal = 3, 2
	return uint64(len(w.types))*perType + w.globals*perGlobal + w.imports
}

// weigher reads the code of functions.
type weigher struct {
	types                     []FuncType
	funcs                     []uint32 // the type of each function, imported ones first
	imports, globals, mutable uint64   // how many
	labels                    []label  // the blocks that are open
	loops                     int      // of them
	at                        place
	dead                      bool // what is read cannot be reached
}

// place is one in the control flow: how many blocks dominate it, that is, lie on
// every way to it, and how many of these come before the last of them that begins a
// loop.
type place struct{ depth, loop uint64 }

// label is what a branch can lead to.
type label struct {
	values uint32 // that a branch passes
	op     byte   // opBlock, opLoop, opIf, or opElse for an if in its second arm
	dead   bool   // the block cannot be reached
	begin  place  // of the block; of a loop, behind its header
	// end is of what dominates all branches to the end of the block, at most; met
	// counts these, and first those of an if's first arm.
	end        place
	met, first int
}

const (
	opBlock = 0x02
	opLoop  = 0x03
	opIf    = 0x04
	opElse  = 0x05
)

func (w *weigher) width(typ uint32) uint64 {
	if int64(typ) >= int64(len(w.types)) {
		return 0 // the runtime rejects the module
	}
	return uint64(len(w.types[typ].Params) + len(w.types[typ].Results))
}

// follow accounts for an edge of the control flow from where the weigher is: for each
// wazero walks along all blocks that dominate it, and for each block back to the last
// that begins a loop.
func (w *weigher) follow(l *load, from place) {
	l.chains += from.depth + from.depth - from.loop + 2
}

// enter begins a block that p dominates.
func (w *weigher) enter(p place) {
	w.at, w.dead = place{p.depth + 1, p.loop}, false
}

// metered accounts for ifs and calls that package meter writes around an instruction,
// or wazero for it.
func (w *weigher) metered(l *load, ifs int) {
	for range ifs {
		w.follow(l, w.at)
		w.follow(l, w.at)
		w.enter(w.at)
	}
	l.calls++
}

// branch accounts for an edge to a label, and returns how many values it passes.
func (w *weigher) branch(l *load, to uint32) uint64 {
	if int64(to) >= int64(len(w.labels)) {
		return 0 // the runtime rejects the module
	}
	target := &w.labels[len(w.labels)-1-int(to)]
	if !w.dead {
		w.follow(l, w.at)
		target.meet(w.at)
	}
	return uint64(target.values)
}

// meet adds an edge to the end of the block.
func (t *label) meet(from place) {
	if t.met == 0 || from.depth < t.end.depth {
		t.end = from
	}
	t.met++
}

// open opens a block, and returns the values that it takes and gives.
func (w *weigher) open(l *load, op byte, typ int64) uint64 {
	var t FuncType
	switch {
	case typ >= 0 && typ < int64(len(w.types)):
		t = w.types[typ]
	case typ < 0 && typ != blockEmpty:
		t.Results = oneValue
	}
	values, dead := len(t.Results), w.dead
	switch op {
	case opLoop:
		values = len(t.Params)
		w.loops++
		l.loops++
		l.merges++
		const headerBlocks = 4
		w.metered(l, headerBlocks)
		w.at.loop = w.at.depth
	case opIf:
		w.follow(l, w.at)
		w.follow(l, w.at)
	}
	w.labels = append(w.labels, label{values: uint32(values), op: op, dead: dead, begin: w.at})
	if op == opIf {
		w.enter(w.at)
	}
	w.dead = dead
	return uint64(len(t.Params) + len(t.Results))
}

// second begins the second arm of an if.
func (w *weigher) second(l *load) {
	t := &w.labels[len(w.labels)-1]
	if !w.dead {
		w.follow(l, w.at)
		t.meet(w.at)
	}
	t.op, t.first = opElse, t.met
	w.enter(t.begin)
	w.dead = t.dead
}

// close ends the innermost block.
func (w *weigher) close(l *load) {
	if w.labels[len(w.labels)-1].op == opIf {
		w.second(l)
	}
	t := w.labels[len(w.labels)-1]
	w.labels = w.labels[:len(w.labels)-1]
	if t.op == opLoop {
		w.loops--
		t.met = 0 // branches went to its beginning
	}
	if !w.dead {
		w.follow(l, w.at)
		t.meet(w.at)
	}
	if t.met > 1 {
		l.merges++
	}
	if t.op == opElse && t.first > 0 && t.met > t.first {
		t.end = t.begin // both arms come here
	}
	w.enter(t.end)
	w.dead = t.met == 0
}

// blockEmpty is the type of a block without values.
const blockEmpty = -0x40

var oneValue = []ValueType{I32}

// weigh passes a function's instructions.
func (w *weigher) weigh(c *cursor, typ uint32) (l load) {
	var results uint64
	if int64(typ) < int64(len(w.types)) {
		results = uint64(len(w.types[typ].Results))
	}
	w.labels, w.loops, w.at, w.dead = append(w.labels[:0], label{values: uint32(results)}), 0, place{}, false
	w.metered(&l, 2) // the entry
	for c.remaining() > 0 && c.err == nil {
		op := c.u8()
		if len(w.labels) == 0 {
			c.fail("has code behind the end of a function")
			return l
		}
		switch op {
		case opBlock, opLoop, opIf:
			l.merged += w.open(&l, op, c.s33())
			l.flow++
			l.depth = max(l.depth, w.loops)
		case opElse:
			if w.labels[len(w.labels)-1].op == opIf { // the runtime rejects any other
				w.second(&l)
			}
		case opEnd:
			w.close(&l)
		case 0x0c: // br
			l.merged += w.branch(&l, c.u32())
			l.flow++
			w.dead = true
		case 0x0d: // br_if
			l.merged += w.branch(&l, c.u32())
			l.flow++
			if !w.dead {
				w.follow(&l, w.at)
				w.enter(w.at)
			}
		case 0x0e: // br_table
			n := c.count("branches in a table", maxBodyBytes, 1)
			for range n + 1 {
				l.merged += w.branch(&l, c.u32())
			}
			l.flow += uint64(n) + 1
			w.dead = true
		case 0x00: // unreachable
			w.dead = true
		case 0x0f: // return
			l.passed += results
			w.dead = true
		case 0x10: // call
			if f := c.u32(); int64(f) < int64(len(w.funcs)) {
				l.passed += 1 + w.width(w.funcs[f])
				if uint64(f) < w.imports {
					l.host++
				}
			}
			l.calls++
		case 0x11: // call_indirect
			l.passed += 1 + w.width(c.u32())
			c.u32()
			l.calls++
			w.metered(&l, 1)
		default:
			if ifs := c.operands(op); ifs > 0 && !w.dead {
				w.metered(&l, ifs)
			}
		}
	}
	l.passed += l.merged
	return l
}

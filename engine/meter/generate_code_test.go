package meter

// statement writes something that leaves the stack as it is.
func (g *generator) statement() {
	if g.left--; g.left < 0 || g.nested > 6 {
		g.emit(opNop)
		return
	}
	g.nested++
	defer func() { g.nested-- }()
	switch g.IntN(20) {
	case 0, 1, 2:
		g.block(opBlock)
	case 3, 4:
		g.block(opLoop)
	case 5:
		g.block(opIf)
	case 6, 7:
		g.branch()
	case 8, 9:
		f := g.IntN(len(g.funcs))
		t := g.types[g.funcs[f]]
		g.values(t.params)
		g.emit(opCall, byte(f))
		g.take(t.results)
	case 10:
		t := g.IntN(len(g.types))
		g.values(g.types[t].params)
		g.out = appendS64(append(g.out, opI32Const), int64(g.IntN(tableSize)))
		g.emit(opCallIndirect, byte(t), 0)
		g.take(g.types[t].results)
	case 11, 12:
		g.variable()
	case 13, 14:
		g.store()
	case 15:
		g.bulkMemory()
	case 16:
		g.tables()
	case 17:
		g.values(g.results)
		g.emit(opReturn)
	default:
		t := anyValue[g.IntN(len(anyValue))]
		g.expression(t)
		g.take([]byte{t})
	}
}

func (g *generator) block(op byte) {
	i := 2 + g.IntN(len(g.types)-2)
	t := g.types[i]
	typ := appendS64(nil, int64(i))
	switch g.IntN(4) {
	case 0:
		t, typ = funcType{}, []byte{typeEmpty}
	case 1:
		r := numeric[g.IntN(len(numeric))]
		t, typ = funcType{results: []byte{r}}, []byte{r}
	}
	g.values(t.params)
	if op == opIf {
		g.expression(typeI32)
	}
	g.emit(append([]byte{op}, typ...)...)
	label := t.results
	if op == opLoop {
		label = t.params
	}
	g.labels = append(g.labels, label)
	arm := func() {
		if op == opLoop {
			g.spend()
		}
		g.take(t.params)
		for range g.IntN(3) {
			g.statement()
		}
		g.values(t.results)
	}
	arm()
	if op == opIf && (len(typ) > 1 || typ[0] != typeEmpty || g.IntN(2) == 0) {
		g.emit(opElse)
		arm()
	}
	g.labels = g.labels[:len(g.labels)-1]
	g.emit(opEnd)
	g.take(t.results)
}

func (g *generator) branch() {
	l := g.IntN(len(g.labels))
	types := g.labels[len(g.labels)-1-l]
	g.values(types)
	switch g.IntN(3) {
	case 0:
		g.emit(opBr, byte(l))
	case 1:
		g.expression(typeI32)
		g.emit(opBrIf, byte(l))
		g.take(types)
	default:
		same := []byte{}
		for k := range g.labels {
			if string(g.labels[len(g.labels)-1-k]) == string(types) {
				same = append(same, byte(k))
			}
		}
		g.expression(typeI32)
		n := g.IntN(4)
		g.emit(opBrTable, byte(n))
		for range n {
			g.emit(same[g.IntN(len(same))])
		}
		g.emit(byte(l))
	}
}

func (g *generator) variable() {
	t := anyValue[g.IntN(len(anyValue))]
	if v, ok := g.global(t); ok && g.IntN(2) == 0 {
		g.expression(t)
		g.emit(opGlobalSet, byte(v))
	} else if v, ok := g.local(t); ok {
		g.expression(t)
		g.out = appendU32(append(g.out, opLocalSet), v)
	}
}

// masked leaves a small i32, now and then any.
func (g *generator) masked(mask int64) {
	g.expression(typeI32)
	if g.IntN(16) > 0 {
		g.out = append(appendS64(append(g.out, opI32Const), mask), 0x71)
	}
}

func (g *generator) store() {
	g.masked(memoryMask)
	switch g.IntN(5) {
	case 0:
		g.expression(typeI32)
		g.emit(0x36, 2, 4)
	case 1:
		g.expression(typeI64)
		g.emit(0x37, 3, 0)
	case 2:
		g.expression(typeF64)
		g.emit(0x39, 3, 1)
	case 3:
		g.expression(typeV128)
		g.emit(opSIMD, 11, 4, 0)
	default:
		g.expression(typeI32)
		g.emit(0x3a, 0, 9)
	}
}

func (g *generator) bulkMemory() {
	switch g.IntN(5) {
	case 0:
		g.emit(opMisc, miscDataDrop, byte(g.IntN(dataSegments)))
		return
	case 1:
		g.out = append(g.out, opI32Const, byte(g.IntN(2)), opMemoryGrow, 0, opDrop)
		return
	}
	g.masked(memoryMask)
	g.masked(63)
	g.masked(63)
	switch g.IntN(3) {
	case 0:
		g.emit(opMisc, miscMemoryInit, byte(g.IntN(dataSegments)), 0)
	case 1:
		g.emit(opMisc, miscMemoryCopy, 0, 0)
	default:
		g.emit(opMisc, miscMemoryFill, 0)
	}
}

func (g *generator) tables() {
	table, typ := byte(0), byte(typeFunc)
	if g.IntN(3) == 0 {
		table, typ = 1, typeExtern
	}
	switch g.IntN(6) {
	case 0:
		g.masked(7)
		g.expression(typ)
		g.emit(opTableSet, table)
	case 1:
		g.expression(typ)
		g.masked(1)
		g.emit(opMisc, miscTableGrow, table, opDrop)
	case 2:
		g.masked(7)
		g.expression(typ)
		g.masked(3)
		g.emit(opMisc, miscTableFill, table)
	case 3:
		g.masked(7)
		g.masked(7)
		g.masked(3)
		g.emit(opMisc, miscTableCopy, table, table)
	case 4:
		g.masked(7)
		g.masked(1)
		g.masked(3)
		g.emit(opMisc, miscTableInit, byte(g.IntN(elemSegments)), 0)
	default:
		g.emit(opMisc, miscElemDrop, byte(g.IntN(elemSegments)))
	}
}

// An operation takes operands and leaves a value.
type operation struct {
	takes string // of types, as bytes
	code  string
	float bool // may make a NaN, whose bits the engines are free to choose
}

const (
	i32, i64, f32, f64, v128 = "\x7f", "\x7e", "\x7d", "\x7c", "\x7b"
)

// spread makes an operation of each opcode.
func spread(takes, codes string, float bool) []operation {
	var out []operation
	for _, c := range []byte(codes) {
		out = append(out, operation{takes, string([]byte{c}), float})
	}
	return out
}

func concat(lists ...[]operation) []operation {
	var out []operation
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// operations by the type that they leave.
func operations(t byte) []operation {
	switch t {
	case typeI32:
		return concat(
			spread(i32, "\x45\x67\x68\x69\xc0\xc1", false),
			spread(i32+i32, "\x46\x47\x48\x49\x4a\x4b\x4c\x4d\x4e\x4f\x6a\x6b\x6c\x6d\x6e\x6f\x70\x71\x72\x73\x74\x75\x76\x77\x78", false),
			spread(i64, "\x50\xa7", false), spread(i64+i64, "\x51\x52\x53\x54\x55\x56\x57\x58\x59\x5a", false),
			spread(f32+f32, "\x5b\x5c\x5d\x5e\x5f\x60", false), spread(f64+f64, "\x61\x62\x63\x64\x65\x66", false),
			spread(f32, "\xa8\xbc", false), spread(f64, "\xaa", false),
			[]operation{{f32, "\xfc\x00", false}, {f64, "\xfc\x03", false}, {v128, "\xfd\x53", false}, {v128, "\xfd\x1b\x02", false}})
	case typeI64:
		return concat(
			spread(i64, "\x79\x7a\x7b\xc2\xc3\xc4", false), spread(i32, "\xac\xad", false),
			spread(i64+i64, "\x7c\x7d\x7e\x7f\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a", false), spread(f64, "\xb0\xbd", false),
			[]operation{{f32, "\xfc\x05", false}, {f64, "\xfc\x07", false}, {v128, "\xfd\x1d\x01", false}})
	case typeF32:
		return concat(spread(f32, "\x8b\x8c\x8d\x8e\x8f\x90\x91", true), spread(f32+f32, "\x92\x93\x94\x95\x96\x97\x98", true), spread(i32, "\xb2\xb3\xbe", true), spread(f64, "\xb6", true))
	case typeF64:
		return concat(spread(f64, "\x99\x9a\x9b\x9c\x9d\x9e\x9f", true), spread(f64+f64, "\xa0\xa1\xa2\xa3\xa4\xa5\xa6", true), spread(i64, "\xb9\xba\xbf", true), spread(f32, "\xbb", true))
	case typeV128:
		return []operation{
			{v128 + v128, "\xfd\x6e", false}, {v128 + v128, "\xfd\x8e\x01", false}, {v128 + v128, "\xfd\xae\x01", false},
			{v128 + v128, "\xfd\xce\x01", false}, {v128 + v128, "\xfd\x51", false}, {v128, "\xfd\x4d", false},
			{i32, "\xfd\x11", false}, {i64, "\xfd\x12", false}, {v128 + i32, "\xfd\x1c\x03", false},
			{v128 + v128, "\xfd\x0d\x00\x11\x02\x13\x04\x15\x06\x17\x08\x19\x0a\x1b\x0c\x1d\x0e\x1f", false}, {v128 + v128, "\xfd\x0e", false},
		}
	}
	return nil
}

// expression writes something that leaves one value of a type.
func (g *generator) expression(t byte) {
	if g.left--; g.left < 0 || g.nested > 8 {
		g.leaf(t)
		return
	}
	g.nested++
	defer func() { g.nested-- }()
	switch k := g.IntN(16); {
	case k < 4:
		g.leaf(t)
	case k == 4:
		g.expression(t)
		g.expression(t)
		g.expression(typeI32)
		if t == typeFunc || t == typeExtern || g.IntN(2) == 0 {
			g.emit(opSelectTyped, 1, t)
		} else {
			g.emit(opSelect)
		}
	case k == 5:
		if l, ok := g.local(t); ok {
			g.expression(t)
			g.out = appendU32(append(g.out, opLocalTee), l)
			return
		}
		g.leaf(t)
	case k == 6:
		g.statement()
		g.expression(t)
	case k == 7:
		g.expression(typeI32)
		g.emit(opIf, t)
		g.labels = append(g.labels, []byte{t})
		g.expression(t)
		g.emit(opElse)
		g.expression(t)
		g.labels = g.labels[:len(g.labels)-1]
		g.emit(opEnd)
	case k == 8:
		g.load(t)
	default:
		g.operation(t)
	}
}

func (g *generator) leaf(t byte) {
	if l, ok := g.local(t); ok && g.IntN(2) == 0 {
		g.out = appendU32(append(g.out, opLocalGet), l)
	} else if v, ok := g.global(t); ok && g.IntN(2) == 0 {
		g.emit(opGlobalGet, byte(v))
	} else if t == typeFunc && g.IntN(2) == 0 {
		g.emit(opRefFunc, byte(g.IntN(len(g.funcs))))
	} else {
		g.constant(t)
	}
}

func (g *generator) load(t byte) {
	switch t {
	case typeI32:
		switch g.IntN(4) {
		case 0:
			g.emit(opMemorySize, 0)
			return
		case 1:
			g.emit(opMisc, miscTableSize, 0)
			return
		case 2:
			g.expression(typeFunc)
			g.emit(opRefIsNull)
			return
		}
		g.masked(memoryMask)
		g.emit(0x28, 2, 4)
	case typeI64:
		g.masked(memoryMask)
		g.emit(0x29, 0, 3)
	case typeV128:
		g.masked(memoryMask)
		if g.IntN(2) == 0 {
			g.expression(typeV128)
			g.emit(opSIMD, 84, 0, 1, 5) // v128.load8_lane
			return
		}
		g.emit(opSIMD, 0, 4, 0)
	case typeFunc:
		g.masked(7)
		g.emit(opTableGet, 0)
	default: // floats in memory may be NaNs of any kind
		g.leaf(t)
	}
}

func (g *generator) operation(t byte) {
	ops := operations(t)
	if len(ops) == 0 {
		g.leaf(t)
		return
	}
	op := ops[g.IntN(len(ops))]
	g.values([]byte(op.takes))
	g.emit([]byte(op.code)...)
	if op.float {
		g.canonical(t)
	}
}

// canonical replaces a NaN by zero.
func (g *generator) canonical(t byte) {
	l := uint32(len(g.locals) - 2)
	equal := byte(0x5b)
	if t == typeF64 {
		l, equal = l+1, 0x61
	}
	g.out = appendU32(append(g.out, opLocalSet), l)
	g.out = appendU32(append(g.out, opLocalGet), l)
	if t == typeF32 {
		g.emit(opF32Const, 0, 0, 0, 0)
	} else {
		g.emit(opF64Const, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	g.out = appendU32(append(g.out, opLocalGet), l)
	g.out = appendU32(append(g.out, opLocalGet), l)
	g.emit(equal, opSelect)
}

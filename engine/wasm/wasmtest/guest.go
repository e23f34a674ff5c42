package wasmtest

// Manifest is the manifest of a [Guest] that names none: the type T with the
// method Do and the read-only method View.
const Manifest = `{"abi":1,"types":[{"name":"T","methods":[{"name":"Do"},{"name":"View","read_only":true}]}]}`

const (
	// ManifestAt is where a guest's manifest lies.
	ManifestAt = 1024
	// HeapAt is where its allocator begins.
	HeapAt = 64 << 10
)

// Guest describes a guest of the native ABI. Its zero value is a proper one
// that does nothing in a turn; each field replaces a part by code of a test.
type Guest struct {
	Manifest string
	// Turn, Alloc, Init and Describe are the bodies of the four exports. Turn
	// has the frame's address and length in the locals 0 and 1 and four i32
	// locals more; Alloc has the size in local 0.
	Turn, Alloc, Init, Describe []byte
	// Pages is the memory's size (2), MaxPages its declared maximum (none).
	Pages, MaxPages uint32
	// Imports are called with the indices 0, 1, …
	Imports []Import
	// Omit leaves out the export of that name.
	Omit string
	// More adds to the module before it is written.
	More func(*Builder)
}

// Import is an imported function.
type Import struct {
	Module, Name    string
	Params, Results []byte
}

// Func is an imported function; a signature has an i for each i32 and an l for
// each i64.
func Func(module, name, params, results string) Import {
	return Import{module, name, types(params), types(results)}
}

// Host is a function of the module greenroom.
func Host(name, params, results string) Import { return Func("greenroom", name, params, results) }

func types(s string) []byte {
	out := make([]byte, len(s))
	for i := range s {
		out[i] = I32
		if s[i] == 'l' {
			out[i] = I64
		}
	}
	return out
}

// Bytes returns the guest.
func (g Guest) Bytes() []byte {
	b := &Builder{}
	for _, imp := range g.Imports {
		b.ImportFunc(imp.Module, imp.Name, imp.Params, imp.Results)
	}
	name := func(s string) string {
		if s == g.Omit {
			return ""
		}
		return s
	}
	if g.Manifest == "" {
		g.Manifest = Manifest
	}
	if g.Describe == nil {
		g.Describe = I64Const(ManifestAt<<32 | int64(len(g.Manifest)))
	}
	if g.Turn == nil {
		g.Turn = I32Const(0)
	}
	heap := b.Global(HeapAt)
	if g.Alloc == nil {
		g.Alloc = bump(heap)
	}
	b.Memory(max(g.Pages, 2), g.MaxPages)
	b.Data(ManifestAt, []byte(g.Manifest))
	if g.Omit != "memory" {
		b.Export("memory", 2, 0)
	}
	b.Func(name("greenroom_alloc"), []byte{I32}, []byte{I32}, 1, g.Alloc...)
	b.Func(name("greenroom_manifest"), nil, []byte{I64}, 0, g.Describe...)
	b.Func(name("greenroom_turn"), []byte{I32, I32}, []byte{I32}, 4, g.Turn...)
	if g.Init != nil {
		b.Func("_initialize", nil, nil, 1, g.Init...)
	}
	if g.More != nil {
		g.More(b)
	}
	return b.Bytes()
}

// bump is an allocator that never frees and grows memory as it needs.
func bump(heap uint32) []byte {
	pagesNeeded := Code( // (heap + size + 65535) / 65536
		GlobalGet(heap), LocalGet(0), I32Add, I32Const(65535), I32Add, I32Const(65536), I32DivU)
	return Code(
		pagesNeeded, []byte{0x3f, 0}, LocalSet(1), // the size of memory, in pages
		LocalGet(1), []byte{0x4b}, // needed > size
		If(Code(
			pagesNeeded, LocalGet(1), I32Sub, MemoryGrow(), I32Const(-1), []byte{0x46},
			If(Code(I32Const(0), Return)...),
		)...),
		GlobalGet(heap), LocalSet(1),
		LocalGet(1), LocalGet(0), I32Add, GlobalSet(heap),
		LocalGet(1))
}

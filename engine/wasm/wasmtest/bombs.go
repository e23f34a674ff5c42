package wasmtest

import "slices"

// Bomb is a shape of modules that are small for what they make a compiler do. All
// are valid guests of the ABI, so that nothing else is wrong with them.
type Bomb struct {
	Name string
	// Make returns a module of the shape; its cost grows with n.
	Make func(n int) []byte
	// Big is an n for which it must be refused unseen, Small one for which it must
	// not be: its compilation ends one way or the other.
	Big, Small int
}

// Sized returns a module of the shape that is to be refused unseen and has about so
// many bytes, or as it is for Big if a larger one has no more of them.
func (b Bomb) Sized(bytes int) []byte {
	big := b.Make(b.Big)
	if len(big) < 1<<10 || len(big) >= bytes {
		return big
	}
	return b.Make(int(int64(b.Big) * int64(bytes) / int64(len(big))))
}

// PluginImport is an import that makes a module an Extism plug-in.
func PluginImport() Import { return Func("extism:host/env", "alloc", "l", "l") }

// Bombs are the shapes that are known, in modules with these imports.
func Bombs(imports ...Import) []Bomb {
	types := func(n int) []byte { return slices.Repeat([]byte{I32}, n) }
	// values pushes n of them.
	values := func(n int) []byte { return slices.Repeat(I32Const(0), n) }
	drops := func(n int) []byte { return slices.Repeat([]byte{Drop}, n) }
	block := func(op byte, typ uint32) []byte { return append([]byte{op}, blockType(typ)...) }
	guest := func(more func(b *Builder)) []byte { return Guest{Imports: imports, More: more}.Bytes() }
	repeated := Host("state_version", "", "l")
	if len(imports) > 0 {
		repeated = imports[0] // of the same host
	}
	const wide = 1_000
	const depth = 100 // of loops
	return []Bomb{
		{"calls of wide functions", func(n int) []byte {
			return guest(func(b *Builder) {
				callee := b.Func("", types(wide), types(wide), 0, slices.Concat(values(wide))...)
				b.Func("", nil, nil, 0, slices.Concat(values(wide), slices.Repeat(Call(callee), n), drops(wide))...)
			})
		}, 100_000, 240},
		{"indirect calls of wide functions", func(n int) []byte {
			return guest(func(b *Builder) {
				typ := b.Type(types(wide), types(wide))
				b.Table(1)
				call := slices.Concat(I32Const(0), []byte{0x11}, U32(typ), []byte{0})
				b.Func("", nil, nil, 0, slices.Concat(values(wide), slices.Repeat(call, n), drops(wide))...)
			})
		}, 50_000, 240},
		{"locals written in loops", func(n int) []byte {
			return guest(func(b *Builder) {
				var body []byte
				for l := 0; l < n; l += depth {
					for at := l; at < min(l+depth, n); at++ {
						body = append(body, 0x03, 0x40)
						body = append(append(body, I32Const(1)...), LocalSet(uint32(at))...)
					}
					for at := l; at < min(l+depth, n); at++ {
						body = append(body, I32Const(0)...)
						body = append(body, 0x0d, 0, 0x0b) // br_if, end
					}
				}
				b.Func("", nil, nil, uint32(n), body...)
			})
		}, 8_000, 800},
		{"nested blocks with wide results", func(n int) []byte {
			return guest(func(b *Builder) {
				typ := b.Type(nil, types(wide))
				body := slices.Repeat(block(0x02, typ), n)
				body = append(body, values(wide)...)
				body = append(body, slices.Repeat([]byte{0x0b}, n)...)
				b.Func("", nil, nil, 0, append(body, drops(wide)...)...)
			})
		}, 9_000, 450},
		{"nested loops with wide parameters", func(n int) []byte {
			return guest(func(b *Builder) {
				typ := b.Type(types(wide), types(wide))
				body := values(wide)
				for range (n + depth - 1) / depth {
					body = append(body, slices.Repeat(block(0x03, typ), depth)...)
					body = append(body, slices.Repeat([]byte{0x0b}, depth)...)
				}
				b.Func("", nil, nil, 0, append(body, drops(wide)...)...)
			})
		}, 7_000, 100},
		{"branches that pass many values", func(n int) []byte {
			return guest(func(b *Builder) {
				typ := b.Type(nil, types(wide))
				body := append(block(0x02, typ), values(wide)...)
				body = append(body, slices.Repeat(append(I32Const(0), 0x0d, 0), n)...)
				body = append(body, 0x0b)
				b.Func("", nil, nil, 0, append(body, drops(wide)...)...)
			})
		}, 7_000, 450},
		{"tables of branches that pass many values", func(n int) []byte {
			return guest(func(b *Builder) {
				typ := b.Type(nil, types(wide))
				body := append(block(0x02, typ), values(wide)...)
				body = append(append(body, I32Const(0)...), table(n)...)
				body = append(body, 0x0b)
				b.Func("", nil, nil, 0, append(body, drops(wide)...)...)
			})
		}, 30_000, 450},
		{"tables of branches", func(n int) []byte {
			return guest(func(b *Builder) {
				for range 4 {
					body := append([]byte{0x02, 0x40}, I32Const(0)...)
					body = append(append(body, table(n)...), 0x0b)
					b.Func("", nil, nil, 0, body...)
				}
			})
		}, 60_000, 2_000},
		{"one huge table of branches", func(n int) []byte {
			return guest(func(b *Builder) {
				body := append([]byte{0x02, 0x40}, I32Const(0)...)
				b.Func("", nil, nil, 0, append(append(body, table(n)...), 0x0b)...)
			})
		}, 1_000_000, 4_000},
		{"nested loops", func(n int) []byte {
			return guest(func(b *Builder) {
				body := slices.Repeat([]byte{0x03, 0x40}, n)
				b.Func("", nil, nil, 0, append(body, slices.Repeat([]byte{0x0b}, n)...)...)
			})
		}, 2_000, depth},
		{"nests of loops", func(n int) []byte {
			return guest(func(b *Builder) {
				nest := slices.Repeat([]byte{0x03, 0x40}, depth)
				nest = append(nest, slices.Repeat([]byte{0x0b}, depth)...)
				b.Func("", nil, nil, 0, slices.Repeat(nest, n)...)
			})
		}, 30, 8},
		{"nested blocks", func(n int) []byte {
			return guest(func(b *Builder) {
				body := slices.Repeat([]byte{0x02, 0x40}, n)
				b.Func("", nil, nil, 0, append(body, slices.Repeat([]byte{0x0b}, n)...)...)
			})
		}, 200_000, 3_000},
		{"branches out of nested blocks", func(n int) []byte {
			return guest(func(b *Builder) {
				body := slices.Repeat([]byte{0x02, 0x40}, n)
				for l := range n {
					body = append(body, slices.Concat(I32Const(0), []byte{0x0d}, U32(uint32(n-l-1)), []byte{0x0b})...)
				}
				b.Func("", nil, nil, 0, body...)
			})
		}, 100_000, 2_000},
		{"a type for each function", func(n int) []byte {
			return guest(func(b *Builder) {
				for l := range n {
					// Every number is a type of its own.
					var params []byte
					for v := l + 1; v > 0; v /= 4 {
						params = append(params, []byte{I32, I64, 0x7d, 0x7c}[v%4])
					}
					b.FuncOf(b.Type(params, nil), 0)
				}
			})
		}, 49_000, 3_000},
		{"many types", func(n int) []byte {
			return guest(func(b *Builder) {
				for range n {
					b.Type(nil, nil)
				}
			})
		}, 500_000, 20_000},
		{"wide types", func(n int) []byte {
			return guest(func(b *Builder) {
				for range n {
					b.Type(types(wide), types(wide))
				}
			})
		}, 10_000, 20},
		{"many functions", func(n int) []byte {
			return guest(func(b *Builder) {
				typ := b.Type(nil, nil)
				for range n {
					b.FuncOf(typ, 0)
				}
			})
		}, 500_000, 20_000},
		{"many locals", func(n int) []byte {
			return guest(func(b *Builder) {
				for range 8 {
					b.Func("", nil, nil, uint32(n))
				}
			})
		}, 60_000, 5_000},
		{"many globals", func(n int) []byte {
			return guest(func(b *Builder) {
				for range n {
					b.Global(1)
				}
			})
		}, 100_000, 9_000},
		{"many exports", func(n int) []byte {
			return guest(func(b *Builder) {
				f := b.Func("", nil, nil, 0)
				for l := range n {
					b.Export(string(U32(uint32(l)&0x7f))+text128(l), 0, f)
				}
			})
		}, 200_000, 20_000},
		{"many imports", func(n int) []byte {
			return Guest{Imports: slices.Concat(imports, slices.Repeat([]Import{repeated}, n))}.Bytes()
		}, 20_000, 2_000},
		{"many data segments", func(n int) []byte {
			return guest(func(b *Builder) {
				for l := range n {
					b.Data(int32(l*2%60_000), []byte{1})
				}
			})
		}, 200_000, 20_000},
		{"many tables' elements", func(n int) []byte {
			return guest(func(b *Builder) { b.Table(uint32(n)) })
		}, 2_000_000, 100_000},
		{"calls beside many mutable globals", func(n int) []byte {
			return guest(func(b *Builder) {
				for range 9_000 {
					b.Global(1)
				}
				callee := b.Func("", nil, nil, 0)
				for range 100 {
					b.Func("", nil, nil, 0, slices.Repeat(Call(callee), n)...)
				}
			})
		}, 60, 10},
		{"many functions beside many globals", func(n int) []byte {
			return guest(func(b *Builder) {
				for range 9_000 {
					b.Global(1)
				}
				typ := b.Type(nil, nil)
				for range n {
					b.FuncOf(typ, 0)
				}
			})
		}, 100_000, 1_000},
		{"nested ifs", func(n int) []byte {
			return guest(func(b *Builder) {
				body := slices.Repeat([]byte{0x41, 0, 0x04, 0x40}, n)
				b.Func("", nil, nil, 0, append(body, slices.Repeat([]byte{0x0b}, n)...)...)
			})
		}, 24_000, 5_000},
		{"ifs with wide results", func(n int) []byte {
			return guest(func(b *Builder) {
				typ := b.Type(types(wide), types(wide))
				one := slices.Concat(I32Const(0), block(0x04, typ), []byte{0x0b})
				for range 10 {
					b.Func("", nil, nil, 0, slices.Concat(values(wide), slices.Repeat(one, n), drops(wide))...)
				}
			})
		}, 240, 20},
		{"locals read behind many ifs", func(n int) []byte {
			return guest(func(b *Builder) {
				var write, read []byte
				for at := range n {
					write = append(append(write, I32Const(1)...), LocalSet(uint32(at))...)
					read = append(append(read, LocalGet(uint32(at))...), Drop)
				}
				b.Func("", nil, nil, uint32(n), slices.Concat(write, slices.Repeat([]byte{0x41, 0, 0x04, 0x40, 0x0b}, n), read)...)
			})
		}, 1_700, 500},
		{"fills", func(n int) []byte {
			return guest(func(b *Builder) {
				b.Func("", nil, nil, 0, slices.Repeat([]byte{0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 0x0b, 0}, n)...)
			})
		}, 5_000, 500},
		{"calls of one of many imports", func(n int) []byte {
			yield := Func("wasi_snapshot_preview1", "sched_yield", "", "i")
			return Guest{Imports: slices.Concat(imports, slices.Repeat([]Import{yield}, 9_000)), More: func(b *Builder) {
				b.Func("", nil, nil, 0, slices.Repeat(append(Call(uint32(len(imports))), Drop), n)...)
			}}.Bytes()
		}, 200_000, 1_000},
		{"a long function", func(n int) []byte {
			return guest(func(b *Builder) {
				b.Func("", nil, nil, 0, slices.Repeat(append(I32Const(0), Drop), n)...)
			})
		}, 1_000_000, 100_000},
		{"values that pile up", func(n int) []byte {
			return guest(func(b *Builder) {
				b.Func("", nil, nil, 0, append(values(n), drops(n)...)...)
			})
		}, 1_000_000, 100_000},
	}
}

// table is a table of n branches out of the innermost block.
func table(n int) []byte {
	return slices.Concat([]byte{0x0e}, U32(uint32(n)), make([]byte, n+1))
}

// blockType is the type of a block by its number, which is signed.
func blockType(typ uint32) []byte {
	return signed(int64(typ))
}

// text128 is a name of its own for each number.
func text128(n int) string {
	var s []byte
	for ; n > 0; n /= 26 {
		s = append(s, byte('a'+n%26))
	}
	return string(s)
}

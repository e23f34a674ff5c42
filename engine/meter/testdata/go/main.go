// Kernels for measuring what metering costs in standard Go guests. Each export
// does its work n times and returns something that depends on it.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
)

func main() {}

//go:wasmexport tight
func tight(n int32) int32 {
	x := int32(1)
	for i := range n * 100_000 {
		x = x*31 + i
	}
	return x
}

func fibonacci(n int32) int32 {
	if n < 2 {
		return n
	}
	return fibonacci(n-1) + fibonacci(n-2)
}

//go:wasmexport fib
func fib(n int32) int32 {
	var s int32
	for range n {
		s += fibonacci(18)
	}
	return s
}

var words [64 << 10]int32

//go:wasmexport memsum
func memsum(n int32) int32 {
	var s int32
	for j := range n {
		words[j%int32(len(words))] = j
		for _, w := range words {
			s += w
		}
	}
	return s
}

//go:wasmexport sort
func sort(n int32) int32 {
	a := make([]int32, 2000)
	for j := range n {
		x := uint32(j + 1)
		for i := range a {
			x = x*1664525 + 1013904223
			a[i] = int32(x)
		}
		slices.Sort(a)
	}
	return a[0]
}

const document = `{"id":17,"name":"a cart","open":true,"items":[{"sku":"A-1","n":2,"price":9.5},{"sku":"B-22","n":1,"price":120.25}],"note":null,"tags":["x","y\n","z"]}`

//go:wasmexport json
func parse(n int32) int32 {
	total := 0
	for range n {
		var v struct {
			ID    int
			Name  string
			Open  bool
			Items []struct {
				SKU   string
				N     int
				Price float64
			}
			Tags []string
		}
		if json.Unmarshal([]byte(document), &v) != nil {
			return -1
		}
		total += v.ID + len(v.Items) + len(v.Tags)
	}
	return int32(total)
}

//go:wasmexport sha256
func hash(n int32) int32 {
	b := make([]byte, 4096)
	for range n {
		s := sha256.Sum256(b)
		b[0] = s[0]
	}
	return int32(b[0])
}

//go:wasmexport matrix
func matrix(n int32) int32 {
	const size = 48
	var a, b, c [size][size]float64
	for k := range n {
		b[k%size][k%size] = float64(k)
		for i := range size {
			for j := range size {
				s := 0.0
				for l := range size {
					s += a[i][l] * b[l][j]
				}
				c[i][j] = s
				a[i][j] = s + 1
			}
		}
	}
	return int32(c[3][4])
}

//go:wasmexport text
func text(n int32) int32 {
	total := 0
	for range n {
		var b strings.Builder
		for j := range 500 {
			b.WriteString("abc")
			b.WriteByte(byte('a' + j%26))
		}
		total += strings.Count(b.String(), "ca")
	}
	return int32(total)
}

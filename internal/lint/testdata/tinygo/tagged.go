//go:build tinygo

package main

func tagged() { go tagged() } // want a goroutine

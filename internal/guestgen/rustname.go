package guestgen

import (
	"strings"
	"unicode"
)

// rustWords splits a name of Protobuf into words: at underscores, before a capital behind a small
// letter, and before the last capital of several if a small letter follows. prost-build splits alike.
func rustWords(name string) []string {
	var words []string
	for part := range strings.SplitSeq(name, "_") {
		letters := []rune(part)
		start, upper, lower := 0, false, false // what the last letter before was
		for i, c := range letters {
			next := rune(0)
			if i+1 < len(letters) {
				next = letters[i+1]
			}
			if unicode.IsUpper(c) && i > start && (lower || upper && unicode.IsLower(next)) {
				words = append(words, string(letters[start:i]))
				start = i
			}
			if unicode.IsLetter(c) {
				upper, lower = unicode.IsUpper(c), unicode.IsLower(c)
			}
		}
		if start < len(letters) {
			words = append(words, string(letters[start:]))
		}
	}
	return words
}

// rustType returns the name of a type or a variant: FooBar of foo_bar.
func rustType(name string) string {
	var b strings.Builder
	for _, w := range rustWords(name) {
		w = strings.ToLower(w)
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return rustIdent(b.String())
}

// rustSnake returns the name of a field, a function or a module: foo_bar of FooBar.
func rustSnake(name string) string {
	return rustIdent(strings.ToLower(strings.Join(rustWords(name), "_")))
}

// rustKeywords are the words that are no names. Those that are false cannot be names as r#word either.
var rustKeywords = func() map[string]bool {
	words := map[string]bool{"self": false, "Self": false, "super": false, "extern": false, "crate": false}
	for w := range strings.FieldsSeq(`abstract as async await become box break const continue do dyn else enum false final fn for
		gen if impl in let loop macro match mod move mut override priv pub ref return static struct trait true try type typeof
		unsafe unsized use virtual where while yield`) {
		words[w] = true
	}
	return words
}()

// rustIdent makes a name of a word.
func rustIdent(word string) string {
	raw, keyword := rustKeywords[word]
	switch {
	case raw:
		return "r#" + word
	case keyword:
		return word + "_"
	case word == "" || word[0] >= '0' && word[0] <= '9':
		return "_" + word
	}
	return word
}

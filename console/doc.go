// Package console is the web console: pages that show what a server does and let people change it,
// embedded in the binary. They are an ordinary client of the API, in the browser: the package serves
// files, which hold nothing of the server, and knows no actor, no host and no token. docs/console.md
// says what the pages show and who sees what.
//
//	src        TypeScript and the style sheet; src/pages has one file for each page
//	dist       the bundle, made of src and the protos by `make generate`, and committed
//	generate   bundles src with esbuild: a module of its own, which the server does not depend on
//
// # What holds
//
//   - `go build` needs neither Node nor a network; `make generated` checks that dist is up to date.
//   - The pages load nothing from another origin, run no inline script and have no inline style:
//     [Handler] sends a Content-Security-Policy that forbids it.
//   - Names, states and log lines of others are text, never markup. Invisible characters,
//     and those that change the direction of text, are shown as code points (src/text.tsx).
//   - The token stays in the tab's session storage and goes to the server's own origin alone.
package console

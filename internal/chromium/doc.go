// Package chromium drives a headless Chromium for tests and a benchmark, over the pipe of its DevTools protocol:
// https://chromedevtools.github.io/devtools-protocol. It has what the tests of the console need
// and no more.
//
// [Start] starts one process, which ends with the test; [Browser.Open] opens a page. A [Page] does
// one thing at a time, and remembers what tests ask for at their end: errors, and the requests that
// left. Nothing waits with a sleep: [Page.Until] has the page itself answer once a condition holds.
package chromium

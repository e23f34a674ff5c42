// Package compile makes machine code of untrusted modules, and keeps it in a cache.
//
// wazero's compiler cannot be cancelled, and small modules can make it take gigabytes or
// minutes. Package binary refuses the known cases beforehand. The other cases meet a process
// that can be killed: a child process, the same program again, compiles a module and writes
// the code into a folder, and the server loads the code from there. The server itself never
// compiles a module: [Loading] makes wazero fail where it would compile.
//
//	Load ── in the cache? ──▶ open
//	          │ no
//	          ▼
//	    wait for a place ── child: prepare, decode, compile, write ──▶ into the cache ──▶ open
//	    (fair, light ones first)│ memory, time, crash, caller gone: killed
//	                            ▼
//	                   an error, and no file is left
//
// A program that links an engine is its own compiler: the engine's init function calls
// [Serve], so neither a main function nor a test has anything to set up.
//
// # What holds
//
//   - At most [Config.Processes] children compile, one more compiles a light module, and one
//     checks ([Compiler.Check]). None of them waits for a module to arrive: all bytes are there.
//   - The server's process reads, or tries out, one upload at a time.
//   - Owners of modules share the children by the cost of compiling their modules:
//     internal/fair. So an owner that uploads a hundred modules delays another owner by one
//     compilation, and cheap modules go before costly ones. A costly module waits for about
//     as much work of each other owner as it costs itself. What calls wait for has a larger
//     share than uploads and what is compiled ahead. A load that several apps wait for has
//     the turns of each.
//   - A compilation ends within [Config.Time], or when the caller's context does.
//   - A refused module leaves no file. The cache is bounded in bytes, beside what is being loaded.
//     The least recently used goes first: of modules that serve nothing, down to an eighth of
//     the bound, and then of the app that has most. So the modules of one app do not push out
//     those of another.
//   - A cache that is damaged, or emptied meanwhile, costs a compilation.
//
// # Failures
//
//	memory, time or size of the code above the limit   *LimitError
//	the Preparer or wazero refuses the module          *InvalidError
//	the child crashed                                  *CrashError
//	caller's context ended                             its error
//	the child cannot be started, the disk is full      other errors, not the module's
//
// protocol.md beside this file describes the child: how it starts, its bounds, and what it
// gets and leaves.
package compile

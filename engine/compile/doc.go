// Package compile makes machine code of modules that nobody trusts, and keeps it.
//
// # Why a process
//
// wazero's compiler cannot be cancelled, and small modules make it take gigabytes
// or minutes. What is known of these is refused before (package binary), and what
// is not meets a process that can be ended: a module is compiled by a child, the
// same program again, which writes the code into a folder that the server then
// loads from. The server itself never compiles a module: [Loading] has wazero fail
// where it would.
//
//	Load ── in the cache? ──▶ open
//	          │ no
//	          ▼
//	    wait for a place ── child: prepare, decode, compile, write ──▶ into the cache ──▶ open
//	    (fair, cheap ones first)│ memory, time, crash, caller gone: killed
//	                            ▼
//	                   an error, and nothing is left
//
// # The child
//
// A program that links an engine is its own compiler: when it is started under the
// name "greenroom-compiler", the init function of the engine that the module is for
// calls [Serve], which compiles the module on standard input and ends the process,
// before anything else of the program begins. So there is nothing to wire up or to forget in a main function or in
// that of a test, no test binary that runs all its tests again as a child, and a
// compilation opens no store and reads no configuration.
//
// The child bounds itself before it reads a byte of the module: the memory of its
// data (RLIMIT_DATA; and a look at what Go's runtime holds fifty times a second,
// which is all there is on systems other than Linux), its processor time, its
// stack, its processors; it runs at a low priority and offers itself first to the
// kernel's search for memory. It ends with its parent: on Linux by a signal of the
// kernel, everywhere because its standard input ends. The parent kills its process
// group when its time is up or the caller is gone.
//
// The child gets the module as it was uploaded, and prepares it first: the engine's
// [Preparer] bounds and meters it, which may make many times its bytes. The prepared
// form is kept beside the code, so that a server that finds both prepares nothing. It
// is found by the module's bytes and by the version of the Preparer: one that writes
// other modules has another.
//
// What the server does with the result, it does for itself: it decodes the prepared
// module and reads the code. So the child first decodes it alone, and refuses a module
// for which that takes much memory, or whose prepared form is above [MaxPrepared].
//
// Engines read the outline of an uploaded module in the server's process, since they
// name all of its faults at once, and need parts of it as long as it runs: once before
// it is compiled, for its faults and its cost, and once when it is loaded and tried out.
// What the outline takes is bounded by package binary, and [Compiler.Read] has the bytes
// in memory for one upload at a time. In between, while it waits for a compiler, it is
// on disk alone ([Compiler.TempFile]), from where the child gets it.
//
// # What holds
//
//   - At most [Config.Processes] children run, and none waits for a module to
//     arrive: [Compiler.Load] and [Compiler.Compile] have all bytes.
//   - One upload at a time is read, or tried out, in this process.
//   - Owners of modules share the children by what their modules cost to compile, so
//     that one that uploads a hundred modules holds up another by one compilation, and
//     that cheap modules go before costly ones. A costly one waits for about as much of
//     each other owner as it costs itself. What the server needs to serve goes first.
//   - A compilation ends within [Config.Time], or when the caller's context does.
//   - A module that was refused leaves no file. The cache is bounded in bytes; what
//     was used least recently goes first, and what is deployed stays.
//   - A cache that is damaged, or emptied meanwhile, costs a compilation.
//
// # Failures
//
//	memory, time or size of the code above the limit   *LimitError
//	the Preparer or wazero refuses the module          *InvalidError
//	the child crashed                                  *CrashError
//	caller's context ended                             its error
//	the child cannot be started, the disk is full      other errors, not the module's
package compile

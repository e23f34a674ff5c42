//! Actors that do not compile, in examples/. The lines `// says:` of each are in what
//! the compiler says of it, which tests/diagnostics.rs of the SDK compares.

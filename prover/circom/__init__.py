"""circom's witness generators: input files read as circom reads them, the WebAssembly run outside the GIL."""

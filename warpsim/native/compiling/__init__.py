"""From LLVM IR to functions: compiler, object cache and compile queue."""

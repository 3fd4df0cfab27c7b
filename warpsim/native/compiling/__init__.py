"""From LLVM's text to functions, and objects kept on disk."""

"""Helpers that units call, as LLVM's text: one module for each size and number of elements, made when it is needed."""

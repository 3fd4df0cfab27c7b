"""The race rule: accesses (`accesses`, `strides`) held against the happens-before relation (`order`)."""

"""The version of the package, for files that the package itself imports."""

VERSION = "0.1.0"

"""The version of this package, which is that of the binary."""

VERSION = "0.1.0"

"""Servers of others, in environments of their own, asked by glasshead: `make interop`."""

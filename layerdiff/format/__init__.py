"""Dump format 1: the tables, the writer and the reader; docs/format.md specifies it."""

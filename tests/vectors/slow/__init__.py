"""A second, slow implementation of Sordino's protocol, for the eye and for the check of the published vectors.

It needs Python's standard library alone. It is written from docs/src/reference/protocol.md and the chapters after it, in the
most direct way that still ends within a minute. It is not constant-time and must never hold a secret.
"""

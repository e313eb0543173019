"""A second, slow implementation of Sordino's protocol, for the eye and for the check of the published vectors.

It needs Python's standard library alone. It follows docs/src/reference/protocol.md and
protocol-bytes.md in the most direct way that still ends within a minute. It is not constant-time and must never hold a secret.
"""

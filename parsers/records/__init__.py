"""From a fetch result to its record and links: what is read of which kind, in which order.

Pure: bytes in, values out; a failure is a value with a reason. Imports the rooms of `parsers` but
`worker`.
"""

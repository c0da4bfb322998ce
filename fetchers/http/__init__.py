"""The web: addresses, connections, HTTP/1.1 on them, bodies decoded within bounds.

Decides what is a fault of a server and which one. Knows no crawl, no Kafka; imports `policy` and
the schemas.
"""

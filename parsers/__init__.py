"""Parsers: from a fetch result to a record and the links it holds.

A fetch result arrives at `worker.stage` (the parser process, which owns Kafka and heartbeats) and
goes as it is to a parse process (`worker.pool`, `worker.child`). There `records.parse` looks at
what the body is (`documents.kind`), in which encoding (`text`), whether it is safe to parse
(`documents.guard`), and reads it: HTML in one walk over its tree (`documents.html`, `scan`),
sitemaps and feeds in pieces (`xmlstream`, `sitemap`, `feed`). Structured data and selectors are
read by `data`. Links are resolved with memory, judged and grouped into messages by host (`links`).
Ready messages go back to the parser process, which delivers them and then completes the fetch
result.

Invariants:

* Any bytes under any headers give a record or a typed failure.
* A document that kills or hangs its process costs nothing but itself.
* A URL id counts as known only after a message with it was delivered.
* Memory does not grow with the size of a sitemap, a feed or a page.
"""

"""The contract between stages: what is on each topic, and what a URL is.

Everything here is pure: no clock, no environment, no I/O beyond reading the schema files
shipped with the package. `schemas` is imported by every other package and imports none of them.

* `schemas.topics`: the topics as data (name, key, partitions, retention, size limits).
* `schemas.codec`: bytes to records and back (Avro single-object encoding).
* `schemas.records`: the shape of each record, as typed dictionaries.
* `schemas.url`: URL identity: parsing, normal form, URL id, host key.
* `schemas.crawl`: crawl specs and the admission rules (scope, depth, budget, traps).
* `schemas.reasons`: why a URL was rejected, retried or given up, in one table.
* `schemas.errors`: exceptions, each naming what happens to the message in hand.
"""

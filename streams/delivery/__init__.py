"""The guarantee: completed after the outputs are in Kafka, committed after it is completed.

The steps and their invariants are numbered in `runtime`. Only this room commits offsets of the
fetchers' and parsers' groups; what a stage must be is in `stage`. Imports crawls, dead letters,
`kafka` and below; it knows no fetcher, parser or URL.
"""

"""From references as written to links of the crawl: resolved, judged, grouped by host.

Imports `documents` and `text`; scope and other refusals are `schemas.admission`'s.
"""

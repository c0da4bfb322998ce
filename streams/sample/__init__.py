"""The sample site: a small website on loopback, for a first crawl without a network.

The website of a made-up coastal field station: about 350 pages, generated from code, the same
bytes on every machine. Besides ordinary pages it has what real sites have and crawlers trip over:
one page under many spellings, redirect chains and loops, errors that pass and errors that stay,
an endless calendar, disallowed sections, foreign charsets, every content coding, sitemaps, a feed.

* `streams.sample.site.Site`: the pages, and `expected()`: what becomes of every URL, the oracle
  that tests compare a crawl with.
* `streams.sample.server.SampleServer`: serves a site over HTTP/1.1 and logs every request.
* `python -m streams.sample`: serves it until interrupted.
"""

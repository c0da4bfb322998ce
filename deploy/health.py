"""The image's health check: exit code 0 when /healthz answers 200, with the problems otherwise."""

import http.client
import os
import sys

connection = http.client.HTTPConnection(
    "127.0.0.1", int(os.environ.get("CRAWL_METRICS_PORT") or 9100), timeout=4
)
try:
    connection.request("GET", "/healthz")
    response = connection.getresponse()
    body = response.read(4096).decode("utf-8", "replace")
except OSError as error:
    sys.exit(f"no answer: {error}")
sys.exit(0 if response.status == 200 else body)

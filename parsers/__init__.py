"""Parsers: from a fetched body to a record and the links it holds."""

"""The parser process and its parse processes: Kafka here, documents there.

Decides how work is shared among children, and what a child that hangs, grows or dies costs.
The only room of `parsers` that does I/O.
"""

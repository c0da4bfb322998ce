"""The fetch stage: deliveries in, attempts made when a host is due, outcomes out.

Connects the decisions of `policy` with Kafka and `http`, and keeps the clock for them.
"""

"""Talking to Kafka, without any opinion on what is said: clients, topics, reading, large values.

Decides how a client is configured, how often it talks, what a topic must look like. Knows no
stage, crawl or commit; imports telemetry and settings.
"""

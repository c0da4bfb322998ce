"""The fetch stage: from `fetch-requests` and the retry tiers to `fetch-results`.

A request arrives with its partition, and its host with it: whoever owns the partition is the only
one who asks that host. It enters the *window*, in the queue of its host; what a host cannot be
asked within a while is deferred to the retry tier that matches its wait. When the host is due, the
request is popped, the budget of its crawl looked at once more, robots.txt read if it is not known
(that is a request to the host like any other), and the URL is asked for.

Every attempt ends in exactly one outcome:

* a fetch result, and for a redirect in scope its target on `urls`;
* the same request on a retry tier, with the next attempt's number and its time;
* a dead letter, of kind failed or disregarded;
* a counted rejection, when its crawl was stopped or has spent its budget.

Only when Kafka has acknowledged what the outcome produced is the message completed.

`fetchers.policy` decides, without clock, chance or I/O; `transport`, `wire`, `resolver` and
`decode` talk to the web; `stage` and `attempt` connect the two.
"""

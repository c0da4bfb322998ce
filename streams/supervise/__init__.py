"""The workers of one machine: started, watched, restarted, scaled and ended in order.

A deployment on Kubernetes does all this with Deployments; here one process does it for `crawl
run` and `crawl up`. Workers are ordinary child processes with log files of their own, and none
outlives the supervisor, even when that is killed with -9.
"""

from streams.supervise.children import ROLES, Role, environment
from streams.supervise.detached import end, launch
from streams.supervise.foreground import run
from streams.supervise.policy import DEFAULT, RestartPolicy
from streams.supervise.state import SupervisorError, SupervisorStatus, status
from streams.supervise.supervisor import ChildInfo, Supervisor

__all__ = [
    "DEFAULT",
    "ROLES",
    "ChildInfo",
    "RestartPolicy",
    "Role",
    "Supervisor",
    "SupervisorError",
    "SupervisorStatus",
    "end",
    "environment",
    "launch",
    "run",
    "status",
]

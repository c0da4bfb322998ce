"""Children that must not outlive their parent, even when the parent is killed with -9.

Linux's parent-death signal is sent when the *thread* that started the child ends, and other
systems have none. So a tiny shell holds the reading end of a pipe whose writing end dies with us,
and ends our children when it closes.
"""

from __future__ import annotations

import contextlib
import subprocess
from types import TracebackType
from typing import Final, Self

# Lines `+ PID` and `- PID` keep the list; the end of input without a line `.` means that the
# parent died. The shell is in a session of its own, so a Ctrl-C on the terminal does not reach it.
_SCRIPT: Final = """
pids=""
while read -r op pid; do
  case $op in
    +) pids="$pids $pid" ;;
    -) kept=""; for p in $pids; do [ "$p" = "$pid" ] || kept="$kept $p"; done; pids=$kept ;;
    .) exit 0 ;;
  esac
done
[ -n "$pids" ] || exit 0
kill -TERM $pids 2>/dev/null
left=$1
while [ "$left" -gt 0 ]; do
  alive=""
  for p in $pids; do kill -0 "$p" 2>/dev/null && alive="$alive $p"; done
  pids=$alive
  [ -n "$pids" ] || exit 0
  sleep 1
  left=$((left - 1))
done
kill -KILL $pids 2>/dev/null
"""


class Guard:
    """Ends the watched processes if this process dies without having closed the guard.

    Args:
        grace_s: whole seconds between SIGTERM and SIGKILL once we are gone.
    """

    def __init__(self, grace_s: int = 25) -> None:
        self._shell = subprocess.Popen(  # noqa: S603 - a constant script
            ["/bin/sh", "-c", _SCRIPT, "guard", str(grace_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def watch(self, pid: int) -> None:
        """End this process if we die."""
        self._say(f"+ {pid}\n")

    def release(self, pid: int) -> None:
        """Forget a process: call it once the process has ended, before its id can be reused."""
        self._say(f"- {pid}\n")

    def close(self) -> None:
        """Stop watching; what is still watched lives on."""
        self._say(".\n")
        if self._shell.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._shell.stdin.close()
        self._shell.wait()

    def _say(self, line: str) -> None:
        pipe = self._shell.stdin
        if pipe is None or pipe.closed:
            return
        # A guard that somebody killed must not take the guarded down with it.
        with contextlib.suppress(BrokenPipeError):
            pipe.write(line.encode())
            pipe.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

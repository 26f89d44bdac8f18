# SPDX-License-Identifier: Apache-2.0
"""Units in other processes, on this machine or another: what is sent there, and what is kept there between units."""

from __future__ import annotations

import atexit
import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .jobs.job import Job
    from .reports import MirrorItem
    from .work import Unit, Worker

_KEPT = 2
"""Runs whose connections a process keeps: a long-lived worker of a cluster serves one after the other."""

_workers: OrderedDict[str, Worker] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class RemoteWork:
    """Work on units of one job, wherever it is called; the job file is sent as it stands, so that no secret is in it
    that the environment holds.

    Attributes:
        path: The job file's path, for messages.
        text: Its bytes.
        run: What tells this run from others: what one has seen of stores is not true for the next, hours later.
    """

    path: str
    text: bytes
    run: str

    @staticmethod
    def of(job: Job) -> RemoteWork:
        """The work on units of `job`."""
        return RemoteWork(str(job.path), job.text, uuid.uuid4().hex)

    def __call__(self, each: tuple[int, Unit]) -> MirrorItem:
        """Do one unit; see `Worker.run`. What hosts have to say, only this process hears."""
        worker = self._worker()
        item = worker.run(each[1])
        return item.model_copy(update={"warnings": [*item.warnings, *worker.pool.news()]})

    def _worker(self) -> Worker:
        with _lock:
            worker = _workers.pop(self.run, None)
            if worker is None:
                from .jobs.job import Job
                from .work import Worker

                worker = Worker(Job.parse(self.text, self.path))
                while len(_workers) >= _KEPT:
                    # Whoever still works with it fails, and is tried again: more runs at once than that are not meant.
                    _workers.popitem(last=False)[1].close()
            _workers[self.run] = worker
            return worker


@atexit.register
def _close() -> None:
    with _lock:
        while _workers:
            _workers.popitem()[1].close()

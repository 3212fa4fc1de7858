# SPDX-License-Identifier: Apache-2.0
"""Two replicas of the operator that are killed, frozen and stopped at random, and started again as a kubelet would."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

from controller_runtime.api.operator_rbac import LEASE_NAME
from controller_runtime.kube.kind import LEASE
from tests.support.eventually import eventually
from tests.support.operator_process import OperatorProcess
from tests.support.operator_run import Cluster

RESTART_S = 0.5
FROZEN_S = (16.0, 25.0)
"""Longer than the lease lasts."""
STRIKES = {"kill the leader": 11, "kill all": 3, "freeze the leader": 3, "stop the leader": 3}
LEADER_WITHIN_S = 90
GOOD_EXITS = (0, 75, -signal.SIGKILL)
"""Stopped; start again because the lease was lost; killed."""
DEFECT = "reconcile failed unexpectedly"


class Chaos:
    """`counts`: what was done so far. `bad_exits`: exit codes that nobody asked for."""

    def __init__(
        self, replicas: Sequence[OperatorProcess], cluster: Cluster, chance: random.Random, every_s: float, say: Callable[[str], None]
    ) -> None:
        self._replicas, self._cluster, self._random, self._every_s, self._say = replicas, cluster, chance, every_s, say
        self.counts: Counter[str] = Counter()
        self.bad_exits: list[str] = []

    async def keep_alive(self, replica: OperatorProcess) -> None:
        """Start a replica whenever it does not run."""
        while True:
            await replica.start()
            assert replica.process is not None
            code = await replica.process.wait()
            if code not in GOOD_EXITS:
                self.bad_exits.append(f"{replica.log.stem} ended with {code}")
            await asyncio.sleep(RESTART_S)

    @contextlib.asynccontextmanager
    async def striking(self) -> AsyncIterator[None]:
        """Within, a leader may work for a while, then it is struck, and so on."""
        strikes = asyncio.create_task(self._strike_again_and_again())
        try:
            yield
        finally:
            strikes.cancel()
            await asyncio.wait({strikes})
        if not strikes.cancelled():
            strikes.result()

    async def strike(self) -> None:
        """Do one thing to the leader, or to all replicas."""
        what = self._random.choices(list(STRIKES), list(STRIKES.values()))[0]
        leader = await self._leader()
        if leader is None:
            return
        self.counts[what] += 1
        self._say(f"{what} ({leader.log.stem})")
        match what:
            case "kill the leader":
                leader.send(signal.SIGKILL)
            case "kill all":
                for replica in self._replicas:
                    replica.send(signal.SIGKILL)
            case "stop the leader":
                leader.send(signal.SIGTERM)
            case "freeze the leader":
                leader.send(signal.SIGSTOP)
                try:
                    await asyncio.sleep(self._random.uniform(*FROZEN_S))
                finally:
                    leader.send(signal.SIGCONT)

    async def until_led(self) -> None:
        """Wait until a replica that runs holds the lease."""

        async def is_led() -> bool:
            return await self._leader() is not None

        await eventually(is_led, "a replica leads", LEADER_WITHIN_S)

    def defects(self) -> list[str]:
        """What the replicas logged of their own defects, and exits without a cause."""
        lines = [line for replica in self._replicas for line in replica.log.read_text(errors="replace").splitlines()]
        return [*self.bad_exits, *(line for line in lines if DEFECT in line)]

    async def _strike_again_and_again(self) -> None:
        while True:
            await self.until_led()
            await asyncio.sleep(self._every_s * self._random.uniform(0.5, 1.5))
            await self.strike()

    async def _leader(self) -> OperatorProcess | None:
        lease = await self._cluster.find(LEASE, LEASE_NAME)
        holder = str((lease or {}).get("spec", {}).get("holderIdentity") or "")
        return next((each for each in self._replicas if each.runs and each.has_lease(holder)), None)

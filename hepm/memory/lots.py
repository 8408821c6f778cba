"""What chance decides of a session: its arm in an experiment, and its level."""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING

from hepm.graph.trials import CONTROL, MEMORY

if TYPE_CHECKING:
    from hepm.graph.store import Store


class Lots:
    """Draws for sessions of one store. Threads may share it.

    A draw depends on its purpose, the session's id, the namespace and the store's secret: it is the same in every
    process, whoever does not know the secret can foresee none, and draws of different purposes are independent.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._secret = ""

    def dice(self, purpose: str, run: str, *, namespace: str) -> Random:
        """The dice of one draw.

        Raises:
            StoreUnavailableError: the secret was not read yet, and the store does not answer.
        """
        # Read once and kept: draws go on while the store does not answer.
        self._secret = self._secret or self._store.secret
        # With their lengths, so that no other parts give the same text.
        parts = "".join(f"{len(part)} {part}" for part in (self._secret, purpose, namespace, run))
        return Random(blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=16).digest())

    def arm(self, run: str, holdout: float, *, namespace: str) -> str:
        """The arm of a session; a share of `holdout` are controls. One that is a control at .1 is one at .2, too."""
        # The draw does not depend on the holdout, so that a larger one only adds controls.
        lot = self.dice("arm", run, namespace=namespace).random()
        if lot < holdout:
            return CONTROL
        return MEMORY

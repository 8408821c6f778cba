"""An agent's process, to be killed: sessions.py STORE. It prints the id of each session that finished."""

from __future__ import annotations

import sys
from itertools import count

from hepm import Memory


def main(store: str) -> None:
    with Memory.open(store) as memory:
        for number in count():
            with memory.session(id=f"run-{number}", task="broken", environment="shop", namespace="shop") as session:
                session.say("user", "Refund parcel 77, broken glass")
                session.hint()
                session.record("get_order", {}, "delivered")
                session.hint()
                session.record("refund" if number % 2 else "close_ticket", {}, "done")
                session.finish(success=bool(number % 2))
                print(session.id, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

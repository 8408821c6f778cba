"""Work on a stream of things in a few threads, results as they come."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Event, Thread
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def side_by_side(
    things: Iterable[S], work: Callable[[S, Event], T], *, at_hand: Callable[[S], T | None], at_once: int
) -> Generator[T]:
    """The result of each thing, in the order they finish. Nothing begins while nobody asks for the next result.

    An error of `work` ends it and is raised. When it ends, whatever the reason, the event given to `work` is set, and
    what runs is waited for. The threads are daemons, so that a second Ctrl-C ends that wait too.

    Args:
        things: Taken one by one, by the thread that asks for results.
        at_hand: A result that needs no work, or None; called by that thread.
        at_once: Threads.
    """
    stop = Event()
    done: SimpleQueue[Future[T]] = SimpleQueue()
    running: dict[Future[T], Thread] = {}

    def run(thing: S, result: Future[T]) -> None:
        try:
            result.set_result(work(thing, stop))
        except BaseException as error:
            result.set_exception(error)
        done.put(result)

    def take() -> T:
        finished = done.get()
        running.pop(finished).join()
        return finished.result()

    try:
        for thing in things:
            if (result := at_hand(thing)) is not None:
                yield result
            else:
                while len(running) >= at_once:
                    yield take()
                future: Future[T] = Future()
                running[future] = Thread(target=run, args=(thing, future), name="hepm-llm", daemon=True)
                running[future].start()
            while not done.empty():
                yield take()
        while running:
            yield take()
    finally:
        stop.set()
        for thread in running.values():
            thread.join()

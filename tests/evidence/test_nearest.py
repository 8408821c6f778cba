"""The vote of the runs with the likeliest requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hepm.evidence.decisions import LabelledRun
from hepm.evidence.nearest import END, MOST_VOTERS, NearestVote, Requests, aligned
from hepm.graph.delta import numbers_of, request_of, said_text, words_of
from hepm.types import StateSummary

Known = tuple[str, Sequence[str]]


def labelled(number: int, request: str, calls: Sequence[str], *, won: bool = True) -> LabelledRun:
    words = words_of(request)
    return LabelledRun(number, f"r{number}", won, "", "", "", words, tuple(calls), family=f"r{number}", request=request)


def vote(runs: Sequence[Known], request: str, past: Sequence[str], *, lost: Sequence[Known] = ()) -> NearestVote:
    known = [labelled(number, *run) for number, run in enumerate(runs)]
    known += [labelled(len(known) + number, *run, won=False) for number, run in enumerate(lost)]
    requests = Requests.of(known)
    return requests.vote(requests.voters(requests.cosines(words_of(request))), past, numbers_of(request))


def first(of: NearestVote) -> str:
    return max(of.share, key=lambda tool: of.share[tool])


LAMPS: Known = ("the lamp arrived broken", ["look", "refund", "look", "close"])
PARCELS: Known = ("when does my parcel come", ["look", "resend", "close"])


def test_runs_with_the_likeliest_request_vote_for_what_followed_the_longest_match() -> None:
    runs = [*[LAMPS] * 5, *[PARCELS] * 5]
    first_look = vote(runs, "my lamp came broken", ["look"])
    second_look = vote(runs, "my lamp came broken", ["look", "refund", "look"])
    assert (first(first_look), first(second_look)) == ("refund", "close")
    assert second_look.followed == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("request_", "known"),
    [
        ("refund order W-17", True),
        ("refund order w-17 of 3 May", True),
        ("refund order", True),
        ("refund order W-18", False),
    ],
)
def test_a_request_in_the_same_words_is_known_unless_it_names_another_number(request_: str, known: bool) -> None:
    found = vote([("refund order W-17", ["look"]), ("refund order W-16", ["look"])], request_, [])
    assert (found.known > 0) is known
    assert found.share == {"look": pytest.approx(1.0)}


def test_a_run_that_ended_here_votes_for_the_end() -> None:
    found = vote([("the lamp arrived broken", ["look", "refund"])] * 3, "lamp broken", ["look", "refund"])
    assert found.share == {END: pytest.approx(1.0)}


def test_which_of_equal_requests_came_first_does_not_decide_the_vote() -> None:
    runs: list[Known] = [("lamp broken", ["look", tool]) for tool in ["refund"] * 6 + ["resend"] * 6]
    one, other = (vote(of, "lamp broken", ["look"]) for of in (runs, runs[::-1]))
    assert one.share == pytest.approx(other.share)
    assert one.share == {"refund": pytest.approx(0.5), "resend": pytest.approx(0.5)}


def test_of_many_equal_requests_the_latest_vote() -> None:
    old: list[Known] = [("lamp broken", ["look", "refund"])] * 30
    new: list[Known] = [("lamp broken", ["look", "resend"])] * MOST_VOTERS
    assert vote([*old, *new], "lamp broken", ["look"]).share == {"resend": pytest.approx(1.0)}


def test_failed_runs_do_not_vote() -> None:
    found = vote([LAMPS] * 2, "lamp broken", ["look"], lost=[("lamp broken", ["look", "shrug"])] * 5)
    assert set(found.share) == {"refund"}
    assert found.likeness < 0.999


def test_a_run_without_calls_has_no_vote() -> None:
    assert vote([("lamp broken", [])], "lamp broken", []).share == {}


def test_a_word_that_few_requests_have_counts_more_than_one_of_most() -> None:
    runs: list[Known] = [*[("broken lamp", ["refund"])] * 2, *[("broken chair", ["resend"])] * 9]
    assert first(vote(runs, "broken shining lamp", [])) == "refund"


def test_a_request_is_the_whole_first_message_in_words_without_digits() -> None:
    said = said_text(StateSummary(said=("From: bo\n\nRefund order 4711, Ana!", "Thanks")))
    assert words_of(request_of(said)) == {"from", "refund", "order", "ana"}


def test_one_run_more_is_compared_as_if_it_had_been_there() -> None:
    requests = Requests.of([labelled(n, *(LAMPS, PARCELS)[n % 2]) for n in range(10)])
    more = requests.with_run(labelled(10, "sing a song", ["sing"]))
    words = words_of("a song")
    assert requests.cosines(words).tolist() == [0.0] * 10
    assert more.cosines(words).argmax() == 10
    assert more.vote(more.voters(more.cosines(words)), [], frozenset()).share == {"sing": pytest.approx(1.0)}
    assert more.knows({"song"})
    assert not requests.knows({"song"})
    assert np.allclose(more.cosines(words_of("my lamp"))[:10], requests.cosines(words_of("my lamp")))


MATCHES = [
    ("abc", "", (0, "a")),
    ("abc", "ab", (2, "c")),
    ("abc", "abc", (3, END)),
    ("abac", "a", (1, "b")),  # of equally long matches the one at the same distance from the start
    ("abac", "aba", (3, "c")),
    ("abc", "azb", (2, "c")),  # no two calls match: a, b in order do
    ("abc", "xcza", (1, "b")),  # of equally long ones the one that ends first
    ("abc", "zzz", (0, "a")),
]


def test_a_run_is_followed_to_its_longest_match_else_to_the_longest_common_subsequence() -> None:
    for calls, past, found in MATCHES:
        assert aligned(calls, past) == found

"""Small decision trees over facts, one bag for each last tool: which facts decide what successful runs call next.

A state as a text is compared as a whole, and one word that decides drowns in it. A tree asks for that word alone, and
the questions it asks are the reason of its answer. Ours; after CART (Breiman et al. 1984), with entropy for Gini, a
split that has to pay for its description (minimum description length), and leaves shrunk towards their parents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import IN_TURN, CallMatrix
from hepm.graph.rows import Float32Array, spread_over
from hepm.policy.hybrid.known_facts import MOST_TESTS, FactTest, TestedCalls, answered, tested
from hepm.types import USER, Facts

DRAWN_TREES: Final = 4
"""Trees from draws of runs, and as many from draws of families, beside the one of all calls, which gives the reasons.

All may ask all tests: one fact often decides alone, and a tree that may not ask for it only guesses
(benchmarks/LOG.md, "trees that may ask all").
"""
DEEPEST: Final = 5  # questions on the way to a leaf
MOST_CALLS: Final = 800
"""Calls after one tool that trees are grown from: half of them the latest."""
FEWEST_CALLS: Final = 6  # after a tool, below which no trees are grown
UNSKILLED: Final = 0.3
"""Skill up to which trees are not heard,"""
SKILLED: Final = 0.7
"""and from which on they are heard fully."""
_FEWEST_IN_LEAF: Final = 3  # calls, in a small memory
_LEAF_SHARE: Final = 60  # of n calls, a leaf has at least n / 60
_SPLIT_COST: Final = 1.0  # nats that a split costs beside the choice of its test
_MOST_SHOWN: Final = 3  # questions in a reason, the last ones
_TO_PARENT: Final = 1.0  # calls that a leaf is given of its parent's shares
# How often a group is drawn, by the cumulative probabilities of a Poisson distribution with mean 1.
_DRAWS: Final = np.array([0.3679, 0.7358, 0.9197, 0.9810])


@dataclass(frozen=True, slots=True)
class Node:
    """A question and where its answers lead, or a leaf.

    Attributes:
        test: None for a leaf.
        yes, no: Places of the nodes that follow.
        count_C: How many calls of each of the next tools came here.
        share_C: Their shares, shrunk towards those of the node before.
    """

    test: FactTest | None
    yes: int
    no: int
    count_C: Float32Array
    share_C: Float32Array

    def after(self, answer: object) -> int:
        """Place of the node that follows an answer, true or false."""
        if answer:
            return self.yes
        return self.no

    @classmethod
    def from_json(cls, kept: Sequence[Any]) -> Node:
        """What `to_json` gave."""
        test, yes, no, count, share = kept
        return cls(
            None if test is None else FactTest(*test),
            yes,
            no,
            np.array(count, dtype=np.float32),
            np.array(share, dtype=np.float32),
        )

    def to_json(self) -> list[Any]:
        """The fields in order."""
        return [self.test, self.yes, self.no, self.count_C.tolist(), self.share_C.tolist()]


class TreePath(NamedTuple):
    """Why a tree answers as it does.

    Attributes:
        answers: The answers to its questions, in words.
        times: How many of the calls with these answers were of the tool that is asked about,
        calls: of how many.
    """

    answers: tuple[str, ...]
    times: int
    calls: int

    def __str__(self) -> str:
        conditions = " and ".join(self.answers[-_MOST_SHOWN:])
        return f"{conditions} (it was next in {self.times} of {self.calls} such cases)"


@dataclass(frozen=True, slots=True)
class PlaceTrees:
    """What follows one tool.

    Attributes:
        tool_C: Numbers of the tools that follow.
        rows: How many calls after it were known.
        known_skill: Mean share that trees gave to the tool called next, of runs that they were not grown from, and
        new_skill: of families that they were not grown from; both in [0, 1]. What tells families apart says nothing of
            a new one.
    """

    tool_C: NDArray[np.intp]
    rows: int
    known_skill: float
    new_skill: float
    trees: Sequence[Sequence[Node]]

    @classmethod
    def grown(cls, calls: CallMatrix, tool: int, families: Sequence[str]) -> PlaceTrees | None:
        """From the calls of successful runs after a tool; None if there are too few.

        Args:
            families: Of each run.
        """
        known = len(calls.by_last.get(tool, ()))
        rows_N = _rows_after(calls, tool)
        if len(rows_N) < FEWEST_CALLS:
            return None
        tool_C, class_N = np.unique(calls.next_N[rows_N], return_inverse=True)
        label_NC = np.eye(len(tool_C), dtype=np.float32)[class_N]
        if len(tool_C) == 1:
            return cls(tool_C.astype(np.intp), known, 1.0, 1.0, [_grow(label_NC, [], label_NC[:, :0])])
        fewest = max(_FEWEST_IN_LEAF, len(rows_N) // _LEAF_SHARE)
        best = _best_tests(tested(calls, rows_N, fewest=fewest), label_NC, fewest)
        run_N: list[int] = calls.run_N[rows_N].tolist()
        of_runs, known_skill = _grow_from_draws([calls.run_ids[run] for run in run_N], best, label_NC)
        of_families, new_skill = _grow_from_draws([families[run] for run in run_N], best, label_NC)
        of_all = _grow(label_NC, best.tests, best.true_NF)
        return cls(tool_C.astype(np.intp), known, known_skill, new_skill, [of_all, *of_runs, *of_families])

    def trust(self, known: float) -> float:
        """How far the trees are heard: not where facts hardly tell what comes next, fully where they decide it.

        Args:
            known: How far the request is like one that memory knows, in [0, 1].
        """
        skill = known * self.known_skill + (1 - known) * self.new_skill
        return min(max((skill - UNSKILLED) / (SKILLED - UNSKILLED), 0.0), 1.0)

    def shares(self, known: Facts, tools: int) -> Float32Array:
        """How likely each of T tools is to be called next, by the mean of the trees: shape (T,)."""
        share_T = np.zeros(tools, dtype=np.float32)
        share_T[self.tool_C] = np.mean([_leaf(tree, known).share_C for tree in self.trees], axis=0)
        return share_T

    def leaf(self, known: Facts) -> int:
        """Where the first tree ends with these facts."""
        return _leaf_place(self.trees[0], known)

    def undecided(self, known: Facts, tools: int) -> Float32Array | None:
        """The shares of the next tools, shape (T,), where the first tree would go on by who the user is, and that is
        unknown; else None."""
        node = _leaf(self.trees[0], known)
        # It stopped at a question: that for the user.
        if node.test is None:
            return None
        share_T = np.zeros(tools, dtype=np.float32)
        share_T[self.tool_C] = node.share_C
        return share_T

    def leaves(self, calls: CallMatrix, rows_N: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where it ends before some calls of whole runs, shape (N,)."""
        tree = self.trees[0]
        asking: list[int] = []
        tests: list[FactTest] = []
        for place, node in enumerate(tree):
            if node.test is not None:
                asking.append(place)
                tests.append(node.test)
        true_NF = answered(calls, rows_N, tests)
        leaf_N = np.zeros(len(rows_N), dtype=np.intp)
        # A node stands behind the one that leads to it, so that one pass takes each call down to its leaf.
        for column, place in enumerate(asking):
            here_N = leaf_N == place
            leaf_N[here_N] = np.where(true_NF[here_N, column], tree[place].yes, tree[place].no)
        return leaf_N

    def path(self, known: Facts, tool: int) -> TreePath:
        """The questions of the first tree on the way to its answer, and what that says of a tool."""
        answers: list[str] = []
        tree = self.trees[0]
        node = tree[0]
        test = _question(node, known)
        while test is not None:
            holds = test.holds(known)
            # "The user is not bob" would give one user's name to another.
            if holds or test.source != USER:
                answers.append(test.sentence(known))
            node = tree[node.after(holds)]
            test = _question(node, known)
        of_tool = float(node.count_C[self.tool_C == tool].sum())
        of_all = float(node.count_C.sum())
        # Several limits of one number may be said in the same words: each sentence stands once.
        return TreePath(tuple(dict.fromkeys(answers)), round(of_tool), round(of_all))

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> PlaceTrees:
        """What `to_json` gave."""
        trees = [list(map(Node.from_json, nodes)) for nodes in kept["trees"]]
        tool_C = np.array(kept["tools"], dtype=np.intp)
        return cls(tool_C, kept["rows"], kept["known_skill"], kept["new_skill"], trees)

    def to_json(self) -> dict[str, Any]:
        """Everything, in values that JSON can hold."""
        return {
            "tools": self.tool_C.tolist(),
            "rows": self.rows,
            "trees": [list(map(Node.to_json, tree)) for tree in self.trees],
            "known_skill": self.known_skill,
            "new_skill": self.new_skill,
        }


def _leaf(tree: Sequence[Node], known: Facts) -> Node:
    return tree[_leaf_place(tree, known)]


def _leaf_place(tree: Sequence[Node], known: Facts) -> int:
    """Where a tree ends with these facts."""
    place = 0
    test = _question(tree[0], known)
    while test is not None:
        place = tree[place].after(test.holds(known))
        test = _question(tree[place], known)
    return place


def _question(node: Node, known: Facts) -> FactTest | None:
    """What a node asks; None at a leaf, and where it asks who the user is while that is unknown."""
    test = node.test
    if test is not None and test.source == USER and USER not in known:
        return None
    return test


def _rows_after(calls: CallMatrix, tool: int) -> NDArray[np.intp]:
    """Calls of successful runs after a tool, one of each turn; of many the latest, and some of those before."""
    rows_N = calls.by_last.get(tool, np.zeros(0, dtype=np.intp))
    rows_N = rows_N[calls.success_R[calls.run_N[rows_N]] & (calls.flags_N[rows_N] & IN_TURN == 0)]
    if len(rows_N) <= MOST_CALLS:
        return rows_N
    earlier, latest = np.split(rows_N, [len(rows_N) - MOST_CALLS // 2])
    return np.concatenate([earlier[spread_over(len(earlier), MOST_CALLS - len(latest))], latest])


def _best_tests(found: TestedCalls, label_NC: Float32Array, fewest: int) -> TestedCalls:
    """The tests that tell the next calls apart best by themselves, in their order."""
    gain_F = _gains(found.true_NF, label_NC, fewest)
    best = np.sort(np.argsort(-gain_F, kind="stable")[:MOST_TESTS])
    return TestedCalls([found.tests[number] for number in best.tolist()], found.true_NF[:, best])


def _grow_from_draws(
    groups_N: Sequence[str], calls: TestedCalls, label_NC: Float32Array
) -> tuple[list[list[Node]], float]:
    """Trees from draws of groups of calls, and their skill on calls of groups that were not drawn; 0 if all were."""
    column = {test: number for number, test in enumerate(calls.tests)}
    class_N = label_NC.argmax(axis=1)
    # Sums over the trees that were grown without the call: of the share of its tool, and of trees.
    given_N = np.zeros(len(groups_N))
    trees_N = np.zeros(len(groups_N))
    trees: list[list[Node]] = []
    for number in range(DRAWN_TREES):
        weight_N = _drawn(groups_N, number)
        drawn = weight_N > 0
        if not drawn.any():
            continue
        tree = _grow(label_NC[drawn] * weight_N[drawn, None], calls.tests, calls.true_NF[drawn])
        for call in np.flatnonzero(~drawn).tolist():
            node = tree[0]
            while node.test is not None:
                node = tree[node.after(calls.true_NF[call, column[node.test]])]
            given_N[call] += node.share_C[class_N[call]]
            trees_N[call] += 1
        trees.append(tree)
    left_out = trees_N > 0
    if not left_out.any():
        return trees, 0.0
    return trees, float((given_N[left_out] / trees_N[left_out]).mean())


def _drawn(groups_N: Sequence[str], number: int) -> Float32Array:
    """How often each call is drawn: by the name of its group, so that the order of arrival does not matter."""
    draws: dict[str, float] = {}
    for group in set(groups_N):
        draws[group] = crc32(f"{number} {group}".encode("utf-8", "replace")) / 2**32  # in [0, 1)
    return np.searchsorted(_DRAWS, [draws[group] for group in groups_N], side="right").astype(np.float32)


def _gains(true_NF: Float32Array, label_NC: Float32Array, fewest: float) -> NDArray[np.float64]:
    """Nats that each test tells about the next tools of all calls together; -1 where too few are on a side."""
    total_C = label_NC.sum(axis=0)
    yes_FC = true_NF.T @ label_NC
    no_FC = total_C - yes_FC
    yes_F = yes_FC.sum(axis=1)
    no_F = no_FC.sum(axis=1)
    within = _information(yes_FC) - _information(yes_F) + _information(no_FC) - _information(no_F)
    before = _information(total_C[None]) - _information(total_C.sum()[None])
    return np.where((yes_F >= fewest) & (no_F >= fewest), within - before, -1.0)


def _information(counts: Float32Array) -> NDArray[np.float64]:
    """Σ n ln n over the last axis, of rows; or of each number."""
    precise = counts.astype(np.float64)
    # 0 ln 0 is 0: the floor only keeps the logarithm finite.
    terms = precise * np.log(np.maximum(precise, 1e-9))
    return np.asarray(terms.sum(axis=-1) if counts.ndim > 1 else terms)


def _grow(label_NC: Float32Array, tests: Sequence[FactTest], true_NF: Float32Array) -> list[Node]:
    """A tree from calls with weights."""
    nodes: list[Node] = []
    total_C = label_NC.sum(axis=0)
    prior_C = (total_C + 0.5) / (total_C.sum() + 0.5 * len(total_C))
    fewest = max(_FEWEST_IN_LEAF, label_NC.sum() / _LEAF_SHARE)
    _add_node(nodes, label_NC, tests, true_NF, prior_C, fewest, DEEPEST)
    return nodes


def _add_node(
    nodes: list[Node],
    label_NC: Float32Array,
    tests: Sequence[FactTest],
    true_NF: Float32Array,
    parent_C: Float32Array,
    fewest: float,
    depth: int,
) -> int:
    """Add the tree of some calls behind the nodes; the place of its first node."""
    total_C = label_NC.sum(axis=0)
    calls = float(total_C.sum())
    share_C = (total_C + _TO_PARENT * parent_C) / (calls + _TO_PARENT)
    place = len(nodes)
    nodes.append(Node(None, -1, -1, total_C, share_C))
    if not depth or not len(tests) or np.count_nonzero(total_C) < 2:
        return place
    gain_F = _gains(true_NF, label_NC, fewest)
    best = int(np.argmax(gain_F.round(6)))  # of equal gains the first test, whatever their last digits
    if gain_F[best] < np.log(len(tests)) + _SPLIT_COST:
        return place
    yes_N = true_NF[:, best] > 0
    yes = _add_node(nodes, label_NC[yes_N], tests, true_NF[yes_N], share_C, fewest, depth - 1)
    no = _add_node(nodes, label_NC[~yes_N], tests, true_NF[~yes_N], share_C, fewest, depth - 1)
    nodes[place] = Node(tests[best], yes, no, total_C, share_C)
    return place

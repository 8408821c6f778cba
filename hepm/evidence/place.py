"""What is known at one place: which decisions of the past were made in a situation like this one.

Two measures of likeness are averaged. *Forest*: the square of the share of trees in which both situations end in the
same leaf. Its trees are grown from draws of families and ask tests drawn at random, so that no single fact decides.
*Tree*: whether both end in the same leaf of one small tree, whose splits must pay for their description, weighed by the
likeness of the requests: so a single fact that decides is found in few runs, and people can read it. Both split by what
was called and by how the run ended. Ours; after random forests (Breiman 2001) as a neighbourhood (Lin and Jeon 2006),
CART (Breiman et al. 1984) and the minimum description length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import sqrt
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hepm.evidence.compared import with_comparisons
from hepm.evidence.decisions import (
    BoolArray,
    CallPlace,
    Decision,
    FactNumbers,
    FloatArray,
    IndexArray,
    IntArray,
    Labels,
)
from hepm.evidence.facts import (
    FactTest,
    KnownFacts,
    Questions,
    TestedRows,
    cost_of_test,
    gains,
    tests_of,
    with_other_results,
)
from hepm.evidence.wording import with_wordings
from hepm.graph.delta import USER_SPOKE
from hepm.graph.rows import Float32Array
from hepm.types import RESULTS_OF, USER, Facts, ToolName

TREES: Final = 32
DEEPEST: Final = 12
"""Questions on the way to a leaf of the forest; of the small tree, `DEEPEST_SMALL`."""
DEEPEST_SMALL: Final = 7
TRIED: Final = 64
"""Tests that a node of the forest chooses from, drawn at random."""
MOST_TESTS: Final = 250
"""Tests of one place: those that tell its decisions apart best by themselves."""
COMPARED: Final = 4
"""Last calls that are compared."""
_FEWEST_IN_LEAF: Final = 2
_FEWEST_IN_SMALL: Final = 3
# How often a family is drawn for a tree, by the cumulative probabilities of a Poisson distribution with mean 1.
_DRAWS: Final = np.array([0.3679, 0.7358, 0.9197, 0.9810])


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of trees; the first ones are the roots.

    Attributes:
        test_M: The test of each node, -1 of a leaf.
        after_M2: The nodes that follow when the test is false, and true.
    """

    test_M: IntArray
    after_M2: IntArray

    @cached_property
    def steps(self) -> tuple[IndexArray, IndexArray]:
        """The test of each node, and where a false and a true answer lead, a leaf to itself; shapes (2M,).

        Nodes go by twice their numbers, so that a step is four calls of numpy.
        """
        stays_M1 = np.arange(len(self.test_M))[:, None]
        next_M2 = np.where(self.test_M[:, None] < 0, stays_M1, self.after_M2)
        return np.repeat(self.test_M.astype(np.intp), 2), 2 * next_M2.ravel()

    def leaves_of_one(self, true_F: BoolArray) -> IntArray:
        """Where each tree of a forest ends with the answers of one situation, shape (T,)."""
        test_2M, next_2M = self.steps
        node_T = np.arange(0, 2 * TREES, 2)
        for _ in range(DEEPEST if len(true_F) else 0):
            node_T = next_2M.take(node_T + true_F.take(test_2M.take(node_T)))
        return (node_T // 2).astype(np.int32)

    def leaves(self, true_NF: BoolArray, trees: int) -> IntArray:
        """Where each tree ends with these answers, shape (N, T)."""
        rows = np.arange(len(true_NF))[:, None]
        node_NT = np.tile(np.arange(trees, dtype=np.int32), (len(true_NF), 1))
        for _ in range(DEEPEST):
            test_NT = self.test_M[node_NT]
            if not (test_NT >= 0).any():
                break
            answer_NT = true_NF[rows, np.maximum(test_NT, 0)].astype(np.intp)
            node_NT = np.where(test_NT >= 0, self.after_M2[node_NT, answer_NT], node_NT)
        return node_NT

    def path(self, true_F: BoolArray) -> tuple[list[int], int]:
        """The tests that the first tree asks with these answers, and where it ends."""
        asked: list[int] = []
        node = 0
        while self.test_M[node] >= 0:
            test = int(self.test_M[node])
            asked.append(test)
            node = int(self.after_M2[node, int(true_F[test])])
        return asked, node


def bounds(worked: float, tried: float, base: float) -> tuple[float, float]:
    """What a call achieves less and plus one standard error, in [0, 1]; one of value `base` is added to the counts."""
    mean = (worked + base) / (tried + 1)
    error = sqrt(mean * (1 - mean) / (tried + 2))
    return max(mean - error, 0.0), min(mean + error, 1.0)


class Counted(NamedTuple):
    """Runs that called a tool in some decisions.

    Attributes:
        tried: How many runs made them, and how many of these succeeded: `won`.
        cleared: The same, and of failed runs the part that other calls explain (see `hepm.evidence.values`).
    """

    tried: int
    won: int
    cleared: float = 0.0

    @property
    def failed(self) -> int:
        """The runs that failed."""
        return self.tried - self.won

    def bounds(self, usual: float) -> tuple[float, float]:
        """What they achieve, less and plus one standard error, if one more is as usual; what is cleared is left out."""
        return bounds(self.won, self.tried - self.cleared + self.won, usual)


@dataclass(frozen=True, eq=False)
class PlaceEvidence:
    """N decisions at one place, with K tools, F tests and T trees. Immutable.

    Attributes:
        seen: How many decisions the memory has here; of many, some are left out.
        questions: The tests.
        forest, small: The trees, and the small one.
        leaf_NT, small_N: Where each decision ends in them.
        unseen_NT: Which trees were grown without the family of the decision.
        called_NK: Which tools it called.
        value_N: What came of it, in [0, 1]; `cleared_N` is how far it is cleared (see `hepm.evidence.values`).
        run_N: Number of its run.
        last_N4: Numbers of the last calls before it, the latest first; -1 before the first.
        asked_N: Whether the user had written since the call before.
        end_leaf_E, end_won_E, end_run_E: Of the E runs that ended here, where each ends in the small tree, whether it
            succeeded, and its number.
    """

    seen: int
    tools: tuple[ToolName, ...]
    questions: Questions
    forest: Nodes
    small: Nodes
    leaf_NT: IntArray
    small_N: IntArray
    unseen_NT: BoolArray
    called_NK: BoolArray
    value_N: Float32Array
    cleared_N: Float32Array
    run_N: IndexArray
    last_N4: IntArray
    asked_N: BoolArray
    end_leaf_E: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    end_won_E: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    end_run_E: IndexArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    def answers(self, facts: Facts) -> BoolArray:
        """Which tests are true of what is known, one row; of an unknown user, one row for each that tests ask for."""
        true_F = self.questions.answers(facts)
        users = self.questions.users
        if not users or USER in facts:
            return true_F[None]
        rows = np.tile(true_F, (len(users) + 1, 1))
        rows[np.arange(len(users)), users] = True
        return rows

    def like(self, true_UF: BoolArray) -> tuple[Float32Array, BoolArray]:
        """How like each decision is with these answers: by the forest, and by the small tree; shapes (N,)."""
        forest_UN = [_same_leaves(self.leaf_NT, self.forest.leaves_of_one(true_F)) for true_F in true_UF]
        small_UN = [self.small_N == self.small.path(true_F)[1] for true_F in true_UF]
        return reduce(np.add, forest_UN) / np.float32(len(true_UF)), reduce(np.logical_or, small_UN)

    def like_unseen(self, row: int) -> tuple[Float32Array, BoolArray]:
        """The same of one of the decisions, by the trees that were grown without its family."""
        trees = np.flatnonzero(self.unseen_NT[row])
        weight_N = np.ones(len(self.run_N), dtype=np.float32)
        if len(trees):
            weight_N = _same_leaves(self.leaf_NT[:, trees], self.leaf_NT[row, trees])
        return weight_N, self.small_N == self.small_N[row]

    def by_tool(self, weight_XN: Float32Array) -> Float32Array:
        """Weights of the decisions in sums by what was called, shape (X, K)."""
        # Not `@`: on busy cores the threads of a BLAS wait for each other.
        return np.add.reduceat(weight_XN[:, self.calls[1]], self._first_K, axis=1)

    def outcomes(self, weight_XN: Float32Array) -> Float32Array:
        """What came of the calls of each tool, weighted: what worked, failed, and is cleared, shape (X, 3, K)."""
        weight_X1C = weight_XN.take(self.calls[1], axis=1)[:, None]
        return np.add.reduceat(weight_X1C * self._outcome_3C, self._first_K, axis=2)

    @cached_property
    def _outcome_3C(self) -> Float32Array:
        return np.array([self.value_N, 1 - self.value_N, self.cleared_N])[:, self.calls[1]]

    def counted(self, among_N: BoolArray) -> dict[ToolName, Counted]:
        """The runs that made some of the decisions, by tool."""
        tool_C, row_C = self.calls
        among_C = among_N[row_C]
        tool_C, row_C = tool_C[among_C], row_C[among_C]
        run_C = self.run_N[row_C]
        # A run may come to one situation more than once; calls are in order of tools, and then of runs.
        first_C = np.empty(len(tool_C), dtype=np.bool_)
        first_C[:1] = True
        first_C[1:] = (tool_C[1:] != tool_C[:-1]) | (run_C[1:] != run_C[:-1])
        tool_U, row_U = tool_C[first_C], row_C[first_C]
        by_tool: dict[ToolName, Counted] = {}
        worth_3U = (np.ones(len(row_U)), self.value_N[row_U] == 1, self.cleared_N[row_U])
        sums_3K = [np.bincount(tool_U, worth_U, len(self.tools)).tolist() for worth_U in worth_3U]
        for tool, tried, won, cleared in zip(self.tools, *sums_3K, strict=True):
            if tried:
                by_tool[tool] = Counted(int(tried), int(won), cleared)
        return by_tool

    @cached_property
    def by_leaf(self) -> Mapping[int, Mapping[ToolName, Counted]]:
        """The same of the decisions in each leaf of the small tree."""
        return {leaf: self.counted(self.small_N == leaf) for leaf in set(self.small_N.tolist())}

    def ended(self, leaf: int | None) -> Counted:
        """The runs that ended in a leaf of the small tree, or anywhere here."""
        won_X = self.end_won_E[self.ended_in(leaf)]
        return Counted(len(won_X), int(np.count_nonzero(won_X)))

    def ended_in(self, leaf: int | None) -> BoolArray:
        """Which of the ends are in a leaf of the small tree; all of them without one."""
        return (self.end_leaf_E == leaf) | (leaf is None)

    def leaf_of(self, decision: Decision, numbers: FactNumbers) -> int:
        """Where a decision ends in the small tree."""
        return self.small.path(self.questions.answers(decision.facts(numbers.names)))[1]

    @cached_property
    def everywhere(self) -> Mapping[ToolName, Counted]:
        """The same of all decisions."""
        return self.counted(np.ones(len(self.run_N), dtype=np.bool_))

    @cached_property
    def usual(self) -> float:
        """What the best call in any leaf of the small tree achieves, by its lower bound.

        Five runs must have made it; if none has so many, the mean of all.
        """
        base = float(self.cleared_N.mean())
        known = (counted for ways in self.by_leaf.values() for counted in ways.values())
        return max((counted.bounds(base)[0] for counted in known if counted.tried >= 5), default=base)

    def prepare(self) -> None:
        """Compute what the first request at this place would wait for."""
        _ = self.forest.steps, self._outcome_3C, self._first_K, self.usual, self.everywhere

    @cached_property
    def calls(self) -> tuple[IndexArray, IndexArray]:
        """The number of the tool and the row of each call, those of one tool together; shapes (C,)."""
        tool_C, row_C = np.nonzero(self.called_NK.T)
        return tool_C, row_C

    @cached_property
    def _first_K(self) -> IndexArray:
        return np.searchsorted(self.calls[0], np.arange(len(self.tools)))

    def with_decision(self, decision: Decision, true_F: BoolArray, run: int, last: Sequence[int]) -> PlaceEvidence:
        """The same with one decision more, in the leaves where it ends; tests and trees stay."""
        tools, value = decision.tools, decision.value
        names = tuple(dict.fromkeys([*self.tools, *tools]))
        called_NK = np.zeros((len(self.run_N), len(names)), dtype=np.bool_)
        called_NK[:, : len(self.tools)] = self.called_NK
        added: list[tuple[NDArray[Any], object]] = [
            (self.leaf_NT, self.forest.leaves_of_one(true_F)),
            (self.small_N, self.small.path(true_F)[1]),
            (self.unseen_NT, [True] * TREES),
            (called_NK, [tool in tools for tool in names]),
            (self.value_N, value),
            (self.cleared_N, value == 1),
            (self.run_N, run),
            (self.last_N4, last),
            (self.asked_N, bool(decision.flags & USER_SPOKE)),
        ]
        arrays = [np.append(before, np.array([row], dtype=before.dtype), axis=0) for before, row in added]
        return PlaceEvidence(
            self.seen + 1,
            names,
            self.questions,
            self.forest,
            self.small,
            *arrays,
            end_leaf_E=self.end_leaf_E,
            end_won_E=self.end_won_E,
            end_run_E=self.end_run_E,
        )

    def with_ends(self, ends: Sequence[Decision], run_E: Sequence[int], numbers: FactNumbers) -> PlaceEvidence:
        """The same with more runs that ended here."""
        if not ends:
            return self
        leaf_E = np.array([self.leaf_of(end, numbers) for end in ends], dtype=np.int32)
        return replace(
            self,
            end_leaf_E=np.append(self.end_leaf_E, leaf_E),
            end_won_E=np.append(self.end_won_E, [end.run.won for end in ends]),
            end_run_E=np.append(self.end_run_E, np.array(run_E, dtype=np.intp)),
        )


Places: TypeAlias = Mapping[CallPlace, PlaceEvidence]
RowsAt: TypeAlias = Mapping[CallPlace, Sequence[Decision]]
"""The decisions that are the rows of each place."""


def _same_leaves(leaf_NT: IntArray, leaf_T: IntArray) -> Float32Array:
    weight_N = (np.add.reduce(leaf_NT == leaf_T, axis=1, dtype=np.uint8) / np.float32(len(leaf_T))) ** 2
    return weight_N / max(float(np.add.reduce(weight_N)), 1e-9)


def grow(
    decisions: Sequence[Decision], numbers: FactNumbers, *, seen: int, run_N: IndexArray, last_N4: IntArray
) -> PlaceEvidence:
    """Learn from decisions at one place; their values are 1 in successful runs, else 0.

    Args:
        run_N, last_N4: As in `PlaceEvidence`.
    """
    tools = sorted({tool for decision in decisions for tool in decision.tools})
    called_NK = np.array([[tool in decision.tools for tool in tools] for decision in decisions])
    won_N = np.array([decision.run.won for decision in decisions])
    families, family_N = np.unique([decision.run.case for decision in decisions], return_inverse=True)
    label_N = 2 * called_NK.argmax(axis=1) + won_N  # by the first of the tools
    instance_N = np.unique([decision.run.instance for decision in decisions], return_inverse=True)[1]
    fewest = max(2, len(decisions) // 150)  # of which a test is true, and false
    last = RESULTS_OF + decisions[0].place.tool

    def is_of_place(test: FactTest) -> bool:
        return test.source == last or not test.source.startswith(RESULTS_OF)

    known = KnownFacts.of(decisions, numbers)
    found = tests_of(known, instance_N, fewest=fewest, keep=is_of_place)
    found = best_tests(found, label_N)
    found = with_comparisons(found, known, label_N, instance_N, fewest=fewest, keep=is_of_place)
    found = with_wordings(found, known, label_N, instance_N)
    # What decides for requests of one kind says little where all kinds meet.
    part_N = grow_small(found.true_NF, label_N).leaves(found.true_NF, 1)[:, 0]
    found = with_comparisons(found, known, label_N, instance_N, fewest=2, keep=is_of_place, part_N=part_N)
    drawn_NT = _drawn(families.tolist())[family_N]
    # A tree of which few are drawn is grown from all.
    drawn_NT[:, drawn_NT.sum(axis=0) < min(6, len(decisions))] = 1
    forest = _grow_forest(found.true_NF, label_N, 2 * len(tools), drawn_NT)
    small = grow_small(found.true_NF, label_N)
    return PlaceEvidence(
        seen,
        tuple(tools),
        with_other_results(found.tests, decisions, numbers),
        forest,
        small,
        np.asfortranarray(forest.leaves(found.true_NF, TREES)),  # counts of equal leaves then go along the rows
        small.leaves(found.true_NF, 1)[:, 0],
        drawn_NT == 0,
        called_NK,
        won_N.astype(np.float32),
        won_N.astype(np.float32),
        run_N,
        last_N4,
        np.array([bool(decision.flags & USER_SPOKE) for decision in decisions]),
    )


def _drawn(families: Sequence[str]) -> NDArray[np.int8]:
    """How often each family is drawn for each tree: by its name, so that the order of arrival does not matter."""
    draws: list[list[float]] = []
    for family in families:
        name = family.encode("utf-8", "replace")
        draws.append([crc32(name, tree + 1) / 2**32 for tree in range(TREES)])
    return np.searchsorted(_DRAWS, np.array(draws).reshape(-1, TREES), side="right").astype(np.int8)


def best_tests(found: TestedRows, label_N: Labels) -> TestedRows:
    """The `MOST_TESTS` that tell most about the labels by themselves."""
    if len(found.tests) <= MOST_TESTS:
        return found
    best = np.sort(np.argsort(-gains(found.true_NF, label_N), kind="stable")[:MOST_TESTS])
    chosen: list[int] = best.tolist()
    return TestedRows(tuple(found.tests[test] for test in chosen), np.ascontiguousarray(found.true_NF[:, best]))


def grow_small(true_NF: BoolArray, label_N: Labels, *, deepest: int = DEEPEST_SMALL) -> Nodes:
    """One tree by information gain, each of whose splits pays for its description.

    Args:
        label_N: Of each row, even if its run was lost, and odd if it was won.
    """
    test_M: list[int] = []
    after_M2: list[tuple[int, int]] = []

    def add(rows: IndexArray, depth: int) -> int:
        """Add the tree of some rows; the place of its first node."""
        node = len(test_M)
        test_M.append(-1)
        after_M2.append((-1, -1))
        if not depth:
            return node
        test = _paying_test(true_NF[rows], label_N[rows])
        if test >= 0:
            test_M[node] = test
            yes_N = true_NF[rows, test]
            after_M2[node] = add(rows[~yes_N], depth - 1), add(rows[yes_N], depth - 1)
        return node

    add(np.arange(len(true_NF)), deepest)
    return Nodes(np.array(test_M, dtype=np.int32), np.array(after_M2, dtype=np.int32))


def _paying_test(true_NF: BoolArray, label_N: Labels) -> int:
    """The test with the highest gain if that pays for a split, else -1; of equal gains the first, to six digits."""
    tests = true_NF.shape[1]
    labels, label_N, count_C = np.unique(label_N, return_inverse=True, return_counts=True)
    if not tests or len(labels) < 2:
        return -1
    # Labels of one or two rows count as one of their kind: they end in lost, or in won.
    merged_C = np.where(count_C < 3, -1 - labels % 2, labels)
    merged_N = merged_C[label_N]
    yes_F = true_NF.sum(axis=0)
    gain_F = gains(true_NF, merged_N)
    gain_F[(yes_F < _FEWEST_IN_SMALL) | (len(true_NF) - yes_F < _FEWEST_IN_SMALL)] = -1
    best = int(np.argmax(gain_F.round(6)))
    if gain_F[best] < cost_of_test(tests, len(np.unique(merged_N))):
        return -1
    return best


def _grow_forest(true_NF: BoolArray, label_N: Labels, labels: int, drawn_NT: NDArray[np.int8]) -> Nodes:
    """All trees, level by level; splits by Gini's index."""
    tests = true_NF.shape[1]
    random = np.random.default_rng(0)
    node_R, row_R = np.nonzero(drawn_NT.T)
    weight_R = drawn_NT.T[node_R, row_R].astype(np.float64)
    most = TREES + 2 * len(row_R)  # a split leaves decisions on both sides
    test_M = np.full(most, -1, dtype=np.int32)
    after_M2 = np.full((most, 2), -1, dtype=np.int32)
    count = TREES
    for _ in range(min(DEEPEST, tests)):  # no path asks a test twice
        open_J, here_R = np.unique(node_R, return_inverse=True)
        total_JC = np.bincount(here_R * labels + label_N[row_R], weight_R, len(open_J) * labels).reshape(-1, labels)
        mixed_J = ((total_JC > 0).sum(axis=1) > 1) & (total_JC.sum(axis=1) >= 2 * _FEWEST_IN_LEAF)
        kept_R = mixed_J[here_R]
        if not kept_R.any():
            break
        node_R, row_R, weight_R = node_R[kept_R], row_R[kept_R], weight_R[kept_R]
        open_J, here_R = np.unique(node_R, return_inverse=True)
        tried_JS = random.integers(0, tests, (len(open_J), min(TRIED, tests)))
        best_J = _best_splits(true_NF, label_N, tried_JS, here_R, row_R, weight_R, total_JC[mixed_J])
        split_J = best_J >= 0
        after_J = count + 2 * np.cumsum(split_J) - 2
        test_M[open_J] = best_J
        after_M2[open_J[split_J]] = after_J[split_J, None] + [0, 1]
        count += 2 * int(np.count_nonzero(split_J))
        kept_R = split_J[here_R]
        row_R, weight_R, here_R = row_R[kept_R], weight_R[kept_R], here_R[kept_R]
        node_R = after_J[here_R] + true_NF[row_R, best_J[here_R]]
    return Nodes(test_M[:count].copy(), after_M2[:count].copy())


def _best_splits(
    true_NF: BoolArray,
    label_N: Labels,
    tried_JS: IndexArray,
    here_R: IndexArray,
    row_R: IndexArray,
    weight_R: FloatArray,
    total_JC: NDArray[Any],
) -> IntArray:
    """The best of the tests tried at each of J nodes; -1 where none makes its labels purer.

    Args:
        here_R, row_R, weight_R: Node, decision and weight of each decision that was drawn for a tree.
        total_JC: Weights of the labels at each node.
    """
    best_J = np.full(len(tried_JS), -1, dtype=np.int32)
    tried, labels = tried_JS.shape[1], total_JC.shape[1]
    at_once = max(4_000_000 // (tried * labels), 1)  # so many counts are held at once
    for start in range(0, len(tried_JS), at_once):
        tried_PS, total_PC = tried_JS[start : start + at_once], total_JC[start : start + at_once]
        part = np.flatnonzero((here_R >= start) & (here_R < start + at_once))
        here, rows = here_R[part] - start, row_R[part]
        drawn, test = np.nonzero(true_NF[rows[:, None], tried_PS[here]])
        count = (here[drawn] * tried + test) * labels + label_N[rows[drawn]]
        yes_PSC = np.bincount(count, weight_R[part][drawn], tried_PS.size * labels).reshape(
            len(tried_PS), tried, labels
        )
        no_PSC = total_PC[:, None] - yes_PSC
        yes_PS, no_PS = yes_PSC.sum(axis=2), no_PSC.sum(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            pure_PS = (yes_PSC**2).sum(axis=2) / yes_PS + (no_PSC**2).sum(axis=2) / no_PS
        pure_PS[(yes_PS < _FEWEST_IN_LEAF) | (no_PS < _FEWEST_IN_LEAF)] = -1
        best_P = pure_PS.argmax(axis=1)
        places = np.arange(len(tried_PS))
        purer_P = pure_PS[places, best_P] > (total_PC**2).sum(axis=1) / total_PC.sum(axis=1) + 1e-9
        best_J[start : start + at_once] = np.where(purer_P, tried_PS[places, best_P], -1)
    return best_J

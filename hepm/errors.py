"""Every error that hepm raises on purpose, each after the one it derives from."""


class HepmError(Exception):
    """Base of all. The message is one sentence: what happened, where, and what to do."""


class InputError(HepmError, ValueError):
    """An invalid file, record or argument."""


class NotFoundError(InputError):
    """No run, lesson, user or tool has that name."""


class ConflictError(InputError):
    """The store holds something else under that name by now."""


class FormatError(InputError):
    """No reader knows the file, or it is not what its reader needs."""


class ImplausibleVectorError(InputError):
    """An embedding with NaN, zero length or the wrong size."""


class QueryError(InputError):
    """A Cypher query that is not allowed or fails."""


class StoreError(HepmError, OSError):
    """The store cannot be read or written."""


class StoreVersionError(StoreError):
    """The store was written by a newer hepm, or its server is too old."""


class StoreDamagedError(StoreError):
    """The file is not a store, or it is corrupt."""


class StoreUnavailableError(StoreError, ConnectionError):
    """No server answers at that address."""


class StoreAccessError(StoreError, PermissionError):
    """The server rejects this user."""


class LocalServerError(StoreError):
    """The local Neo4j cannot be fetched, started or stopped."""


class LlmError(HepmError):
    """A language model could not be reached, or its answer is unusable."""


class EndpointError(LlmError, ConnectionError):
    """The endpoint of a model gave no answer."""


class EndpointRefusedError(EndpointError):
    """The endpoint will give no answer: wrong key, unknown model, no money left, no connection."""


class AnswerError(LlmError, ValueError):
    """An answer that was refused, cut off, or has the wrong form."""


class BudgetSpentError(LlmError):
    """The next request might exceed the budget."""


class EmbedderMismatchError(HepmError, ValueError):
    """The store holds the vectors of another embedder."""


class MissingExtraError(HepmError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""


class EpisodeError(HepmError):
    """The environment of a benchmark failed, not the agent: the run has no reward."""

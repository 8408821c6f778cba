"""Every error that hepm raises on purpose.

HepmError
├── InputError (ValueError)          a file, record or argument that cannot be used as it is
│   ├── FormatError                  no reader knows the file, or the file is not what its reader needs
│   ├── ImplausibleVectorError       an embedding with NaN, zero length or the wrong size
│   └── QueryError                   a Cypher query that may not be run, or cannot be
├── StoreError (OSError)             the store cannot be read or written
│   ├── StoreVersionError            written by a newer hepm, or a server that is too old
│   ├── StoreDamagedError            the file is no store, or its content is torn
│   ├── StoreUnavailableError (ConnectionError)   no server answers there, or no longer
│   ├── StoreAccessError (PermissionError)        the server does not let this user in
│   └── LocalServerError             the local Neo4j cannot be fetched, started or stopped
├── LlmError                         a language model could not be asked, or gave nothing that can be used
│   ├── EndpointError (ConnectionError)   its endpoint gave no answer to a question
│   │   └── EndpointRefusedError     and would give none to any other: wrong key, unknown model, no money left
│   ├── AnswerError (ValueError)     an answer that was refused, cut off, or is not what was asked for
│   └── BudgetSpentError             the next request might cost more than is left
├── EmbedderMismatchError (ValueError)   the store holds another embedder's vectors
└── MissingExtraError (ImportError)  an optional dependency is not installed
"""


class HepmError(Exception):
    """Base of all; its text is one sentence that says what, where and what to do."""


class InputError(HepmError, ValueError):
    """Something given to hepm cannot be used as it is."""


class FormatError(InputError):
    """No reader knows the file, or it is not what its reader needs."""


class ImplausibleVectorError(InputError):
    """An embedding with NaN, zero length or the wrong size."""


class QueryError(InputError):
    """A Cypher query that may not be run, or cannot be."""


class StoreError(HepmError, OSError):
    """The store cannot be read or written."""


class StoreVersionError(StoreError):
    """The store was written by a newer hepm, or its server is too old."""


class StoreDamagedError(StoreError):
    """The file is no store, or its content is torn."""


class StoreUnavailableError(StoreError, ConnectionError):
    """No server answers, or no longer."""


class StoreAccessError(StoreError, PermissionError):
    """The server does not let this user in."""


class LocalServerError(StoreError):
    """The local Neo4j cannot be fetched, started or stopped."""


class LlmError(HepmError):
    """A language model could not be asked, or gave nothing that can be used."""


class EndpointError(LlmError, ConnectionError):
    """The endpoint of a model gave no answer to a question."""


class EndpointRefusedError(EndpointError):
    """It would give none to any other question either: wrong key, unknown model, no money left, nobody there."""


class AnswerError(LlmError, ValueError):
    """An answer that was refused, cut off, or is not what was asked for."""


class BudgetSpentError(LlmError):
    """The next request might cost more than the budget has left."""


class EmbedderMismatchError(HepmError, ValueError):
    """The store holds the vectors of another embedder."""


class MissingExtraError(HepmError, ImportError):
    """An optional dependency is not installed; the text names the extra that brings it."""

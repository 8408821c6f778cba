"""The routes of `hepm serve` for JSON, each with what it takes and gives: the source of the OpenAPI document.

A door's types are those of the function that does its work, so that the document cannot say anything else. Routes
whose form is another's (OpenAI, MCP, Claude Code, OpenTelemetry) are described in `openapi.json`, with the rest of the
document that no type describes.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass
from functools import partial
from importlib.resources import files
from inspect import getdoc
from typing import Any, Final, Literal, TypeAlias, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import hepm
from hepm.agents.guard import OPEN, access_of
from hepm.agents.wire import read_object
from hepm.errors import InputError
from hepm.graph.mirror.mirror import SwitchingOften
from hepm.text import what_is_wrong
from hepm.types import Object, Objects

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_JSON: Final = "application/json"
HEADERS: Final = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
"""Of what the page is made of."""
_SCHEMAS: Final = "#/components/schemas/"


@dataclass(eq=False)
class Door:
    """One method of a path.

    Attributes:
        work: Takes the request, and the query or the body if it has a second parameter; on a thread. Its docstring
            begins with what the document says of the door.
        writes: Whether only a token that may write comes in, and no page of another site.
        refuses: Statuses of its own, beside those that every door has.
        page: The thread of the page, for its own doors: no number of open pages takes the threads that answer agents.
    """

    method: str
    path: str
    work: Callable[..., Any]
    _: KW_ONLY
    writes: bool = False
    refuses: tuple[int, ...] = ()
    page: Executor | None = None

    def __post_init__(self) -> None:
        types = get_type_hints(self.work, include_extras=True)
        self.about = (getdoc(self.work) or "").partition("\n")[0]
        self.gives = TypeAdapter(types.pop("return"))
        self.takes: TypeAdapter[Any] | None = TypeAdapter(types.popitem()[1]) if len(types) > 1 else None

    async def answer(self, request: Request) -> Response:
        """The response to a request."""
        if self.writes:
            _check_may_write(request)
        arguments = [] if self.takes is None else [await _read(request, self.takes)]
        # With the name of the request's token, as `asyncio.to_thread` does it.
        make = partial(copy_context().run, self._text, request, *arguments)
        text = await asyncio.get_running_loop().run_in_executor(self.page, make)
        return Response(text, media_type=_JSON, headers=HEADERS if self.page else None)

    def _text(self, *arguments: Any) -> str:
        """The answer's text: in ASCII, as texts may contain lone surrogates."""
        # Work for the page may be long.
        with SwitchingOften() if self.page else nullcontext():
            return json.dumps(self.work(*arguments), separators=(",", ":"), default=to_jsonable_python)


def _check_may_write(request: Request) -> None:
    origin = request.headers.get("origin")
    if not access_of(request).write:
        raise HTTPException(403, "this token may not write")
    if origin is not None and origin.rpartition("://")[2] != request.headers.get("host"):
        raise HTTPException(403, "pages of other sites may change nothing here")


async def _read(request: Request, adapter: TypeAdapter[Any]) -> Any:
    """The query of a GET, else the body, as its type; InputError says what is wrong with it."""
    try:
        if request.method in ("GET", "HEAD"):
            return adapter.validate_strings(dict(request.query_params), strict=True)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
            raise HTTPException(415, f"send JSON, with Content-Type: {_JSON}")
        return adapter.validate_python(read_object(await request.body()), strict=True)
    except ValidationError as error:
        raise InputError(what_is_wrong(error, 3).lower()) from error


def routes_of(doors: Iterable[Door]) -> list[Route]:
    """One route for each path, so that an answer to another method names all that it has (Allow)."""
    by_path: defaultdict[str, dict[str, Endpoint]] = defaultdict(dict)
    for one in doors:
        by_path[one.path][one.method] = one.answer
    return [Route(path, partial(_answer, answers), methods=list(answers)) for path, answers in by_path.items()]


async def _answer(answers: Mapping[str, Endpoint], request: Request) -> Response:
    return await (answers.get(request.method) or answers["GET"])(request)  # HEAD is a GET


def document_of(doors: Sequence[Door]) -> Object:
    """The OpenAPI document, with some doors."""
    document: Object = json.loads(files("hepm.web").joinpath("openapi.json").read_bytes())
    document["info"]["version"] = hepm.__version__
    typed: list[tuple[Door, Literal["validation", "serialization"], TypeAdapter[Any]]] = []
    for one in doors:
        typed.append((one, "serialization", one.gives))
        if one.takes is not None:
            typed.append((one, "validation", one.takes))
    by_door, named = TypeAdapter.json_schemas(typed, ref_template=f"{_SCHEMAS}{{model}}")
    schemas: Object = document["components"]["schemas"]
    schemas |= named["$defs"]
    for one in doors:
        described = _operation(one, by_door.get((one, "validation")), by_door[one, "serialization"], schemas)
        document["paths"].setdefault(one.path, {})[one.method.lower()] = described
    return document


def _operation(one: Door, takes: Object | None, gives: Object, schemas: Object) -> Object:
    """A door in the document, by the schemas of its query or body and of its answer."""
    statuses = {405, *one.refuses}
    parameters: Objects = []
    operation: Object = {"summary": one.about, "parameters": parameters}
    if one.path in OPEN:
        operation["security"] = []
    else:
        statuses |= {401, 403, 429}
        parameters.append({"$ref": "#/components/parameters/Namespace"})
    if takes is not None and one.method == "GET":
        statuses.add(400)
        query = schemas.pop(takes["$ref"].removeprefix(_SCHEMAS))
        for name, schema in query["properties"].items():
            required = name in query.get("required", ())
            parameters.append({"name": name, "in": "query", "required": required, "schema": schema})
    elif takes is not None:
        statuses |= {400, 413, 415}
        operation["requestBody"] = {"required": True, "content": {_JSON: {"schema": takes}}}
    given = {"description": "The answer", "content": {_JSON: {"schema": gives}}}
    refusals = {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}
    operation["responses"] = {"200": given, **refusals}
    return operation

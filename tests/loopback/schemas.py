"""JSON schemas as strict output takes them, and something that follows one."""

from __future__ import annotations

from typing import Any


def complaint_of(schema: Any, path: str = "") -> str:
    """What strict output would refuse about a schema, "" where nothing."""
    if not isinstance(schema, dict):
        return f"In context=({path}), a schema must be an object."
    if "$ref" in schema and len(schema.keys() - {"$ref", "$defs"}):
        return f"In context=({path}), $ref cannot have keywords {sorted(schema.keys() - {'$ref'})}."
    for keyword in ("default", "oneOf", "allOf", "prefixItems", "patternProperties"):
        if keyword in schema:
            return f"In context=({path}), '{keyword}' is not permitted."
    properties = schema.get("properties", {})
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return f"In context=({path}), 'additionalProperties' is required to be supplied and to be false."
        if set(schema.get("required", [])) != set(properties):
            return f"In context=({path}), 'required' is required to be supplied and to include every key in properties."
    parts = [*properties.items(), *schema.get("$defs", {}).items()]
    parts += [("items", schema["items"])] if "items" in schema else []
    parts += [("anyOf", part) for part in schema.get("anyOf", [])]
    return next((found for name, part in parts if (found := complaint_of(part, f"{path}/{name}"))), "")


def example(schema: dict[str, Any], root: dict[str, Any] | None = None) -> Any:
    """The plainest value that follows a schema."""
    root = schema if root is None else root
    if "$ref" in schema:
        return example(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema or "const" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    if "anyOf" in schema:
        kinds = sorted(schema["anyOf"], key=lambda part: part.get("type") != "null")
        return example(kinds[0], root)
    if schema.get("type") == "object":
        return {name: example(part, root) for name, part in schema.get("properties", {}).items()}
    plain: dict[str, Any] = {"string": "text", "integer": 1, "number": 0.5, "boolean": True, "array": []}
    return plain.get(schema.get("type", ""))

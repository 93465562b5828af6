"""The tools that an adapter grants: those of its framework, beside functions and tools of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .._options import check_tools
from .._tools import Provider, Tool, Tools
from ..errors import InvalidInput

Granted = Mapping[str, Provider | Iterable[Any]]


def granted(tools: Granted, kind: type, read: Callable[[Any], Tool]) -> Tools:
    """The tools of providers, of which `read` reads those of `kind`."""
    check_tools(tools)

    def of(provider: Provider | Iterable[Any]) -> Provider | Iterable[Any]:
        if isinstance(provider, (Provider, str, Mapping)) or not isinstance(provider, Iterable):
            return provider  # which is no list of tools is refused where it is granted
        return [read(each) if isinstance(each, kind) else each for each in provider]

    return {name: of(provider) for name, provider in tools.items()}


def code_of(name: str, input: Any) -> str:
    """The code in what a model has passed to the tool of this name. Fails with `InvalidInput`, whose message is for the model."""
    code = input.get("code") if isinstance(input, dict) else None
    if not isinstance(code, str):
        raise InvalidInput(f'invalid input for {name}: expected {{"code": "…"}}')
    return code

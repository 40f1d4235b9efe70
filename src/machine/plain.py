"""Plain: the values of a YAML file that anyone may have written: no code, no aliases, no entry twice, not any size."""

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from machine.errors import Refused
from machine.trace import well_formed

LARGEST = 1 << 20
"""Bytes that a file may have: YAML is slow to read, and what people write by hand is far smaller."""
_FAULTS = (yaml.YAMLError, RecursionError, ValueError, KeyError, IndexError, AttributeError, TypeError)
"""What the safe loader raises: the last ones on a tag that its value does not fit, such as `!!bool x`."""


def values(path: Path, data: bytes, next_step: str) -> Any:
    """The values of `data`, which is what the file `path` holds: texts, numbers, dates, lists and mappings.

    Raises:
        Refused: it is too large, or is not YAML as it is read here (the message says where).
    """
    if len(data) > LARGEST:
        raise Refused(f"{path} has {len(data):,} bytes, and {LARGEST:,} are enough", next_step=next_step)
    try:
        return yaml.load(data, Loader=_Loader)
    except _FAULTS as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise Refused(f"{path} is not YAML: {why}", next_step=next_step) from error


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, for which a repeated entry, an alias, and what is no text are faults."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not read", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node."""
        found = super().construct_mapping(node, deep)
        names = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := next((name for name, count in names.items() if count > 1), None):
            raise yaml.MarkedYAMLError(problem=f"{twice!r} is there twice", problem_mark=node.start_mark)
        return found

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """The text of a node."""
        text = super().construct_scalar(node)
        if isinstance(text, str) and not text.isascii() and well_formed(text) != text:
            raise yaml.MarkedYAMLError(problem="half a surrogate pair is no text", problem_mark=node.start_mark)
        if isinstance(text, str) and "\0" in text:
            raise yaml.MarkedYAMLError(problem="a null character is no text", problem_mark=node.start_mark)
        return text

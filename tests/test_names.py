"""One name, one meaning: across the package, and between `docs/paper_map.md` and the code."""

import ast
import builtins
import importlib
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path

import pytest

import lstoc_core
from lstoc_core.drawing.gallery import read_paper_map

PACKAGE = Path(lstoc_core.__file__).parent
SOURCES = {
    ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts): file.read_text(encoding="utf-8")
    for file in sorted(PACKAGE.rglob("*.py"))
}
CAMEL_CASE = re.compile(r"[A-Z]\w*[a-z]\w*")


def defined_types(source: str) -> Iterator[tuple[str, str]]:
    """(name, definition) of the public classes and type aliases at the top of a module."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, "class"
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = ast.unparse(node.value) if isinstance(node, ast.Assign | ast.AnnAssign) and node.value else ""
        for target in targets:
            if isinstance(target, ast.Name) and CAMEL_CASE.fullmatch(target.id) and not value.startswith("TypeVar("):
                yield target.id, value


def imported_types(source: str) -> Iterator[str]:
    """Names in CamelCase that a module imports from outside the package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("lstoc_core"):
            yield from (name for alias in node.names if CAMEL_CASE.fullmatch(name := alias.asname or alias.name))


def collisions(sources: Mapping[str, str]) -> list[str]:
    """Names that two modules define, or that one defines and another imports from outside."""
    places: dict[str, list[str]] = {}
    for module, source in sources.items():
        for name, definition in defined_types(source):
            places.setdefault(name, []).append(f"{module} ({definition})")
    foreign = {name for source in sources.values() for name in imported_types(source)} | set(dir(builtins))
    twice = [f"{name}: {', '.join(where)}" for name, where in places.items() if len(where) > 1]
    return twice + [f"{name}: {where[0]}, and a name from outside" for name, where in places.items() if name in foreign]


def test_no_name_means_two_things() -> None:
    assert not collisions(SOURCES)


@pytest.mark.parametrize(
    "other",
    [
        "class Step: ...",
        "Step = tuple[str, int]",
        "Step: TypeAlias = int",
        "from somewhere import Step",
        "from somewhere import Walk as Step",
    ],
)
def test_a_second_meaning_is_noticed(other: str) -> None:
    assert collisions({"one": "class Step: ...", "two": other})


@pytest.mark.parametrize(
    "other",
    [
        "from lstoc_core.one import Step",
        "class _Step: ...",
        "def f():\n    Step = 1",
        'Step = TypeVar("Step")',
    ],
)
def test_a_re_export_is_no_second_meaning(other: str) -> None:
    assert not collisions({"one": "class Step: ...", "two": other})


# --- docs/paper_map.md ------------------------------------------------------------------------------------------------


def find(name: str) -> object:
    """The object that a dotted name under `lstoc_core` leads to: modules first, then attributes."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(["lstoc_core", *parts[:count]])
        if module in SOURCES or f"{module}.__init__" in SOURCES:
            return reduce(getattr, parts[count:], importlib.import_module(module))
    raise ImportError(f"{name} leads to no module of lstoc_core")


FUNCTIONS = sorted({name for item in read_paper_map() for name in re.findall(r"`([^`]+)`", item.function)})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_paper_map_names_functions_that_exist(name: str) -> None:
    assert callable(find(name))


@pytest.mark.parametrize(("name", "error"), [("loop.rediscover", AttributeError), ("lstoc.discover", ImportError)])
def test_a_function_that_does_not_exist_is_noticed(name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        find(name)


def test_every_item_of_the_paper_map_names_a_function() -> None:
    assert not [item.name for item in read_paper_map() if "`" not in item.function]

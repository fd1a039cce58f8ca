"""Sphinx configuration. The pages come from `sources.py`; formulas become MathML, so that no script is loaded."""

import html
import inspect
import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml

import lstoc_core

project, author, release = "LSTOC", "the LSTOC authors", lstoc_core.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["figures"]
suppress_warnings = ["myst.xref_missing", "myst.header", "mystnb.unknown_mime_type"]

nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # widgets need a kernel; what needs none is plain HTML
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "image/gif", 25)]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
myst_fence_as_directive: list[str] = []

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 80

html_theme = "furo"
html_title = "LSTOC"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["extra"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {"navigation_with_keys": True}


def mathml(self, node, block):
    """Write a formula as MathML; where LaTeX is not understood, as its source."""
    try:
        source = node.astext().replace(r"\dots", r"\ldots")
        text = re.sub(r">\s+<", "><", tex2mathml(source, as_block=block)).strip()
    except (MathError, SyntaxError, KeyError):
        text = f"<code>{html.escape(node.astext())}</code>"
    self.body.append(f'<div class="formula">{text}</div>' if block else text)
    raise nodes.SkipNode


def escape_stars(app, what, name, thing, options, lines):
    """Stars that stand for themselves, as in condition (*), are no emphasis."""
    for place, line in enumerate(lines):
        line = re.sub(r"\(\*+\)", lambda match: match[0].replace("*", r"\*"), line)
        lines[place] = re.sub(r"(?<!\\)\*", r"\*", line) if len(re.findall(r"(?<!\\)\*", line)) % 2 else line


def list_parameters(app, what, name, thing, options, lines):
    """Turn docstring lines like "seed: of everything random." into items of a list."""
    try:
        known = set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return
    inside, told = False, []
    for line in lines:
        match = re.match(r"(\w+): ", line)
        if match and match[1] in known:
            told += [*([""] if told and told[-1] and not inside else []), f"* **{match[1]}**: {line[match.end() :]}"]
            inside = True
        elif inside and line:
            told.append(f"  {line.strip()}")
        else:
            inside = False
            told.append(line)
    lines[:] = told


def setup(app):
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(lambda self, node: mathml(self, node, block=False), None),
        block_renderers=(lambda self, node: mathml(self, node, block=True), None),
    )
    app.connect("autodoc-process-docstring", escape_stars)
    app.connect("autodoc-process-docstring", list_parameters)

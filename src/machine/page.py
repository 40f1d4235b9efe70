"""Page: self-contained HTML from the templates of this package.

A page is one file: its style and its drawings are in it, it runs no script and asks nobody for anything. Its
Content-Security-Policy forbids the rest, so that a text of a model that did break out of its quotes would still load
nothing and run nothing. Every value that a template writes is made printable (see `report.printable`) and escaped.
"""

import base64
import functools
import hashlib
import importlib.resources
from typing import TYPE_CHECKING, Any

from machine.errors import MissingDependency
from machine.report import printable

if TYPE_CHECKING:
    from jinja2 import Environment

_STYLE = "page.css"


def page(template: str, **values: Any) -> str:
    """The HTML that `templates/<template>` makes of `values`.

    Raises:
        MissingDependency: jinja2 is not installed.
    """
    environment = _environment()
    return environment.get_template(template).render(values)


@functools.cache
def _environment() -> "Environment":
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError as error:
        raise MissingDependency("jinja2 is not installed", next_step="run `machine setup`") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("machine", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = importlib.resources.files("machine.templates").joinpath(_STYLE).read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment.globals["style"] = Markup(style)
    environment.globals["policy"] = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    environment.filters["count"] = count
    return environment


def count(number: int) -> str:
    """A number with thin spaces between its thousands: `12 345`."""
    return f"{number:,}".replace(",", "\u202f")


def _printable(value: Any) -> Any:
    """What a template writes; text that was made by a template itself stays as it is."""
    return printable(value) if type(value) is str else value

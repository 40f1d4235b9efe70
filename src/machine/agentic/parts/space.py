"""Modules that reckon with places: ways between them, a field of cells."""

from machine.agentic.piece import Plan

ROUTES = Plan(
    modules=("routes", "ways", "roads"),
    words={"beside": ("beside", "next_to", "linked"), "legs": ("legs", "way_length", "hops")},
    numbers={"far": (2, 5)},
    source='''
"""Ways between «things»: roads are pairs of names, open both ways."""

FARTHEST = «far»


def «beside»(roads, name):
    """The names that one road leads to, in order."""
    return sorted({b if a == name else a for a, b in roads if name in (a, b)})


def «legs»(roads, start, goal):
    """The number of roads of the shortest way; None where it has more than FARTHEST."""
    seen = edge = {start}
    for count in range(FARTHEST + 1):
        if goal in edge:
            return count
        edge = {found for name in edge for found in «beside»(roads, name)} - seen
        seen = seen | edge
    return None
''',
    calls=(
        "«beside»(«[(items[0], items[1]), (items[2], items[0]), (items[1], items[2]), (items[3], items[1])]», "
        "«name(0)»)",
        "«beside»(«[(items[4], items[5])]», «name(6)»)",
        "«legs»(«[(items[at], items[at + 1]) for at in range(far + 1)]», «name(0)», «repr(items[far])»)",
        "«legs»(«[(items[at + 1], items[at]) for at in range(far + 1)]», «name(0)», «repr(items[far + 1])»)",
        "«legs»(«[(items[3], items[4]), (items[5], items[4]), (items[3], items[6])]», «name(3)», «name(5)»)",
    ),
    hidden=(
        "«beside»(«[(items[7], items[8]), (items[9], items[7])]», «name(8)»)",
        "«legs»([], «name(1)», «name(1)»)",
        "«legs»(«[(items[1], items[2])]», «name(2)», «name(1)»)",
        "«legs»(«[(items[at], items[(at + 1) % 6]) for at in range(6)]», «name(0)», «name(4)»)",
        "«legs»(«[(items[1], items[2])]», «name(3)», «name(1)»)",
    ),
    slips=(
        ("edit", "range(FARTHEST + 1)", "range(FARTHEST)"),
        ("edit", "b if a == name else a for", "a if a == name else b for"),
        ("edit", "name in (a, b)", "name == a"),
        ("edit", "if goal in edge", "if goal not in edge"),
        ("constant", "FARTHEST = «far»", "FARTHEST = «far + draw(1, 4)»"),
        ("constant", "FARTHEST = «far»", "FARTHEST = «far - 1»"),
        ("constant", "return count", "return count + «draw(1, 3)»"),
        ("constant", "return None", "return 0"),
    ),
    says="`«beside»(roads, name)`: what one road leads to, in order. `«legs»(roads, start, goal)`: the roads "
    "of the shortest "
    "way, at most «far»; else None.",
)

FIELD = Plan(
    modules=("field", "grid", "plot"),
    words={
        "around": ("around", "neighbours", "near_cells"),
        "number": ("number", "cell_number", "index_of"),
        "spot": ("spot", "position", "cell_at"),
        "rim": ("rim", "rim_cells", "edge_size"),
    },
    numbers={"wide": (4, 12), "high": (13, 20)},
    source='''
"""A field of «things» in rows: cells are (x, y), both from 0."""

WIDE = «wide»
HIGH = «high»


def «around»(x, y):
    """The cells beside a cell that lie in the field: left, right, above, below."""
    beside = [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]
    return [(a, b) for a, b in beside if 0 <= a < WIDE and 0 <= b < HIGH]


def «number»(x, y):
    """The number of a cell, row by row from 0."""
    return y * WIDE + x


def «spot»(number):
    """The cell of a number."""
    y, x = divmod(number, WIDE)
    return (x, y)


def «rim»():
    """How many cells lie at the rim."""
    return 2 * (WIDE + HIGH) - 4
''',
    calls=(
        "«around»(0, 0)",
        "«around»(«wide - 1», «high - 1»)",
        "«around»(«draw(1, wide - 2)», «draw(1, high - 2)»)",
        "«number»(«draw(1, 3)», «draw(4, 9)»)",
        "«spot»(«wide * draw(2, 7) + 1»)",
        "«rim»()",
    ),
    hidden=(
        "«around»(«wide - 1», 0)",
        "«around»(0, «high - 1»)",
        "«number»(0, 0)",
        "«number»(«wide - 1», «high - 1»)",
        "«spot»(«wide - 1»)",
        "«spot»(«wide * draw(3, 9)»)",
    ),
    slips=(
        ("edit", "0 <= a < WIDE", "0 < a < WIDE"),
        ("edit", "b < HIGH", "b <= HIGH"),
        ("edit", "(x + 1, y)", "(x + 2, y)"),
        ("edit", "y * WIDE + x", "x * WIDE + y"),
        ("edit", "divmod(number, WIDE)", "divmod(number, HIGH)"),
        ("edit", "y, x = divmod", "x, y = divmod"),
        ("constant", "WIDE = «wide»", "WIDE = «wide + draw(1, 5)»"),
        ("constant", "HIGH = «high»", "HIGH = «high - draw(1, 3)»"),
        ("constant", "(WIDE + HIGH) - 4", "(WIDE + HIGH)"),
        ("constant", "return (x, y)", "return (y, x)"),
    ),
    says="The field is «wide» wide and «high» high, cells are (x, y) from 0. `«around»(x, y)`: left, right, "
    "above, below. "
    "`«number»(x, y)`: row by row from 0. `«spot»(number)`: the cell of a number. `«rim»()`: cells at the rim.",
)

PLANS = (ROUTES, FIELD)

"""Modules that put things in order: pages, ranks."""

from machine.agentic.piece import Plan

PAGES = Plan(
    modules=("pages", "paging", "sheets"),
    words={
        "needed": ("needed", "page_count", "sheets_for"),
        "shown": ("shown", "items_on", "page_items"),
        "holding": ("holding", "page_of", "where_is"),
    },
    numbers={"size": (3, 12)},
    source='''
"""Pages of «things»; the first page is 1."""

SIZE = «size»


def «needed»(total):
    """The pages that so many items fill; one where there is none."""
    return max(1, (total + SIZE - 1) // SIZE)


def «shown»(items, number):
    """The items of a page."""
    if number < 1:
        raise ValueError(f"there is no page {number}")
    start = (number - 1) * SIZE
    return items[start : start + SIZE]


def «holding»(position):
    """The page of the item at a position, counted from 0."""
    return position // SIZE + 1
''',
    calls=(
        "«needed»(«size * draw(2, 9)»)",
        "«needed»(«size * draw(2, 9) + 1»)",
        "«needed»(0)",
        "«shown»(list(range(«size * 3»)), 2)",
        "«shown»(list(range(«size + draw(1, 2)»)), 1)",
        "«shown»([1, 2, 3], 0)",
        "«holding»(«size - 1»)",
        "«holding»(«size * draw(2, 9)»)",
    ),
    hidden=(
        "«needed»(«draw(40, 400)»)",
        "«needed»(1)",
        "«shown»(list(range(«size * 2 + 1»)), 3)",
        "«shown»([], 1)",
        "«shown»([1, 2], -1)",
        "«holding»(0)",
        "«holding»(«draw(40, 400)»)",
    ),
    slips=(
        ("edit", "SIZE - 1) // SIZE", "SIZE) // SIZE"),
        ("edit", "(number - 1) * SIZE", "number * SIZE"),
        ("edit", "start + SIZE]", "start + SIZE - 1]"),
        ("edit", "position // SIZE + 1", "position // SIZE"),
        ("edit", "number < 1", "number > 1"),
        ("edit", "max(1, (total", "max(0, (total"),
        ("constant", "SIZE = «size»", "SIZE = «size + draw(1, 5)»"),
        ("constant", "SIZE = «size»", "SIZE = «size * 10»"),
        ("constant", "return position // SIZE + 1", "return position // SIZE + «draw(2, 5)»"),
    ),
    says="A page holds «size» items, the first page is 1. `«needed»(total)`: how many pages, at least one. "
    "`«shown»(items, number)`: the items of a page; below 1, ValueError. `«holding»(position)`: the page of a "
    "position from 0.",
)

RANKS = Plan(
    modules=("ranks", "scores", "standings"),
    words={
        "leaders": ("leaders", "best_names", "front"),
        "place": ("place", "rank_of", "standing"),
        "spread": ("spread", "margin", "distance"),
    },
    numbers={"top": (2, 4), "best": (50, 90)},
    source='''
"""Scores of «things» by name: who is ahead."""

SHOWN = «top»


def «leaders»(scores):
    """The SHOWN best names; among equals the alphabet decides."""
    return sorted(scores, key=lambda name: (-scores[name], name))[:SHOWN]


def «place»(scores, name):
    """The place of a name, 1 for the best; equals share the better place."""
    ahead = [other for other in scores.values() if other > scores[name]]
    return len(ahead) + 1


def «spread»(scores):
    """The distance between the best score and the worst; 0 where there is none."""
    if not scores:
        return 0
    return max(scores.values()) - min(scores.values())
''',
    calls=(
        "«leaders»({name: at * 7 % 5 for at, name in enumerate(«sorted(items[:6])»)})",
        "«leaders»({«name(0)»: «best», «name(1)»: «best»})",
        "«place»({«name(0)»: «best», «name(1)»: «best - 5», «name(2)»: «best»}, «name(0)»)",
        "«place»({«name(3)»: «best», «name(4)»: «best - 5», «name(5)»: 3}, «name(4)»)",
        "«spread»({«name(0)»: «best», «name(1)»: «draw(1, 40)»})",
        "«spread»({})",
    ),
    hidden=(
        "«leaders»({})",
        "«leaders»({name: at * 5 % 7 for at, name in enumerate(«sorted(items[2:9])»)})",
        "«place»({name: at * 5 % 7 for at, name in enumerate(«sorted(items[2:9])»)}, «name(3)»)",
        "«place»({«name(6)»: 0}, «name(6)»)",
        "«spread»({«name(0)»: -«draw(1, 9)», «name(1)»: «draw(1, 40)», «name(2)»: 0})",
    ),
    slips=(
        ("edit", "(-scores[name], name)", "(scores[name], name)"),
        ("edit", "(-scores[name], name)", "(name, -scores[name])"),
        ("edit", "other > scores[name]", "other >= scores[name]"),
        ("edit", "other > scores[name]", "other < scores[name]"),
        ("edit", "max(scores.values()) - min", "min(scores.values()) - max"),
        ("edit", "if not scores", "if scores"),
        ("constant", "SHOWN = «top»", "SHOWN = «top - 1»"),
        ("constant", "len(ahead) + 1", "len(ahead)"),
        ("constant", "return 0\n", "return None\n"),
    ),
    says="`«leaders»(scores)`: the best «top» names, equals by alphabet. `«place»(scores, name)`: 1 for the "
    "best, equals share "
    "a place. `«spread»(scores)`: best less worst, 0 for no scores.",
)

PLANS = (PAGES, RANKS)

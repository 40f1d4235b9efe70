"""Modules that reckon with time: spans of days, minutes, counts day by day."""

from machine.agentic.piece import Plan

SPANS = Plan(
    modules=("spans", "bookings", "stays"),
    words={
        "days": ("days", "length_of", "day_count"),
        "clash": ("clash", "overlap", "collide"),
        "joined": ("joined", "merged", "fused"),
    },
    numbers={"gap": (1, 5), "day": (10, 200)},
    source='''
"""Spans of days for «things»: (first, last), both days counted."""

GAP = «gap»


def «days»(span):
    """The number of days of a span."""
    first, last = span
    return last - first + 1


def «clash»(one, other):
    """Whether two spans share a day."""
    return one[0] <= other[1] and other[0] <= one[1]


def «joined»(spans):
    """The spans in order, as one where the next begins at most GAP days after the last day."""
    found = []
    for first, last in sorted(spans):
        if found and first - found[-1][1] <= GAP:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found
''',
    calls=(
        "«days»((«day», «day + draw(1, 20)»))",
        "«days»((«day», «day»))",
        "«clash»((«day», «day + 5»), («day + 5», «day + draw(6, 12)»))",
        "«clash»((«day + 5», «day + 9»), («day», «day + 5»))",
        "«clash»((«day», «day + 3»), («day + 4», «day + 9»))",
        "«joined»([(«day + 20 + gap», «day + 40»), («day», «day + 20»)])",
        "«joined»([(«day», «day + 30»), («day + 4», «day + 9»), («day + 31 + gap», «day + 60»)])",
    ),
    hidden=(
        "«days»((1, «draw(2, 300)»))",
        "«clash»((1, 9), («draw(2, 4)», «draw(5, 8)»))",
        "«clash»((«draw(20, 30)», 40), (1, «draw(2, 19)»))",
        "«joined»([])",
        "«joined»([(1, 2), («2 + gap», «4 + gap»), («5 + gap * 2», «9 + gap * 2»), (200, 210)])",
    ),
    slips=(
        ("edit", "last - first + 1", "last - first"),
        ("edit", "one[0] <= other[1]", "one[0] < other[1]"),
        ("edit", "other[0] <= one[1]", "other[0] < one[1]"),
        ("edit", "other[1] and other[0]", "other[1] or other[0]"),
        ("edit", "<= GAP", "< GAP"),
        ("edit", "max(last,", "min(last,"),
        ("constant", "GAP = «gap»", "GAP = «gap + draw(1, 4)»"),
        ("constant", "last - first + 1", "last - first + «draw(2, 5)»"),
        ("constant", "return found", "return sorted(spans)"),
    ),
    says="A span is (first, last), both counted. `«days»(span)`: its length. `«clash»(one, other)`: whether "
    "they share a day. "
    "`«joined»(spans)`: those of which the next begins at most «gap» days after the last day are one.",
)

MINUTES = Plan(
    modules=("minutes", "clocks", "hours"),
    words={
        "parsed": ("parsed", "in_minutes", "minutes_of"),
        "clock": ("clock", "as_text", "shown_as"),
        "rounded": ("rounded", "billed", "full_steps"),
    },
    numbers={"step": (5, 25)},
    source='''
"""Times that «things» take: texts such as 2h05, and minutes."""

HOUR = 60
STEP = «step»


def «parsed»(text):
    """The minutes of a text such as "2h05" or "3h"."""
    hours, mark, rest = text.partition("h")
    if not mark:
        raise ValueError(f"{text} has no h")
    return int(hours) * HOUR + int(rest or 0)


def «clock»(total):
    """The text of so many minutes."""
    hours, rest = divmod(total, HOUR)
    return f"{hours}h{rest:02}"


def «rounded»(total):
    """The minutes, rounded up to whole steps of STEP."""
    return -(-total // STEP) * STEP
''',
    calls=(
        "«parsed»('«draw(2, 9)»h«draw(10, 59)»')",
        "«parsed»('«draw(2, 9)»h')",
        "«parsed»('«draw(10, 99)»')",
        "«clock»(«draw(2, 9) * 60 + draw(1, 9)»)",
        "«clock»(«draw(11, 59)»)",
        "«rounded»(«step * draw(2, 8) + 1»)",
        "«rounded»(«step * draw(2, 8)»)",
    ),
    hidden=(
        "«parsed»('0h«draw(10, 59)»')",
        "«parsed»('«draw(10, 40)»h05')",
        "«clock»(0)",
        "«clock»(«draw(10, 40) * 60»)",
        "«rounded»(0)",
        "«rounded»(«step * draw(9, 20) - 1»)",
    ),
    slips=(
        ("edit", "* HOUR + int", "* HOUR - int"),
        ("edit", "divmod(total, HOUR)", "divmod(HOUR, total)"),
        ("edit", "{rest:02}", "{rest:2}"),
        ("edit", "-(-total // STEP)", "(total // STEP)"),
        ("edit", "if not mark", "if mark"),
        ("constant", "HOUR = 60", "HOUR = «draw(4, 10) * 10 + 5»"),
        ("constant", "STEP = «step»", "STEP = «step + draw(1, 5)»"),
        ("constant", "int(rest or 0)", "int(rest or «draw(1, 30)»)"),
        ("constant", "return -(-total // STEP) * STEP", "return -(-total // STEP)"),
    ),
    says="`«parsed»(text)`: the minutes of `2h05` or `3h`; without an h, ValueError. `«clock»(total)`: the other way, "
    "two digits for minutes. `«rounded»(total)`: up to whole steps of «step» minutes.",
)

COUNTS = Plan(
    modules=("counts", "daily", "tallies"),
    words={
        "sums": ("sums", "window_sums", "moving_sums"),
        "streak": ("streak", "longest_run", "best_run"),
        "changes": ("changes", "differences", "steps_between"),
    },
    numbers={"width": (2, 4), "full": (4, 30)},
    source='''
"""Counts of «things», day by day."""

WIDTH = «width»
FULL = «full»


def «sums»(counts):
    """The sum of every WIDTH counts that follow one another."""
    return [sum(counts[at : at + WIDTH]) for at in range(len(counts) - WIDTH + 1)]


def «streak»(counts):
    """The length of the longest run of counts that are FULL or more."""
    best = run = 0
    for count in counts:
        run = run + 1 if count >= FULL else 0
        best = max(best, run)
    return best


def «changes»(counts):
    """By how much each count differs from the one before."""
    return [after - before for before, after in zip(counts, counts[1:])]
''',
    calls=(
        "«sums»([«draw(1, 9)», «draw(10, 30)», «draw(1, 9)», «draw(10, 30)», «draw(1, 9)», «draw(10, 30)»])",
        "«streak»([«full», «full + draw(1, 9)», «full - 1», «full», «full + 1», «full + draw(1, 4)», 0, «full»])",
        "«streak»([«full - 1», 0])",
        "«changes»([«draw(1, 30)», «draw(31, 60)», «draw(1, 30)»])",
        "«changes»([«draw(1, 30)»])",
    ),
    hidden=(
        "«sums»([«draw(1, 9)»])",
        "«sums»([«draw(10, 20)», «draw(1, 9)», «draw(10, 20)», «draw(1, 9)», «draw(10, 20)»])",
        "«streak»([])",
        "«streak»([«full», «full», 0, «full»])",
        "«changes»([«draw(1, 90)», «draw(1, 90)», «draw(1, 90)», «draw(1, 90)»])",
    ),
    slips=(
        ("edit", "- WIDTH + 1)", "- WIDTH)"),
        ("edit", "at + WIDTH]", "at + WIDTH + 1]"),
        ("edit", "count >= FULL", "count > FULL"),
        ("edit", "max(best, run)", "min(best, run)"),
        ("edit", "after - before for", "before - after for"),
        ("constant", "WIDTH = «width»", "WIDTH = «width + draw(1, 2)»"),
        ("constant", "FULL = «full»", "FULL = «full + draw(1, 3)»"),
        ("constant", "else 0\n", "else 1\n"),
        ("constant", "return best", "return run"),
    ),
    says="`«sums»(counts)`: of every «width» counts in a row. `«streak»(counts)`: the longest run of days "
    "with «full» or more. "
    "`«changes»(counts)`: each count less the one before.",
)

PLANS = (SPANS, MINUTES, COUNTS)

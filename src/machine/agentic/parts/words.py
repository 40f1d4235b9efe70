"""Modules that make text: a table, codes."""

from machine.agentic.piece import Plan

TABLE = Plan(
    modules=("table", "columns", "listing"),
    words={
        "cell": ("cell", "padded", "fitted"),
        "line": ("line", "row_text", "joined_cells"),
        "ruler": ("ruler", "rule_line", "underline"),
        "mark": ("|", ":", "/", "+"),
    },
    numbers={"width": (7, 16)},
    source='''
"""Lines of text for a table of «things»."""

WIDTH = «width»
MARK = " «mark» "


def «cell»(text):
    """The text, WIDTH letters wide; a longer one is cut and ends with a dot."""
    if len(text) > WIDTH:
        return text[: WIDTH - 1] + "."
    return text.ljust(WIDTH)


def «line»(texts):
    """The cells of a line with MARK between them, without blanks at the end."""
    return MARK.join(«cell»(text) for text in texts).rstrip()


def «ruler»(columns):
    """A line of dashes under so many columns."""
    return "-" * (columns * WIDTH + (columns - 1) * len(MARK))
''',
    calls=(
        "«cell»(«repr((items[0] * 6)[:width])»)",
        "«cell»(«repr((items[1] * 6)[: width + 1])»)",
        "«cell»(«repr(items[2][:5])»)",
        "«line»([«name(3)», «name(4)», '«draw(1, 99)»'])",
        "«ruler»(«draw(2, 5)»)",
    ),
    hidden=(
        "«cell»('')",
        "«cell»(«repr(items[5] * 4)»)",
        "«line»([])",
        "«line»([«name(6)», «repr(items[7] * 3)»])",
        "«ruler»(1)",
        "«ruler»(«draw(6, 9)»)",
    ),
    slips=(
        ("edit", "len(text) > WIDTH", "len(text) >= WIDTH"),
        ("edit", "WIDTH - 1]", "WIDTH]"),
        ("edit", "text.ljust(WIDTH)", "text.rjust(WIDTH)"),
        ("edit", "(columns - 1) * len", "columns * len"),
        ("edit", "columns * WIDTH + (", "columns + WIDTH + ("),
        ("constant", "WIDTH = «width»", "WIDTH = «width + draw(1, 4)»"),
        ("constant", 'MARK = " «mark» "', 'MARK = " ; "'),
        ("constant", '+ "."', '+ ".."'),
        ("constant", 'return "-" *', 'return "=" *'),
    ),
    says='`«cell»(text)`: «width» letters wide; a longer text ends with a dot. `«line»(texts)`: cells with " '
    '«mark» " between '
    "them. `«ruler»(columns)`: dashes as wide as so many columns.",
)

CODES = Plan(
    modules=("codes", "labels", "tags"),
    words={
        "slug": ("slug", "short_name", "code_name"),
        "digit": ("digit", "check_digit", "proof_digit"),
        "valid": ("valid", "is_sound", "in_order"),
        "join": ("-", "_", "."),
    },
    numbers={"length": (9, 16), "weight": (3, 7)},
    source='''
"""Codes for «things»: short names, and numbers with a check digit."""

LENGTH = «length»
WEIGHT = «weight»


def «slug»(name):
    """The words in lower case with "«join»" between them, at most LENGTH letters."""
    return "«join»".join(name.lower().split())[:LENGTH]


def «digit»(number):
    """The digit that fills the sum of digits up to a ten; each second one counts WEIGHT times."""
    total = 0
    for at, each in enumerate(str(number)):
        total += int(each) * (WEIGHT if at % 2 else 1)
    return -total % 10


def «valid»(code):
    """Whether the last digit of a code is its check digit."""
    return «digit»(code // 10) == code % 10
''',
    calls=(
        "«slug»(«repr(items[0].title() + '  ' + items[1].title() + ' ' + items[2])»)",
        "«slug»(«repr('A ' + items[3][:3])»)",
        "«digit»(«draw(1000, 9999) * 10 + 1»)",
        "«digit»(«draw(12, 98)»)",
        "«digit»(«draw(100, 999)»)",
        "«valid»(«draw(1000, 9999)»)",
        "[«valid»(each) for each in range(«weight * 100», «weight * 100 + 10»)]",
    ),
    hidden=(
        "«slug»('')",
        "«slug»(«repr(items[4].upper() + ' ' + items[5].upper() + ' ' + items[6])»)",
        "«digit»(0)",
        "«digit»(«draw(100000, 999999)»)",
        "[«valid»(each) for each in range(«draw(100, 900)», «draw(910, 950)»)]",
    ),
    slips=(
        ("edit", "(WEIGHT if at % 2 else 1)", "(1 if at % 2 else WEIGHT)"),
        ("edit", "-total % 10", "total % 10"),
        ("edit", "code // 10", "code // 100"),
        ("edit", "name.lower()", "name.upper()"),
        ("edit", "== code % 10", "!= code % 10"),
        ("constant", "LENGTH = «length»", "LENGTH = «length - draw(1, 4)»"),
        ("constant", "WEIGHT = «weight»", "WEIGHT = «weight + draw(1, 2)»"),
        ("constant", "total = 0", "total = «draw(1, 9)»"),
        ("constant", 'return "«join»".join', 'return "~".join'),
    ),
    says='`«slug»(name)`: lower case, "«join»" between words, at most «length» letters. `«digit»(number)`: '
    "fills the sum of "
    "digits up to a ten, the second, fourth ... digit counting «weight» times. `«valid»(code)`: whether the "
    "last digit is that.",
)

PLANS = (TABLE, CODES)

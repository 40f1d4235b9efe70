"""Modules that count money and goods: pricing, an account, stock."""

from machine.agentic.piece import Plan

PRICING = Plan(
    modules=("pricing", "prices", "tariff"),
    words={"reduced": ("reduced", "bulk_price", "price_of"), "posted": ("posted", "with_postage", "delivered")},
    numbers={"bulk": (5, 24), "percent": (5, 40), "free": (2000, 9000), "postage": (150, 990)},
    source='''
"""Prices of «things», in cents."""

BULK = «bulk»
PERCENT = «percent»
FREE_FROM = «free»
POSTAGE = «postage»


def «reduced»(cents, pieces):
    """The price of so many pieces at `cents` each; from BULK pieces on it falls by PERCENT."""
    whole = cents * pieces
    if pieces >= BULK:
        whole -= whole * PERCENT // 100
    return whole


def «posted»(cents):
    """The price with postage, which is free from FREE_FROM on."""
    if cents >= FREE_FROM:
        return cents
    return cents + POSTAGE
''',
    calls=(
        "«reduced»(«draw(2, 9) * 50», «bulk - 1»)",
        "«reduced»(«draw(2, 9) * 100», «bulk»)",
        "«reduced»(«draw(2, 9) * 70», «bulk + draw(1, 9)»)",
        "«posted»(«free»)",
        "«posted»(«free - draw(1, 99)»)",
        "«posted»(«free + draw(1, 99)»)",
    ),
    hidden=(
        "«reduced»(«draw(100, 900)», 1)",
        "«reduced»(«draw(100, 900)», «bulk»)",
        "«reduced»(«draw(100, 900)», «bulk * 3 + draw(0, 9)»)",
        "«posted»(«draw(1, 1500)»)",
        "«posted»(«free - 1»)",
        "«posted»(«free * 2»)",
    ),
    slips=(
        ("edit", "pieces >= BULK", "pieces > BULK"),
        ("edit", "pieces >= BULK", "pieces <= BULK"),
        ("edit", "whole -= whole", "whole += whole"),
        ("edit", "cents >= FREE_FROM", "cents > FREE_FROM"),
        ("edit", "cents + POSTAGE", "cents - POSTAGE"),
        ("constant", "BULK = «bulk»", "BULK = «bulk + draw(1, 4)»"),
        ("constant", "PERCENT = «percent»", "PERCENT = «percent + draw(1, 9)»"),
        ("constant", "POSTAGE = «postage»", "POSTAGE = «postage * 10»"),
        ("constant", "return whole", "return cents"),
    ),
    says="`«reduced»(cents, pieces)`: from «bulk» pieces on, the price falls by «percent» per cent (rounded down). "
    "`«posted»(cents)`: postage is «postage» cents, and free from «free» cents on.",
)

ACCOUNT = Plan(
    modules=("account", "purse", "cashbook"),
    words={
        "balances": ("balances", "running", "held_after"),
        "overdrawn": ("overdrawn", "debts", "times_in_debt"),
        "shares": ("shares", "parted", "split_evenly"),
    },
    numbers={"limit": (100, 900)},
    source='''
"""The account of «things»: what came in and went out, in cents."""

LIMIT = «limit»


def «balances»(moves):
    """The balance after each move."""
    held, found = 0, []
    for move in moves:
        held += move
        found.append(held)
    return found


def «overdrawn»(moves):
    """The number of moves after which the account is more than LIMIT in debt."""
    return sum(1 for held in «balances»(moves) if held < -LIMIT)


def «shares»(cents, people):
    """Whole shares of `cents`; the first people take one more where something is left over."""
    each, over = divmod(cents, people)
    return [each + 1 if number < over else each for number in range(people)]
''',
    calls=(
        "«balances»([«draw(100, 900)», -«draw(10, 90)», «draw(5, 70)», -«draw(10, 90)»])",
        "«balances»([])",
        "«overdrawn»([-«limit», -1, 1, -«draw(2, 50)»])",
        "«overdrawn»([«draw(1, 99)», -«limit»])",
        "«shares»(«draw(30, 90) * 3 + 1», 3)",
        "«shares»(«draw(30, 90) * 4», 4)",
    ),
    hidden=(
        "«balances»([-«draw(1, 99)», «draw(100, 300)», -«draw(400, 700)»])",
        "«overdrawn»([-«limit» - «draw(1, 50)», 20, -«limit»])",
        "«overdrawn»([-«limit»])",
        "«shares»(«draw(10, 99) * 5 + 3», 5)",
        "«shares»(2, 4)",
    ),
    slips=(
        ("edit", "held < -LIMIT", "held <= -LIMIT"),
        ("edit", "held < -LIMIT", "held < LIMIT"),
        ("edit", "held += move", "held = move"),
        ("edit", "divmod(cents, people)", "divmod(people, cents)"),
        ("edit", "number < over", "number <= over"),
        ("constant", "LIMIT = «limit»", "LIMIT = «limit + draw(1, 9) * 100»"),
        ("constant", "return found", "return found[1:]"),
        ("constant", "held, found = 0, []", "held, found = «draw(1, 9)», []"),
    ),
    says="`«balances»(moves)`: the balance after each move, from 0. `«overdrawn»(moves)`: how often the "
    "account is more "
    "than «limit» cents in debt. `«shares»(cents, people)`: whole cents; what is left over goes to the first ones.",
)

STOCK = Plan(
    modules=("stock", "store", "pantry"),
    words={
        "counted": ("counted", "on_hand", "stocked"),
        "missing": ("missing", "to_order", "running_low"),
        "crates": ("crates", "boxes_for", "packages"),
    },
    numbers={"low": (3, 15), "box": (6, 24)},
    source='''
"""How many «things» there are, and what has to be ordered."""

LOW = «low»
CRATE = «box»


def «counted»(moves):
    """The pieces by name, of moves (name, pieces); nothing falls below zero."""
    held = {}
    for name, pieces in moves:
        held[name] = max(0, held.get(name, 0) + pieces)
    return held


def «missing»(held):
    """The names, in order, of which fewer than LOW pieces are there."""
    return sorted(name for name, pieces in held.items() if pieces < LOW)


def «crates»(pieces):
    """The number of crates, of CRATE pieces each, that hold all pieces."""
    return (pieces + CRATE - 1) // CRATE
''',
    calls=(
        "«counted»([(«name(0)», «draw(5, 30)»), («name(1)», «draw(2, 9)»), («name(0)», -«draw(1, 4)»)])",
        "«counted»([(«name(2)», «draw(1, 5)»), («name(2)», -«draw(6, 9)»)])",
        "«missing»({«name(3)»: «low», «name(4)»: «low - 1», «name(5)»: «low + draw(1, 9)»})",
        "«crates»(«box * draw(2, 6)»)",
        "«crates»(«box * draw(2, 6) + 1»)",
    ),
    hidden=(
        "«counted»([(«name(6)», -1), («name(6)», «draw(3, 9)»)])",
        "«counted»([])",
        "«missing»({«name(7)»: 0, «name(6)»: «low - 1», «name(1)»: «low»})",
        "«crates»(0)",
        "«crates»(«box - 1»)",
    ),
    slips=(
        ("edit", "pieces < LOW", "pieces <= LOW"),
        ("edit", "pieces < LOW", "pieces > LOW"),
        ("edit", "max(0,", "min(0,"),
        ("edit", "CRATE - 1)", "CRATE)"),
        ("edit", "held.get(name, 0) + pieces", "held.get(name, 0) - pieces"),
        ("constant", "LOW = «low»", "LOW = «low + draw(1, 3) * 10»"),
        ("constant", "CRATE = «box»", "CRATE = «box - draw(1, 4)»"),
        ("constant", "held.get(name, 0)", "held.get(name, «draw(1, 5)»)"),
        ("constant", "return held", "return list(held)"),
    ),
    says="`«counted»(moves)`: pieces by name, never below 0. `«missing»(held)`: names with fewer than «low» pieces. "
    "`«crates»(pieces)`: crates of «box», the last one may be part full.",
)

PLANS = (PRICING, ACCOUNT, STOCK)

"""Parts: the plans of small modules that reckon, of which every made repository has a few."""

from machine.agentic.parts import money, order, space, time, words

PLANS = (*money.PLANS, *time.PLANS, *words.PLANS, *order.PLANS, *space.PLANS)
"""All plans; the names of their modules and functions are all different."""
